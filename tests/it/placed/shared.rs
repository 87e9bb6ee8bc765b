//! Several routers with one store: what is said at one is in force at all, whatever happens to the links between.

use std::time::{Duration, Instant};

use cofferdam_limits::redis::Fleet;

use super::{
    Cells, ENDED, json_of, others, patient, pin, place, quarantine, served, shared, shared_within, to,
};
use crate::support::eventually;
use crate::support::lateness::Lateness;
use crate::support::redis::RedisServer;
use crate::support::relay::{Relay, Way, Weather};
use crate::support::routers::TestRouter;

/// Tells until there is a store to tell.
async fn pinned(router: &TestRouter, tenant: &str, cells: &str, lasting: &str) {
    eventually("a pin that is taken", async || {
        let answer = pin(router, tenant, &to(cells, lasting)).await;
        assert!(matches!(answer.status(), 200 | 503), "{answer:?}");
        (answer.status() == 200).then_some(())
    })
    .await;
}

async fn is_on(router: &TestRouter, tenant: &str, home: &str) {
    eventually(home, async || (place(router, tenant).await.0[0] == home).then_some(())).await;
}

#[tokio::test]
async fn what_is_said_at_one_router_is_in_force_at_all_and_so_is_how_far_a_tenant_may_get_about() {
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let routers = [(); 2].map(|()| cells.router(patient(&server.url())));
    let [here, there] = &routers;
    let other = others(here, "acme").await;
    pinned(here, "acme", &other[..2].join(" "), "1h").await;
    assert_eq!(served(here, "acme").await, other[0]);
    is_on(there, "acme", &other[0]).await;
    assert_eq!(served(there, "acme").await, other[0]);
    json_of(&quarantine(there, "acme", &to("", "1h")).await);
    json_of(&there.tell("DELETE", "/tenants/acme/quarantine", ENDED).await);
    json_of(&there.tell("DELETE", "/tenants/acme/pin", ENDED).await);
    let home = place(there, "acme").await.0[0].clone();
    is_on(here, "acme", &home).await;
    // Both have ended, and count.
    let refused = pin(here, "acme", &to(&other[2..].join(" "), "1h")).await;
    assert!(refused.status() == 409 && refused.text().contains("6 new cells within an hour"), "{refused:?}");
    // Whoever starts later knows that as well.
    let later = cells.router(patient(&server.url()));
    let refused = eventually("a store", async || {
        let answer = pin(&later, "acme", &to(&other[2..].join(" "), "1h")).await;
        (answer.status() != 503).then_some(answer)
    });
    assert_eq!(refused.await.status(), 409);
}

#[tokio::test]
async fn changes_of_one_tenant_at_two_routers_at_once_are_made_one_after_the_other() {
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let routers = [(); 2].map(|()| cells.router(patient(&server.url())));
    let other = others(&routers[0], "acme").await;
    for router in &routers {
        pinned(router, "globex", &other[..2].join(" "), "1h").await;
    }
    // Each pair is two new cells, and four are allowed: two of three are made, whoever comes first.
    let pairs = ["cell-a cell-b", "cell-c cell-d", "cell-e cell-f"];
    let changes = pairs.map(|pair| to(pair, "1h"));
    let own = place(&routers[0], "acme").await.0;
    let (one, two, three) = tokio::join!(
        pin(&routers[0], "acme", &changes[0]),
        pin(&routers[1], "acme", &changes[1]),
        pin(&routers[0], "acme", &changes[2]),
    );
    let n_new: usize = [(&one, pairs[0]), (&two, pairs[1]), (&three, pairs[2])]
        .iter()
        .filter(|(answer, _)| answer.status() == 200)
        .map(|(_, pair)| pair.split(' ').filter(|cell| !own.contains(&(*cell).to_owned())).count())
        .sum();
    assert!((2..=4).contains(&n_new), "{one:?} {two:?} {three:?}");
    let counted = async || {
        let list = routers[1].admin("/placement").await;
        let said = list["overrides"].as_array().unwrap().clone();
        let acme = said.into_iter().find(|said| said["tenant"] == "acme")?;
        (acme["new_cells"].as_array().unwrap().len() == n_new).then_some(())
    };
    eventually("as many new cells at the other router", counted).await;
}

/// Tenants that are changed by turns, each by pin, quarantine, release and unpin by turns.
const N_CHANGED: usize = 7;

/// The `n`th change, told to this router until it is made.
async fn change(router: &TestRouter, n: usize) {
    let at = n % N_CHANGED;
    let pair = ["cell-a cell-b", "cell-c cell-d"][at % 2];
    let (method, of, body) = match n / N_CHANGED % 4 {
        0 => ("PUT", "pin", to(pair, "1h")),
        1 => ("PUT", "quarantine", to("", "1h")),
        2 => ("DELETE", "quarantine", ENDED.to_owned()),
        _ => ("DELETE", "pin", ENDED.to_owned()),
    };
    let mut may_be_made = false;
    eventually("a change that is made", async || {
        let answer = router.tell(method, &format!("/tenants/t{at}/{of}"), &body).await;
        let is_made = answer.status() == 200 || (may_be_made && answer.status() == 404);
        assert!(is_made || answer.status() == 503, "{method} {of} of t{at}: {answer:?}");
        may_be_made |= answer.text().contains("it may have been changed or not");
        is_made.then_some(())
    })
    .await;
}

/// Whether a tenant is pinned, and whether it is in quarantine, behind the first `n` changes.
fn changed(at: usize, n: usize) -> (bool, bool) {
    let turns = (n + N_CHANGED - 1 - at) / N_CHANGED;
    [(false, false), (true, false), (true, true), (true, false)][turns % 4]
}

#[tokio::test]
async fn after_fifty_changes_over_links_that_drop_messages_all_have_the_newest_a_second_after_those_are_back()
{
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let target = ([127, 0, 0, 1], server.port()).into();
    let (mut relays, mut routers) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let relay = Relay::before(target).await;
        // Long enough for a machine that is busy, and short enough for a link that is silent.
        let url = format!("redis://{}", relay.address);
        routers.push(cells.router(shared_within(&url, Duration::from_secs(1))));
        relays.push(relay);
    }
    pinned(&routers[0], "other", "cell-a cell-b", "1h").await;
    let weathers = [
        Weather::Cut,
        Weather::Silent,
        Weather::AnswersLost,
        Weather::Held(Way::Both),
        Weather::Late(Duration::from_millis(300)),
        Weather::Held(Way::Answers),
        Weather::Clear,
    ];
    let book = server.overrides(&Fleet::parse("test").unwrap(), "placement").await;
    let (mut took, lateness) = (Vec::new(), Lateness::start());
    for n in 0_usize..50 {
        // The links of two have weather, of which there is another with each change; the third one is told.
        let told = n % 3;
        for (at, relay) in relays.iter().enumerate() {
            let weather = if at == told { Weather::Clear } else { weathers[(n * 5 + at) % weathers.len()] };
            relay.set(weather);
        }
        change(&routers[told], n).await;
        if n % 5 == 4 {
            for relay in &relays {
                relay.set(Weather::Clear);
            }
            let (cleared, late) = (Instant::now(), lateness.sum());
            let newest = book.look(None).await.unwrap().version.unwrap().number;
            for router in &routers {
                eventually("the newest version", async || {
                    (router.admin("/placement").await["version"] == newest).then_some(())
                })
                .await;
            }
            took.push(cleared.elapsed().saturating_sub(lateness.sum() - late));
        }
    }
    // A machine that stands still meanwhile makes one or two late, and no more.
    took.sort();
    assert!(took.len() == 10 && took[7] <= Duration::from_secs(1), "{took:?}");
    let mut lists = Vec::new();
    for router in &routers {
        let mut list = router.admin("/placement").await;
        list["heard_ms_ago"].take();
        lists.push(list);
    }
    assert!(lists.windows(2).all(|two| two[0] == two[1]), "{lists:#?}");
    for at in 0..N_CHANGED {
        let said = lists[0]["overrides"].as_array().unwrap().iter();
        let said = said.clone().find(|said| said["tenant"] == format!("t{at}")).unwrap();
        let has = (said["pin"].is_object(), said["quarantine"].is_object());
        assert_eq!(has, changed(at, 50), "t{at}: {said:#}");
    }
}

#[tokio::test]
async fn a_router_that_starts_while_the_store_is_away_has_yesterdays_overrides_and_not_those_that_ended() {
    let (cells, mut server) = (Cells::start().await, RedisServer::start());
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let start = || {
        let state = Some(folder.path().join("state"));
        cells.router(cofferdam_router::Settings { state, ..shared(&url) })
    };
    let router = start();
    let other = others(&router, "acme").await;
    pinned(&router, "acme", &other[..2].join(" "), "1h").await;
    pinned(&router, "globex", "cell-a cell-b", "1s").await;
    eventually("both on disk", async || {
        let text = std::fs::read_to_string(folder.path().join("state/overrides.json")).unwrap_or_default();
        (text.contains("acme") && text.contains("globex")).then_some(())
    })
    .await;
    router.router.shutdown().await;
    server.kill();
    let router = eventually("a router without what has ended", async || {
        let router = start();
        (place(&router, "globex").await.1 == "slot").then_some(router)
    })
    .await;
    assert_eq!(served(&router, "acme").await, other[0]);
    let refused = pin(&router, "acme", &to("cell-a cell-b", "1h")).await;
    assert_eq!(
        (refused.status(), refused.text()),
        (503, "no connection to the store: nothing was changed\n".to_owned())
    );
    // A store that comes back empty is told.
    server.start_again();
    let other_router = cells.router(shared(&server.url()));
    is_on(&other_router, "acme", &other[0]).await;
}

#[tokio::test]
async fn a_change_that_was_made_is_told_so_though_the_store_is_lost_right_after_it() {
    let (cells, server) = (Cells::start().await, RedisServer::start());
    let relay = Relay::before(([127, 0, 0, 1], server.port()).into()).await;
    let url = format!("redis://{}", relay.address);
    let router = cells.router(shared_within(&url, Duration::from_secs(1)));
    pinned(&router, "t0", "cell-a cell-b", "1h").await;
    let book = server.overrides(&Fleet::parse("test").unwrap(), "placement").await;
    let version = async || book.look(None).await.unwrap().version;
    let mut told = 0;
    eventually("a change whose answer is the last one that comes through", async || {
        told += 1;
        let (tenant, before) = (format!("t{told}"), version().await);
        // The answer is on its way for so long, and nothing that is asked once it has come is answered.
        relay.set(Weather::Late(Duration::from_millis(150)));
        let is_made = async {
            while version().await == before {
                tokio::task::yield_now().await;
            }
            relay.set(Weather::Silent);
        };
        let change = to("cell-a cell-b", "1h");
        let put = pin(&router, &tenant, &change);
        tokio::pin!(put);
        let answer = tokio::select! {
            answer = &mut put => answer,
            () = is_made => put.await,
        };
        relay.set(Weather::Clear);
        let is_lost = router.metrics().await.sum("cofferdam_placement_overrides", &[]) < f64::from(told + 1);
        (answer.status() == 200 && is_lost).then_some(())
    })
    .await;
}
