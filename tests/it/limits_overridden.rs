//! Limits of one tenant that an operator changes for a while: on the admin listener and by the command, for one router and for
//! all that share a store.

use std::process::Output;
use std::time::Duration;

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{MAX_OVERRIDES, OverrideBook, Script, Swap, Swapped};
use cofferdam_router::{Settings, SharedStore};
use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::processes::run;
use crate::support::raw::{self, Answer, get};
use crate::support::redis::RedisServer;
use crate::support::relay::{Relay, Weather};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};

const REST: &str = "
plans:
  free: { sustained: 1/h, burst: 3, max_in_flight: 10 }
  odd: { sustained: 7/d, burst: 100, max_in_flight: 10, quota: { 1d: 10M } }
tenant: { plan_of: { acme: free, globex: free, odd: odd } }
routes: [{ match: { path: /search }, limit: { sustained: 2/s, burst: 20 } }]
";

/// A router with limits of its own, or with those in `store`.
async fn start(store: Option<&RedisServer>) -> (Scripted, TestRouter) {
    let cell = Scripted::named("served").await;
    let router = TestRouter::with(&alone(cell.address, REST), with(store), 1);
    (cell, router)
}

fn with(store: Option<&RedisServer>) -> Settings {
    let shared = |store: &RedisServer| SharedStore {
        endpoint: store.url().parse().unwrap(),
        budget: Duration::from_secs(5),
    };
    Settings { store: store.map(shared), ..settings() }
}

/// What every router reads and writes.
async fn book(server: &RedisServer, fleet: &cofferdam_limits::redis::Fleet) -> OverrideBook {
    let link =
        Link::open_with_timeout(server.url().parse().unwrap(), Script::sync(), Duration::from_secs(20));
    link.connected().await;
    OverrideBook::new(link, fleet, "limits")
}

/// What the admin listener answers about a tenant's limits.
async fn admin(router: &TestRouter, method: &str, tenant: &str, body: &str) -> Answer {
    router.tell(method, &format!("/tenants/{tenant}/limits"), body).await
}

fn json_of(answer: &Answer) -> Value {
    assert_eq!(answer.status(), 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// The burst that an answer to `tenant` names.
async fn burst(router: &TestRouter, tenant: &str) -> u64 {
    router.ask(get("/", tenant)).await.number("ratelimit-limit")
}

async fn command(router: &TestRouter, words: &[&str]) -> Output {
    let at = format!("http://{}", router.admin);
    let words: Vec<String> =
        [&["limits"], words, &["--admin", &at]].concat().iter().map(|word| word.to_string()).collect();
    let done =
        tokio::task::spawn_blocking(move || run(&words.iter().map(String::as_str).collect::<Vec<_>>()));
    done.await.unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn what_is_set_binds_at_once_is_shown_everywhere_and_ends_when_it_is_cleared() {
    let (_cell, router) = start(None).await;
    assert_eq!(burst(&router, "acme").await, 3);
    let set =
        admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h", "author": "ops", "reason": "flood"}"#)
            .await;
    let shown = json_of(&set);
    assert_eq!((&shown["overrides_are"], &shown["store"]["kind"]), (&json!("local"), &json!("embedded")));
    assert_eq!((&shown["override"]["author"], &shown["override"]["burst"]), (&json!("ops"), &json!(2)));
    // One was spent of three: what is left is what fits into the lowered bucket.
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!((answer.number("ratelimit-limit"), answer.number("ratelimit-remaining")), (2, 1));
    assert_eq!(
        answer.field("ratelimit-policy"),
        Some("\"rate\";q=2;w=7200, \"conc\";q=10;qu=\"concurrent-requests\"")
    );
    let published = router.ask(get("/.well-known/cofferdam/limits", "acme")).await;
    let published: Value = serde_json::from_slice(&published.body).unwrap();
    assert_eq!((&published["burst"], &published["sustained"]), (&json!(2), &json!("1/h")));
    assert_eq!(burst(&router, "globex").await, 3, "others have what they had");

    let raised =
        admin(&router, "PUT", "acme", r#"{"max_in_flight": "20", "burst": "1k", "for": "7d"}"#).await;
    let tenant = json_of(&raised)["levels"][1].clone();
    assert_eq!(
        (&tenant["burst"], &tenant["remaining"]),
        (&json!(1000), &json!(1)),
        "an existing bucket gets nothing"
    );
    assert_eq!(
        tenant["source"],
        json!({ "sustained": "plan", "burst": "override", "max_in_flight": "override" })
    );
    let policy = router.ask(get("/", "acme")).await;
    assert!(policy.field("ratelimit-policy").unwrap().contains("\"conc\";q=20"), "{policy:?}");

    assert_eq!(json_of(&admin(&router, "DELETE", "acme", "").await)["override"], Value::Null);
    assert_eq!(burst(&router, "acme").await, 3);
    let again = admin(&router, "DELETE", "acme", "").await;
    assert_eq!((again.status(), again.text()), (404, "tenant acme has no override\n".to_owned()));
}

#[tokio::test]
async fn a_lowered_concurrency_binds_at_once_and_a_raised_one_is_there_at_once() {
    let cell = Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        _ => Play::Answer(ok("served")),
    })
    .await;
    let router = TestRouter::start(&alone(cell.address, REST));
    let mut held = raw::Client::connect(router.data).await;
    held.send(get("/hang", "globex")).await;
    router.in_flight(1).await;
    for (max, status) in [(1, 429), (2, 200)] {
        let change = format!(r#"{{"max_in_flight": {max}, "for": "1h"}}"#);
        let shown = json_of(&admin(&router, "PUT", "globex", &change).await);
        assert_eq!(shown["levels"][1]["in_flight"], 1);
        assert_eq!(router.ask(get("/", "globex")).await.status(), status);
    }
}

#[tokio::test]
async fn an_override_ends_by_itself() {
    let (_cell, router) = start(None).await;
    json_of(&admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1s"}"#).await);
    assert_eq!(burst(&router, "acme").await, 2);
    eventually("the plan's limits", async || (burst(&router, "acme").await == 3).then_some(())).await;
    assert_eq!(router.admin("/tenants/acme/limits").await["override"], Value::Null);
}

#[tokio::test]
async fn a_reload_keeps_overrides_and_fits_them_to_the_new_plan() {
    let (cell, router) = start(None).await;
    json_of(&admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await);
    router
        .reload(&alone(cell.address, &REST.replace("max_in_flight: 10", "max_in_flight: 4")))
        .await
        .unwrap();
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!(
        answer.field("ratelimit-policy"),
        Some("\"rate\";q=2;w=7200, \"conc\";q=4;qu=\"concurrent-requests\"")
    );
}

#[tokio::test]
async fn what_cannot_be_set_is_refused_with_a_reason_and_changes_nothing() {
    let (_cell, router) = start(None).await;
    let long = format!(r#"{{"burst": 1, "for": "1h", "reason": "{}"}}"#, "x".repeat(201));
    for (tenant, body, status, why) in [
        ("acme", "", 400, "the body is not what is asked for here"),
        ("acme", "{}", 400, "nothing would change: give sustained, burst or max_in_flight"),
        ("acme", r#"{"burst": 5}"#, 400, "for is missing: a change ends by itself"),
        ("acme", r#"{"burst": 5, "for": "soon"}"#, 400, "for: \"soon\" is not a time such as 30s"),
        ("acme", r#"{"burst": 5, "for": "0s"}"#, 400, "for: \"0s\" is outside 1s to 30d"),
        ("acme", r#"{"burst": 5, "for": "31d"}"#, 400, "for: \"31d\" is outside 1s to 30d"),
        ("acme", r#"{"burst": 0, "for": "1h"}"#, 400, "burst: 0 is outside 1 to 1000000000"),
        ("acme", r#"{"burst": -1, "for": "1h"}"#, 400, "burst: -1 is not a count such as 100"),
        ("acme", r#"{"burst": 1.5, "for": "1h"}"#, 400, "burst: 1.5 is not a count"),
        ("acme", r#"{"burst": "2000M", "for": "1h"}"#, 400, "burst: 2000000000 is outside 1 to 1000000000"),
        ("acme", r#"{"max_in_flight": 0, "for": "1h"}"#, 400, "max_in_flight: 0 is outside 1 to"),
        ("acme", r#"{"max_in_flight": "many", "for": "1h"}"#, 400, "max_in_flight: \"many\" is not a count"),
        ("acme", r#"{"sustained": "50", "for": "1h"}"#, 400, "sustained: \"50\" is not a rate such as 20/s"),
        ("acme", r#"{"sustained": 50, "for": "1h"}"#, 400, "sustained: \"50\" is not a rate"),
        ("acme", r#"{"sustained": "0/s", "for": "1h"}"#, 400, "sustained: rate \"0/s\" is out of range"),
        ("acme", r#"{"bursts": 5, "for": "1h"}"#, 400, "unknown field `bursts`"),
        ("acme", &long, 400, "reason: it exceeds 200 bytes"),
        // 7 a day is counted in units of a day: a burst that fits into a plan by the second is too much here.
        ("odd", r#"{"burst": 200000, "for": "1h"}"#, 400, "bucket capacity 200000 at 7/d is not exact"),
        ("ACME", r#"{"burst": 5, "for": "1h"}"#, 400, "tenant id has 'A' at 0"),
        ("initech", r#"{"burst": 5, "for": "1h"}"#, 404, "tenant initech is not in this fleet"),
    ] {
        let answer = admin(&router, "PUT", tenant, body).await;
        assert_eq!(answer.status(), status, "{body}: {answer:?}");
        assert!(answer.text().contains(why), "{body}: {}", answer.text());
    }
    for tenant in ["acme", "odd"] {
        assert_eq!(router.admin(&format!("/tenants/{tenant}/limits")).await["override"], Value::Null);
    }
    assert_eq!(burst(&router, "acme").await, 3);
}

#[tokio::test]
async fn what_is_set_on_one_router_comes_into_force_on_the_others() {
    let server = RedisServer::start();
    let ((_one, here), (_two, there)) = (start(Some(&server)).await, start(Some(&server)).await);
    let set = eventually("a store", async || {
        let answer = admin(&here, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await;
        (answer.status() != 503).then_some(answer)
    })
    .await;
    assert_eq!((&json_of(&set)["overrides_are"], burst(&here, "acme").await), (&json!("shared"), 2));
    eventually("the override", async || (burst(&there, "acme").await == 2).then_some(())).await;
    // Whoever starts later has it too.
    let (_cell, later) = start(Some(&server)).await;
    eventually("the override", async || (burst(&later, "acme").await == 2).then_some(())).await;
    json_of(&admin(&there, "DELETE", "acme", "").await);
    assert_eq!(burst(&there, "acme").await, 3);
    eventually("the plan's limits", async || (burst(&here, "acme").await == 3).then_some(())).await;
    eventually("the plan's limits", async || (burst(&later, "acme").await == 3).then_some(())).await;
}

#[tokio::test]
async fn who_is_cut_off_keeps_overrides_and_a_store_that_forgot_them_is_told_again() {
    let mut server = RedisServer::start();
    let (_cell, router) = start(Some(&server)).await;
    eventually("a store", async || {
        (admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await.status() == 200).then_some(())
    })
    .await;
    server.kill();
    eventually("the end of the store", async || {
        (router.admin("/tenants/acme/limits").await["store"]["is_away"] == true).then_some(())
    })
    .await;
    assert_eq!(burst(&router, "acme").await, 2);
    let refused = admin(&router, "PUT", "acme", r#"{"burst": 1, "for": "1h"}"#).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.text(), "no connection to the store: nothing was changed\n");
    assert_eq!(burst(&router, "acme").await, 2);
    // One that starts meanwhile has none, and takes it as soon as the store is there.
    let (_two, other) = start(Some(&server)).await;
    assert_eq!(burst(&other, "acme").await, 3);
    server.start_again();
    eventually("the override", async || (burst(&other, "acme").await == 2).then_some(())).await;
    assert_eq!(burst(&router, "acme").await, 2);
}

#[tokio::test]
async fn metrics_say_how_many_overrides_bind_and_how_fresh_they_are() {
    let mut server = RedisServer::start();
    let (_cell, router) = start(Some(&server)).await;
    eventually("a store", async || {
        (admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await.status() == 200).then_some(())
    })
    .await;
    // From a later version, say, that knows other words.
    let fleet = cofferdam_limits::redis::Fleet::parse("test").unwrap();
    let book = book(&server, &fleet).await;
    let until_ms = u64::MAX >> 12;
    let unknown = format!(r#"{{"until_ms":{until_ms},"since_ms":0,"burst":"much"}}"#);
    book.keep(&[("globex", &unknown)]).await.unwrap();
    let get =
        async |name: &str| router.metrics().await.sum(&format!("cofferdam_limits_overrides{name}"), &[]);
    eventually("one left out", async || (get("_left_out").await == 1.0).then_some(())).await;
    assert_eq!(get("").await, 1.0);
    assert_eq!(get("_version").await, book.look(None).await.unwrap().version.unwrap().number as f64);
    server.kill();
    eventually("an error", async || (get("_look_errors_total").await >= 1.0).then_some(())).await;
    eventually("age", async || (get("_age_seconds").await >= 1.0).then_some(())).await;
    assert_eq!((get("").await, get("_left_out").await), (1.0, 1.0), "what is known stays");
}

#[tokio::test]
async fn a_store_that_forgot_hears_all_of_them_again_whoever_wrote_first_and_broke_off() {
    let server = RedisServer::start();
    let fleet = cofferdam_limits::redis::Fleet::parse("test").unwrap();
    let book = book(&server, &fleet).await;
    let value = format!(r#"{{"until_ms":{},"since_ms":0,"burst":1}}"#, u64::MAX >> 12);
    let names: Vec<_> = (0..1_200).map(|number| format!("t{number}")).collect();
    let values: Vec<_> = names.iter().map(|name| (name.as_str(), value.as_str())).collect();
    book.keep(&values).await.unwrap();
    let rest = REST.replace("tenant: {", "tenant: { unknown: free,");
    let target = ([127, 0, 0, 1], server.port()).into();
    let (relay, cell) = (Relay::before(target).await, Scripted::named("served").await);
    let routers = [(); 3].map(|()| {
        let endpoint = format!("redis://{}", relay.address).parse().unwrap();
        let store = Some(SharedStore { endpoint, budget: Duration::from_secs(5) });
        TestRouter::with(&alone(cell.address, &rest), Settings { store, ..settings() }, 1)
    });
    let have = async |n: f64| {
        for router in &routers {
            eventually("all overrides", async || {
                let metrics = router.metrics().await;
                (metrics.sum("cofferdam_limits_overrides", &[]) == n).then_some(())
            })
            .await;
        }
    };
    have(1_200.0).await;
    relay.set(Weather::Cut);
    ::redis::cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    // One router tells, and breaks off behind its first call; another knows of nothing and is told a change.
    book.keep(&values[..500]).await.unwrap();
    let swap = Swap { expected: None, value: Some(&value), not_after_ms: None };
    assert_eq!(book.swap("acme", swap).await, Ok(Swapped::Done));
    relay.set(Weather::Clear);
    have(1_201.0).await;
    assert_eq!(book.all().await.unwrap().values.len(), 1_201);
}

#[tokio::test]
async fn there_is_room_for_ten_thousand_and_what_has_ended_makes_some() {
    let server = RedisServer::start();
    let fleet = cofferdam_limits::redis::Fleet::parse("test").unwrap();
    let book = book(&server, &fleet).await;
    let in_ms = |ms: u64| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        format!(r#"{{"until_ms":{},"since_ms":0,"burst":1}}"#, now.as_millis() as u64 + ms)
    };
    let names: Vec<_> = (0..MAX_OVERRIDES).map(|number| format!("t{number}")).collect();
    let lasting = in_ms(3_600_000);
    let values: Vec<_> = names.iter().map(|name| (name.as_str(), lasting.as_str())).collect();
    assert_eq!(book.keep(&values).await.unwrap().done, MAX_OVERRIDES);
    let (_cell, router) = start(Some(&server)).await;
    let full = eventually("a store", async || {
        let answer = admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await;
        (answer.status() != 503).then_some(answer)
    })
    .await;
    assert_eq!(
        (full.status(), full.text()),
        (409, "there are 10000 overrides already, and no room for another\n".to_owned())
    );
    let swap = Swap { expected: Some(&lasting), value: Some(&in_ms(0)), not_after_ms: None };
    assert_eq!(book.swap("t0", swap).await, Ok(Swapped::Done));
    eventually("room for one", async || {
        let answer = admin(&router, "PUT", "acme", r#"{"burst": 2, "for": "1h"}"#).await;
        (answer.status() == 200).then_some(())
    })
    .await;
    let all = book.all().await.unwrap().values;
    assert!(all.len() == MAX_OVERRIDES && !all.iter().any(|(tenant, _)| tenant == "t0"));
}

#[tokio::test]
async fn the_command_shows_sets_and_clears() {
    let (_cell, router) = start(None).await;
    let set =
        ["set", "acme", "--sustained", "5/h", "--burst", "200", "--for", "1h", "--reason", "a big import"];
    let printed = text(command(&router, &set).await.stdout);
    assert!(printed.contains("in this router alone, since it has no store: a big import"), "{printed}");
    assert_eq!(burst(&router, "acme").await, 200);
    let printed = text(command(&router, &["show", "acme"]).await.stdout);
    for part in
        ["tenant acme, plan free", "5/h", "200", "plan; override: burst, sustained", "route * /search", "2/s"]
    {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let shown: Value =
        serde_json::from_slice(&command(&router, &["show", "acme", "--json"]).await.stdout).unwrap();
    assert_eq!(shown["levels"][1]["remaining"], 199);
    assert!(command(&router, &["clear", "acme"]).await.status.success());
    assert_eq!(burst(&router, "acme").await, 3);
    for (words, code, why) in [
        (&["clear", "acme"][..], 1, "cofferdam: tenant acme has no override"),
        (&["show", "initech"], 1, "cofferdam: tenant initech is not in this fleet"),
        (&["show", "../cells"], 2, "is not a tenant"),
        (&["set", "acme", "--burst", "0", "--for", "1h"], 2, "cofferdam: burst: 0 is outside"),
        (&["set", "acme", "--for", "1h"], 2, "nothing would change"),
        (&["set", "acme", "--burst", "5"], 2, "--for"),
    ] {
        let output = command(&router, words).await;
        let said = text(output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(why), "{words:?}: {said}");
    }
    let nobody = run(&["limits", "show", "acme", "--admin", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(nobody.stderr).contains("could not ask the router at http://127.0.0.1:1"));
}
