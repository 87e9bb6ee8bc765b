//! The RateLimit fields of a refusal: they never say that something is left of the limit that refused.

use std::time::Duration;

use cofferdam_limits::redis::Fleet;
use cofferdam_router::{Settings, SharedStore};

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::raw::{self, get};
use crate::support::redis::RedisServer;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::{Play, Scripted, ok};

/// A machine that does other things besides is no store that is away.
const PATIENT: Duration = Duration::from_secs(5);

/// A limit that refuses.
struct Refuses {
    plan: &'static str,
    more: &'static str,
    /// Sent before, each to the first router: tenants and paths. Those to `/hang` stay in flight.
    before: &'static [(&'static str, &'static str)],
    /// Sent to the last router.
    path: &'static str,
    problem: &'static str,
    /// What the limit is called in the fields, and how much it holds.
    shown: (&'static str, u64),
}

const CASES: [Refuses; 6] = [
    Refuses {
        plan: "sustained: 1/h, burst: 20, max_in_flight: 50",
        more: "routes: [{ match: { path: /dear }, cost: 16 }]",
        before: &[("acme", "/dear")],
        path: "/dear",
        problem: "tenant_rate",
        shown: ("rate", 20),
    },
    Refuses {
        plan: "sustained: 1k/s, burst: 1000, max_in_flight: 2",
        more: "",
        before: &[("acme", "/hang"), ("acme", "/hang")],
        path: "/",
        problem: "tenant_concurrency",
        shown: ("conc", 2),
    },
    Refuses {
        plan: "sustained: 1k/s, burst: 1000, max_in_flight: 50",
        more: "routes: [{ match: { path: / }, limit: { sustained: 1/h, burst: 2 } }]",
        before: &[("acme", "/"), ("acme", "/")],
        path: "/",
        problem: "route_rate",
        shown: ("route", 2),
    },
    Refuses {
        plan: "sustained: 1k/s, burst: 1000, max_in_flight: 50, quota: { 1d: 5 }",
        more: "routes: [{ match: { path: / }, cost: 3 }]",
        before: &[("acme", "/")],
        path: "/",
        problem: "tenant_quota",
        shown: ("quota-1d", 5),
    },
    Refuses {
        plan: "sustained: 1k/s, burst: 1000, max_in_flight: 50",
        more: "ceiling: { sustained: 1/h, burst: 20 }\nroutes: [{ match: { path: / }, cost: 16 }]",
        before: &[("globex", "/")],
        path: "/",
        problem: "fleet_rate",
        shown: ("rate", 1000),
    },
    Refuses {
        plan: "sustained: 1k/s, burst: 1000, max_in_flight: 50",
        more: "ceiling: { max_in_flight: 2 }",
        before: &[("globex", "/hang"), ("initech", "/hang")],
        path: "/",
        problem: "fleet_concurrency",
        shown: ("conc", 50),
    },
];

/// Routers that share one store, or one that has all to itself.
async fn routers(text: &str, redis: Option<&RedisServer>) -> Vec<TestRouter> {
    let Some(redis) = redis else { return vec![TestRouter::start(text)] };
    redis.begin_epochs(&Fleet::parse("test").unwrap());
    let start = |()| {
        let store = Some(SharedStore { endpoint: redis.url().parse().unwrap(), budget: PATIENT });
        TestRouter::with(text, Settings { store, ..settings() }, 1)
    };
    let routers = [(); 2].map(start);
    for router in &routers {
        eventually("each router to know of the other", async || {
            (router.metrics().await.sum("cofferdam_store_sessions", &[]) == 2.0).then_some(())
        })
        .await;
    }
    routers.into()
}

#[tokio::test]
async fn a_refusal_never_says_that_something_is_left() {
    for is_shared in [false, true] {
        for Refuses { plan, more, before, path, problem, shown: (name, limit) } in CASES {
            let cell = Scripted::start(|seen| match seen.head.second_word() {
                "/hang" => Play::Hang,
                _ => Play::Answer(ok("served")),
            })
            .await;
            let text = format!(
                "plans: {{ test: {{ {plan} }} }}\ntenant: {{ unknown: test }}\nlimits: {{ jitter: 0 }}\n"
            );
            let redis = is_shared.then(RedisServer::start);
            let routers = routers(&alone(cell.address, &format!("{text}{more}")), redis.as_ref()).await;
            let (first, last) = (&routers[0], routers.last().unwrap());
            let mut held = Vec::new();
            for (nth, (tenant, path)) in before.iter().enumerate() {
                let mut client = raw::Client::connect(first.data).await;
                client.send(get(path, tenant)).await;
                eventually("it is at the cell", async || (cell.seen().len() == nth + 1).then_some(())).await;
                held.push(client);
            }
            let answer = last.ask(get(path, "acme")).await;
            assert_eq!(answer.problem(), problem, "{answer:?}");
            let state = answer.field("ratelimit").unwrap();
            let items: Vec<_> =
                state.split(", ").filter(|item| item.starts_with(&format!("\"{name}\";"))).collect();
            assert!(items.len() == 1, "{problem}: {state}");
            assert!(items[0].contains(";r=0"), "{problem}: {state}");
            let older = ["ratelimit-limit", "ratelimit-remaining"].map(|name| answer.number(name));
            assert_eq!(older, [limit, 0], "{problem}: {answer:?}");
            assert!(answer.number("ratelimit-reset") >= 1, "{problem}: {answer:?}");
            assert!(
                answer.text().contains(&format!("\"violated-policies\":[\"{name}\"]")),
                "{}",
                answer.text()
            );
        }
    }
}
