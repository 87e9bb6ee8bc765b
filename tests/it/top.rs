//! Who uses most and who is refused most, as an operator asks for it.

use serde_json::Value;

use crate::support::files::alone;
use crate::support::raw::{self, get};
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};

/// `tight` has one request; a search costs 8.
const FLEET: &str = "
tenant: { unknown: wide, plan_of: { tight: tight } }
plans:
  wide: { sustained: 1M/s, burst: 1M, max_in_flight: 100 }
  tight: { sustained: 1/h, burst: 1, max_in_flight: 10 }
routes:
  - { match: { path: /search }, class: default, cost: 8 }
  - { match: { path: / }, class: default }
";

/// How often each of these is asked for, over a few connections, so that several workers have some of it.
async fn ask(router: &TestRouter, requests: &[(&str, &str, usize)]) {
    for (path, tenant, times) in requests {
        let mut clients = [raw::Client::connect(router.data).await, raw::Client::connect(router.data).await];
        for number in 0..*times {
            clients[number % 2].ask(get(path, tenant)).await;
        }
    }
}

/// The tenants that an answer names, with their counts.
fn tenants(answer: &Value) -> Vec<(String, u64)> {
    let tenants = answer["tenants"].as_array().unwrap().iter();
    let tenant = |told: &Value| {
        let (count, too_high) = (told["count"].as_u64().unwrap(), told["too_high_by_at_most"].as_u64());
        assert!(too_high.unwrap() <= answer["total"].as_u64().unwrap() / 256, "{told}");
        (told["tenant"].as_str().unwrap().to_owned(), count)
    };
    tenants.map(tenant).collect()
}

#[tokio::test]
async fn who_uses_most_and_who_is_refused_most_are_found_among_five_hundred() {
    let cell = Scripted::start(|_| Play::Answer(ok("served"))).await;
    let router = TestRouter::with(&alone(cell.address, FLEET), settings(), 2);
    let others: Vec<_> = (0..500).map(|number| format!("other-{number}")).collect();
    let others: Vec<_> = others.iter().map(|tenant| ("/", tenant.as_str(), 2)).collect();
    ask(&router, &others[..250]).await;
    ask(&router, &[("/", "hot", 200), ("/search", "costly", 100), ("/", "tight", 41)]).await;
    ask(&router, &others[250..]).await;

    let used = router.admin("/limits/top?by=use&n=2").await;
    assert_eq!((&used["by"], &used["total"]), (&"use".into(), &1301.into()), "{used}");
    // As many as there are counters were exact; the rest came upon what others had counted.
    let [(first, hot), (second, costly)] = &tenants(&used)[..] else { panic!("{used}") };
    assert_eq!((first.as_str(), second.as_str()), ("hot", "costly"));
    assert!((200..=205).contains(hot) && (100..=105).contains(costly), "{used}");

    let cost = router.admin("/limits/top?by=cost&n=1").await;
    let [(tenant, cost)] = &tenants(&cost)[..] else { panic!("{cost}") };
    assert!(tenant == "costly" && (800..=808).contains(cost));

    let refused = router.admin("/limits/top?by=refusals").await;
    assert_eq!(tenants(&refused), [("tight".to_owned(), 40)]);
    let window = refused["window_ms"].as_u64().unwrap();
    assert!(window < 120_000, "{window}");

    assert_eq!(tenants(&router.admin("/limits/top").await).len(), 20);
    let wrong = raw::ask(router.admin, "GET /limits/top?by=name HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(wrong.status(), 400);
    let metrics = raw::ask(router.probes, "GET /metrics HTTP/1.1\r\nhost: probe\r\n\r\n").await.text();
    assert!(
        !metrics.contains("\"hot\"") && !metrics.contains("other-"),
        "a tenant became a label: {metrics}"
    );
}

#[tokio::test]
async fn a_refusal_for_want_of_room_in_a_cell_counts_for_its_tenant() {
    let full = "HTTP/1.1 503 Full\r\ncofferdam-refused: cell\r\ncontent-length: 0\r\n\r\n";
    let cell = Scripted::start(move |_| Play::Answer(full.into())).await;
    let router = TestRouter::start(&alone(cell.address, FLEET));
    assert_eq!(router.ask(get("/", "acme")).await.status(), 503);
    assert_eq!(tenants(&router.admin("/limits/top?by=refusals").await), [("acme".to_owned(), 1)]);
    assert_eq!(tenants(&router.admin("/limits/top?by=use").await), [("acme".to_owned(), 1)]);
}
