//! What another cell may be asked, and what it may not. Nothing ever leaves the tenant's two cells.

use std::time::{Duration, Instant};

use cofferdam_proxy::upstream::UpstreamLimits;
use cofferdam_router::Settings;

use crate::support::files::{PINS, fleet};
use crate::support::raw::{get, post, with_fields};
use crate::support::relay::{Relay, Weather};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Refusing, Scripted, Swallowing, ok, refusal};

const HASTY: &str = "routes: [{ match: { path: / }, class: default, timeout: 500ms }]\n";

#[tokio::test]
async fn a_home_that_refuses_connections_is_replaced_by_the_second_cell() {
    let (home, second) = (Refusing::new(), Scripted::named("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    for request in
        [get("/", "acme").into_bytes(), post("/", "acme", b"body"), post("/", "acme", &[b'x'; 200_000])]
    {
        let answer = router.ask(request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, "second"));
    }
    let seen = second.seen();
    assert_eq!((seen[1].body.as_slice(), seen[2].body.len()), (&b"body"[..], 200_000));
    // No backend can have seen it before, so that no agent takes it for a retry.
    assert!(seen.iter().all(|seen| seen.head.field("cofferdam-attempt") == Some("1")));
    router.idle().await;
}

#[tokio::test]
async fn with_both_cells_down_the_answer_is_503_and_no_third_cell_is_touched() {
    let (home, second, third) = (Refusing::new(), Refusing::new(), Scripted::named("third").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address, third.address], PINS));
    for request in [get("/", "acme").into_bytes(), post("/", "acme", b"body")] {
        let answer = router.ask(request).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (503, "pair_down"));
        assert!(answer.number("retry-after") >= 1);
        assert!(answer.field("ratelimit").is_some());
    }
    assert_eq!(third.n_connections(), 0);
    router.idle().await;
    // Nothing reached a backend, so nothing was paid: the bucket is as full as before.
    let burst = router.ask(get("/", "acme")).await;
    assert_eq!(burst.number("ratelimit-remaining"), burst.number("ratelimit-limit") - 1);
}

#[tokio::test]
async fn what_is_believed_down_is_tried_last_and_comes_back_by_an_answer() {
    let backend = Scripted::named("home").await;
    let (home, second) = (Relay::before(backend.address).await, Refusing::new());
    let router = TestRouter::start(&fleet(&[second.address, home.address], PINS));
    // acme's home is down for good: every request is served, by the only cell that answers.
    for _ in 0..5 {
        assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    }
    let cells = router.admin("/cells").await;
    assert_eq!((cells[0]["up"].as_bool(), cells[1]["up"].as_bool()), (Some(false), Some(true)));
}

#[tokio::test]
async fn an_attempt_to_connect_that_is_swallowed_costs_the_connect_timeout_and_no_more() {
    let (home, second) = (Swallowing::new().await, Scripted::named("second").await);
    // So long that no request takes it on a busy machine.
    let connect = Duration::from_millis(1500);
    let upstream = UpstreamLimits { connect, ..UpstreamLimits::default() };
    let text = fleet(&[home.address, second.address], PINS);
    let router = TestRouter::with(&text, Settings { upstream, ..settings() }, 1);
    let begun = Instant::now();
    assert_eq!(router.ask(post("/", "acme", b"body")).await.text(), "second");
    assert!(begun.elapsed() >= connect, "the home was not tried");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let again = Instant::now();
    assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    assert!(again.elapsed() < connect, "the home was not tried last");
}

#[tokio::test]
async fn a_cell_that_never_answers_is_504_at_the_routes_timeout() {
    // P13
    let (home, second) = (Scripted::start(|_| Play::Hang).await, Scripted::named("second").await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{HASTY}")));
    let begun = Instant::now();
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (504, "deadline"));
    assert!(begun.elapsed() >= Duration::from_millis(500) && begun.elapsed() < Duration::from_secs(5));
    assert_eq!(second.n_connections(), 0, "what may still be executed is not executed twice");
    router.idle().await;
    let remaining: u64 = home.only().head.field("cofferdam-remaining-ms").unwrap().parse().unwrap();
    assert!((1..=500).contains(&remaining), "{remaining}");
}

#[tokio::test]
async fn a_trusted_peer_bounds_the_deadline_with_what_is_left_and_a_stranger_does_not() {
    let (home, second) = (Scripted::start(|_| Play::Hang).await, Scripted::named("second").await);
    let host = "tenant: { from: [ host: { pattern: \"{tenant}.example\" } ] }\n";
    let ask = |said: &str| {
        let fields = format!("cofferdam-remaining-ms: {said}\r\n");
        with_fields("GET", "/", "acme", &fields).replace("test.example", "acme.example")
    };
    for (sources, said, most) in
        [("", "200", 200), ("", "90000", 500), (host, "200", 500), (host, "soon", 500)]
    {
        let router =
            TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{HASTY}{sources}")));
        let begun = Instant::now();
        let answer = router.ask(ask(said)).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (504, "deadline"), "{said}");
        assert!(begun.elapsed() >= Duration::from_millis(most), "{said}: {:?}", begun.elapsed());
        let seen = home.seen().pop().unwrap();
        let remaining: u64 = seen.head.field("cofferdam-remaining-ms").unwrap().parse().unwrap();
        assert!((1..=most).contains(&remaining), "{said}: {remaining}");
        router.idle().await;
    }
    let (n_asked, router) =
        (home.seen().len(), TestRouter::start(&fleet(&[home.address, second.address], PINS)));
    for said in ["soon", "-1", "", "1\r\ncofferdam-remaining-ms: 1"] {
        let answer = router.ask(ask(said)).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (400, "bad_request"), "{said:?}");
    }
    assert_eq!(router.ask(ask("0")).await.status(), 504);
    assert_eq!(home.seen().len(), n_asked, "what is too late is not sent");
    router.idle().await;
}

#[tokio::test]
async fn a_cell_that_falls_silent_behind_an_open_connection_is_504_as_well() {
    let (backend, second) = (Scripted::named("home").await, Scripted::named("second").await);
    let home = Relay::before(backend.address).await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], &format!("{PINS}{HASTY}")));
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    home.set(Weather::Silent);
    assert_eq!(router.ask(get("/", "acme")).await.status(), 504);
    home.set(Weather::Clear);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    router.idle().await;
}

#[tokio::test]
async fn only_a_full_cell_moves_a_request_and_what_its_tenant_or_class_did_stays() {
    // P48
    let second = Scripted::named("second").await;
    for (status, reason, moved, problem) in [
        ("503 Service Unavailable", "cell", true, ""),
        ("429 Too Many Requests", "tenant", false, "cell_tenant"),
        ("503 Service Unavailable", "class", false, "cell_class"),
    ] {
        let home = Scripted::start(move |_| Play::Answer(refusal(status, reason))).await;
        let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
        let before = second.seen().len();
        let answer = router.ask(post("/", "acme", b"body")).await;
        assert_eq!(second.seen().len() - before, usize::from(moved), "{reason}");
        if moved {
            assert_eq!((answer.status(), second.seen()[before].body.as_slice()), (200, &b"body"[..]));
        } else {
            assert_eq!(
                (answer.status().to_string().as_str(), answer.problem().as_str()),
                (&status[..3], problem)
            );
            assert_eq!(answer.number("retry-after"), 7);
        }
        router.idle().await;
        assert_eq!(home.n_connections(), 1);
    }
}

#[tokio::test]
async fn with_both_cells_full_the_answer_is_503_and_the_refusal_s_own_wait() {
    let full = || Scripted::start(|_| Play::Answer(refusal("503 Service Unavailable", "cell")));
    let (home, second) = (full().await, full().await);
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    for _ in 0..3 {
        let answer = router.ask(get("/", "acme")).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (503, "cell_full"));
        assert_eq!(answer.number("retry-after"), 7);
    }
    // A refusal is read to its end: its connection serves the next.
    assert_eq!((home.n_connections(), second.n_connections()), (1, 1));
    assert_eq!((home.seen().len(), second.seen().len()), (3, 3));
}

#[tokio::test]
async fn a_refusal_that_is_unknown_or_a_backends_own_5xx_is_an_answer() {
    let second = Scripted::named("second").await;
    for bytes in [
        refusal("503 Service Unavailable", "other"),
        crate::support::scripted::answer("500 Internal Server Error", "", "full"),
    ] {
        let home = Scripted::start(move |_| Play::Answer(bytes.clone())).await;
        let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
        let answer = router.ask(get("/", "acme")).await;
        assert!(answer.status() >= 500 && answer.text() == "full", "{answer:?}");
        assert_eq!(answer.field("cofferdam-refused"), None);
    }
    assert_eq!(second.n_connections(), 0);
}

#[tokio::test]
async fn a_malformed_answer_is_502_and_not_tried_again() {
    for bytes in [
        "SMTP ready\r\n\r\n",
        "HTTP/1.1 abc OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        let home = Scripted::start(move |_| Play::Last(bytes.as_bytes().to_vec())).await;
        let second = Scripted::start(|_| Play::Answer(ok("second"))).await;
        let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
        let answer = router.ask(get("/", "acme")).await;
        assert_eq!(answer.status(), 502, "{bytes:?}: {answer:?}");
        assert_eq!(answer.problem(), "cell_malformed", "{bytes:?}");
        assert_eq!(second.n_connections(), 0, "{bytes:?}");
        router.idle().await;
    }
}
