//! Routes that are let through evenly, in real time: what their server is taken for where it is late, or refuses one line alone.

use std::time::Duration;

use ::redis::cmd;
use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{Mode, Script, Sharing};
use cofferdam_limits::{Admission, Demand, LevelPolicy, Levels, Outcome, RouteKey, ShapePolicy};
use cofferdam_model::Level;

use super::{BUDGET, Router, fleet};
use crate::contract::{id, levels};
use crate::redis_server::RedisServer;

const ROUTE: RouteKey = RouteKey(7);

/// A line that has room for everybody here.
fn shaped() -> Levels {
    let shape = ShapePolicy::new("1000/s".parse().unwrap(), 1_000, Duration::from_secs(60)).ok();
    levels(&[LevelPolicy { shape, ..LevelPolicy::unlimited(Level::Route) }])
}

impl Router {
    /// Whether the store is asked for a turn; it is taken.
    async fn turn(&self) -> bool {
        let (acme, plan) = (id("acme"), shaped());
        let demand = Demand { route: ROUTE, ..Demand::new(&acme, 1, &plan) };
        match self.limits.admit(&demand) {
            Admission::Admitted(permit) => permit.release(Outcome::Success),
            Admission::Refused(refusal) => panic!("{refusal:?}"),
            Admission::Pending(pending) => {
                pending.await.unwrap().release(Outcome::Success);
                return true;
            }
        }
        false
    }
}

#[tokio::test]
async fn a_server_that_refuses_one_line_is_not_given_up_for_all() {
    let server = RedisServer::start();
    let router = Router::start(&server, Mode::Exact, "sessiona", Duration::from_secs(6)).await;
    assert!(router.turn().await);
    let given_up = router.store.sharing().given_up;
    let key = fleet().shape(ROUTE);
    let mut connection = server.connect();
    cmd("DEL").arg(key.as_str()).exec(&mut connection).unwrap();
    // No string: the script cannot read it.
    cmd("SADD").arg(key.as_str()).arg("x").exec(&mut connection).unwrap();
    let errors = router.limits.metrics().store_errors;
    for _ in 0..5 {
        assert!(router.turn().await, "asked all the same, and let through by this router's share");
    }
    assert_eq!(router.limits.metrics().store_errors, errors + 5);
    assert_eq!(router.store.sharing().given_up, given_up);
}

#[tokio::test]
async fn late_turns_with_turns_in_time_between_them_have_nothing_to_do_with_each_other() {
    let server = RedisServer::start();
    // No call ends without an answer while this test runs.
    let link =
        Link::open_with_timeout(server.url().parse().unwrap(), Script::sync(), Duration::from_secs(600));
    let sharing = Sharing { mode: Mode::Exact, budget: BUDGET, ..Sharing::new(fleet()) };
    let router = Router::start_on(link, "sessiona", sharing).await;
    assert!(router.turn().await);
    let given_up = router.store.sharing().given_up;
    for _ in 0..4 {
        server.pause();
        let timeouts = router.limits.metrics().store_timeouts;
        assert!(router.turn().await);
        assert_eq!(router.limits.metrics().store_timeouts, timeouts + 1);
        server.resume();
        // The first may be late still.
        for _ in 0..20 {
            assert!(router.turn().await);
        }
    }
    assert_eq!(router.store.sharing().given_up, given_up);
}
