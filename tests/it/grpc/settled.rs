//! What a call really cost: its backend says so behind the last message, or in a head alone.

use super::fleet::{GrpcFleet, call, end, unary};
use crate::support::raw::get;

const PLAN: &str =
    "plans: { test: { sustained: 1/h, burst: 100, max_in_flight: 9 } }\ntenant: { unknown: test }\n";

async fn left(fleet: &GrpcFleet) -> u64 {
    fleet.router.idle().await;
    // Whatever it is answered: what is left is said all the same.
    fleet.router.ask(get("/", "acme")).await.number("ratelimit-remaining")
}

#[tokio::test]
async fn a_calls_cost_is_settled_by_its_trailers_and_no_client_hears_of_it() {
    // P46
    let routes = "routes:
  - { match: { path: /Unary }, cost: 2, settle: true }
  - { match: { path: /HeadAlone }, cost: 2, settle: true }
  - { match: { path: /Many }, cost: 2 }
  - { match: { path: / }, cost: 0, timeout: 50ms }
";
    let fleet = GrpcFleet::start(&format!("{PLAN}{routes}")).await;
    let mut client = fleet.client().await;
    for (path, status, expected) in [("/Unary", "0", 70), ("/HeadAlone", "9", 65), ("/Many", "0", 63)] {
        let answer = unary(&mut client, call(path, "acme"), "a").await;
        assert_eq!(end(&answer, "grpc-status"), Some(status));
        let fields =
            answer.trailers.iter().flat_map(|fields| fields.keys()).chain(answer.head.headers().keys());
        assert!(fields.into_iter().all(|name| !name.as_str().starts_with("cofferdam")), "{answer:?}");
        assert_eq!(left(&fleet).await, expected, "{path}");
    }
}
