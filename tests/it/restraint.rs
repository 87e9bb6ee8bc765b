//! What keeps retries from doing harm: a tenant whose requests break cells is kept to one of them, and only so much is tried
//! again.

use std::time::Duration;

use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_router::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, fleet};
use crate::support::raw::{self, get, post};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Refusing, Scripted, answer, ok};

/// A cell that dies of `/poison`, as far as its router can see, and answers everything else.
async fn mortal(name: &str) -> Scripted {
    let answer = ok(name);
    Scripted::start(move |seen| match seen.head.second_word() {
        "/poison" => Play::Close,
        _ => Play::Answer(answer.clone()),
    })
    .await
}

#[tokio::test]
async fn a_tenant_that_was_at_two_losses_is_sent_to_its_home_alone_and_the_operator_is_told() {
    // P39: poison is not carried on.
    let (home, second) = (mortal("home").await, mortal("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    assert_eq!(router.ask(get("/poison", "acme")).await.problem(), "cell_lost");
    assert_eq!((home.seen().len(), second.seen().len()), (1, 1), "the first is carried on as ever");
    for _ in 0..5 {
        assert_eq!(router.ask(get("/poison", "acme")).await.problem(), "cell_lost");
    }
    assert_eq!((home.seen().len(), second.seen().len()), (6, 1), "the others are not");
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!(router.ask(get("/", "globex")).await.text(), "second");

    let told = router.admin("/losses").await;
    assert_eq!(told["confined"].as_array().unwrap().len(), 1, "{told}");
    let confined = &told["confined"][0];
    assert_eq!((confined["tenant"].as_str(), confined["lost"][1].as_str()), (Some("acme"), Some("cell-b")));
    assert!((1..=60_000).contains(&confined["ends_in_ms"].as_u64().unwrap()));
    let is_confined =
        async |tenant: &str| router.admin(&format!("/tenants/{tenant}")).await["confined"].as_bool();
    assert_eq!((is_confined("acme").await, is_confined("globex").await), (Some(true), Some(false)));
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_tenants_confined", &[]), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_tenants_ever_confined_total", &[]), 1.0);

    home.stop().await;
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (503, "pair_down"));
    assert_eq!(router.ask(get("/", "globex")).await.text(), "second");
    router.idle().await;
}

#[tokio::test]
async fn without_the_guard_poison_is_carried_on() {
    let (home, second) = (mortal("home").await, mortal("second").await);
    let text = fleet(&[home.address, second.address], &format!("{PINS}poison_guard: false\n"));
    let router = TestRouter::start(&text);
    for n in 1..=3 {
        assert_eq!(router.ask(get("/poison", "acme")).await.problem(), "cell_lost");
        assert_eq!((home.seen().len(), second.seen().len()), (n, n));
    }
    assert_eq!(router.admin("/losses").await["losses"], 0);
}

#[tokio::test]
async fn a_poisonous_post_confines_as_a_get_does() {
    let home = Scripted::start(|seen| match seen.head.second_word() {
        "/poison" => Play::Die,
        _ => Play::Answer(ok("home")),
    });
    let (home, second) = (home.await, mortal("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    // The connections are kept from an answer before, as most are.
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!(router.ask(post("/poison", "acme", b"body")).await.problem(), "cell_lost");
    // Home refuses connections now, so the next one meets the other cell.
    assert_eq!(router.ask(post("/poison", "acme", b"body")).await.problem(), "cell_lost");
    assert_eq!(router.admin("/tenants/acme").await["confined"], true);
    assert_eq!(router.ask(post("/", "acme", b"body")).await.problem(), "pair_down");
    assert_eq!(second.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_a_loss_and_a_connection_closed_for_its_age_is_none() {
    let broken = |load: &str| {
        let head = format!("endpoint-load-metrics: TEXT application_utilization={load}\r\n");
        let whole = answer("200 OK", &head, "more than will come");
        whole[..whole.len() - 4].to_vec()
    };
    let (full, idle) = (broken("1"), broken("0"));
    let home = Scripted::start(move |seen| match seen.head.second_word() {
        "/aged" => Play::Last(ok("home")),
        _ => Play::Last(full.clone()),
    })
    .await;
    let second = Scripted::start(move |_| Play::Last(idle.clone())).await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    for n in 1..=5 {
        assert_eq!(router.ask(get("/aged", "acme")).await.text(), "home");
        eventually("the connection to be used", async || (home.n_connections() >= n).then_some(())).await;
    }
    let losses = async || router.admin("/losses").await["losses"].as_u64();
    assert_eq!(losses().await, Some(0));
    for n in 1..=2 {
        // The home says that it is full, so the second one is at the other cell.
        assert!(!router.ask(get("/", "acme")).await.whole);
        eventually("the loss to be counted", async || (losses().await == Some(n)).then_some(())).await;
    }
    assert_eq!(router.admin("/tenants/acme").await["confined"], true);
}

#[tokio::test]
async fn a_post_on_a_kept_connection_that_is_closed_is_no_loss_as_long_as_a_fresh_one_stands() {
    let (home, second) = (mortal("home").await, mortal("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    for n in 1..=3 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
        assert_eq!(router.ask(post("/poison", "acme", b"body")).await.problem(), "cell_lost");
        assert_eq!(home.seen().len(), 2 * n);
    }
    assert_eq!(router.admin("/losses").await["losses"], 0);
    // The connection that was looked for stood, and serves the next.
    assert_eq!(home.n_connections(), 4);
    router.idle().await;
}

#[tokio::test]
async fn what_breaks_long_after_it_was_sent_was_not_closed_for_its_age_whoever_listens() {
    let (home, second) = (mortal("home").await, mortal("second").await);
    let upstream = UpstreamLimits { aged: Duration::ZERO, ..UpstreamLimits::default() };
    let settings = Settings { upstream, ..settings() };
    let router = TestRouter::with(&fleet(&[home.address, second.address], PINS), settings, 1);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!(router.ask(post("/poison", "acme", b"body")).await.problem(), "cell_lost");
    assert_eq!(router.admin("/losses").await["losses"], 1);
}

#[tokio::test]
async fn a_poisonous_get_that_kills_the_backend_of_an_agent_is_a_loss_and_costs_a_retry() {
    // It comes on connections that were kept, as most do, and a backend that died takes no fresh one.
    let dies = |name: &'static str| {
        Scripted::start(move |seen| match seen.head.second_word() {
            "/poison" => Play::Die,
            _ => Play::Answer(ok(name)),
        })
    };
    let fleet = TestFleet::before(PINS, [dies("one").await, dies("two").await]).await;
    assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "one");
    assert_eq!(fleet.router.ask(get("/", "globex")).await.text(), "two");
    let answer = fleet.router.ask(get("/poison", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (502, "cell_lost"));
    assert_eq!(fleet.router.admin("/losses").await["losses"], 2);
    assert_eq!(fleet.router.admin("/tenants/acme").await["confined"], true);
    let metrics = fleet.router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_retries_total", &[]), 1.0);
    let last = fleet.cells[1].backend.seen().pop().unwrap();
    assert_eq!((last.head.second_word(), last.head.field("cofferdam-attempt")), ("/poison", Some("2")));
}

#[tokio::test]
async fn a_kept_connection_that_a_backend_closes_is_no_loss_either() {
    let backends = [mortal("one").await, mortal("two").await];
    let fleet = TestFleet::before(PINS, backends).await;
    for _ in 0..3 {
        assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "one");
        assert_eq!(fleet.router.ask(post("/poison", "acme", b"body")).await.status(), 502);
    }
    assert_eq!(fleet.router.admin("/losses").await["losses"], 0);
    // On a fresh one it is, since that cannot have been closed for its age.
    let backends = [mortal("one").await, mortal("two").await];
    let fleet = TestFleet::before(PINS, backends).await;
    assert_eq!(fleet.router.ask(post("/poison", "acme", b"body")).await.status(), 502);
    assert_eq!(fleet.router.admin("/losses").await["losses"], 1);
}

#[tokio::test]
async fn a_long_answer_that_a_draining_agent_cuts_is_no_loss() {
    // A body that stands still after its first bytes.
    let backend = || {
        Scripted::raw(async |mut stream, _| {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun").await;
            std::future::pending().await
        })
    };
    let mut fleet = TestFleet::probed_before(PINS, [backend().await, backend().await]).await;
    let mut client = raw::Client::connect(fleet.router.data).await;
    client.send(get("/", "acme")).await;
    let holds = async || (fleet.cells[0].in_use("default").await == 1.0).then_some(());
    eventually("the answer to be on its way", holds).await;
    fleet.cells.remove(0).leave().await;
    assert!(!client.answer().await.whole);
    fleet.router.idle().await;
    let losses = fleet.router.admin("/losses").await;
    assert_eq!(losses["losses"], 0);
}

#[tokio::test]
async fn a_connection_that_was_closed_for_its_age_costs_no_retry_and_a_cell_that_died_does() {
    // Every connection serves one request, and is closed as soon as the second is there.
    let home = Scripted::raw(async |mut stream, _| {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(&ok("home")).await;
        let _ = stream.read(&mut [0; 4096]).await;
    });
    let (home, second) = (home.await, Scripted::named("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{POOR}")));
    for _ in 0..5 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    }
    let retries =
        async |router: &TestRouter| router.metrics().await.sum("cofferdam_router_retries_total", &[]);
    assert_eq!((retries(&router).await, home.n_connections()), (0.0, 5));

    let home = Scripted::start(|seen| match seen.head.second_word() {
        "/poison" => Play::Die,
        _ => Play::Answer(ok("home")),
    });
    let home = home.await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{POOR}")));
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!(router.ask(get("/poison", "acme")).await.text(), "second");
    assert_eq!(retries(&router).await, 1.0, "it may have been executed, and was tried elsewhere");
    let seen = second.seen();
    assert_eq!(seen.last().unwrap().head.field("cofferdam-attempt"), Some("2"));
}

const POOR: &str = "retry_budget: { tenant_ratio: 0, tenant_floor: 6/min }\npoison_guard: false\n";

#[tokio::test]
async fn retries_end_with_the_tenants_budget_and_what_reached_nobody_costs_none() {
    // P15
    let (home, second) = (mortal("home").await, Scripted::named("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{POOR}")));
    assert_eq!(router.admin("/tenants/acme").await["retries_left"], 1);
    assert_eq!(router.ask(get("/poison", "acme")).await.text(), "second");
    let answer = router.ask(get("/poison", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (502, "cell_lost"));
    assert_eq!((home.seen().len(), second.seen().len()), (2, 1));
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_router_retries_total", &[]), 1.0);
    assert_eq!(metrics.sum("cofferdam_router_retries_denied_total", &["budget=\"tenant\""]), 1.0);
    let left = router.admin("/fleet").await["retries_left"].as_u64().unwrap();
    assert!((98..=100).contains(&left), "{left} of the 100 of all");

    // A cell that cannot be reached, and one that refuses, have executed nothing.
    let full = Scripted::start(|_| Play::Answer(crate::support::scripted::refusal("503 Full", "cell"))).await;
    for first in [Refusing::new().address, full.address] {
        let router = TestRouter::start(&fleet(&[first, second.address], &format!("{PINS}{POOR}")));
        for _ in 0..5 {
            assert_eq!(router.ask(post("/", "acme", b"body")).await.text(), "second");
        }
        let seen = second.seen();
        let attempts = seen[seen.len() - 5..].iter().map(|seen| seen.head.field("cofferdam-attempt"));
        assert!(attempts.clone().all(|attempt| attempt == Some("1")), "{:?}", attempts.collect::<Vec<_>>());
        assert_eq!(router.metrics().await.sum("cofferdam_router_retries_total", &[]), 0.0);
    }
}

#[tokio::test]
async fn an_agent_that_is_short_of_places_lets_first_attempts_wait_and_no_retry() {
    let rest = "routes: [{ match: { path: / }, timeout: 5m }]\n\
                cell: { classes: { default: { ceiling: 1, queue: 1, max_wait: 60s } }, tenant_share: 1 }\n";
    let fleet = TestFleet::start(&format!("{PINS}{rest}")).await;
    let mut held = raw::Client::connect(fleet.router.data).await;
    held.send(get("/hold", "acme")).await;
    let holds = async |n| (fleet.cells[0].in_use("default").await == n).then_some(());
    eventually("the only place to be held", async || holds(1.0).await).await;
    let hop = |attempt: u8| {
        format!(
            "GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: globex\r\ncofferdam-class: default\r\n\
             cofferdam-attempt: {attempt}\r\ncofferdam-remaining-ms: 250000\r\ncofferdam-revision: 1\r\n\
             cofferdam-digest: 00\r\n\r\n"
        )
    };
    let agent = fleet.cells[0].address;
    assert_eq!(raw::ask(agent, hop(2)).await.field("cofferdam-refused"), Some("class"));
    let mut first = raw::Client::connect(agent).await;
    first.send(hop(1)).await;
    let queued = async || fleet.cells[0].metrics().await.sum("cofferdam_agent_queued", &[]);
    eventually("the first attempt to wait", async || (queued().await == 1.0).then_some(())).await;
    fleet.cells[0].backend.release(1);
    assert_eq!(held.answer().await.status(), 200);
    assert_eq!(first.answer().await.text(), "cell-a");
    eventually("the place to be free", async || holds(0.0).await).await;
    assert_eq!(raw::ask(agent, hop(2)).await.text(), "cell-a", "with a place free a retry has it");
}
