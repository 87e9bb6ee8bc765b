//! Routers that share a real server which goes away, forgets everything and comes back, in real time: what they take it for,
//! and that they forget nothing too early and nothing never.

mod lines;
mod stuck;

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::redis::cmd;
use cofferdam_limits::redis::link::{DEFAULT_TIMEOUT, Link};
use cofferdam_limits::redis::{Fleet, Mode, RedisStore, Script, Session, Sharing};
use cofferdam_limits::{Admission, Clock, Demand, Levels, LimitStore, Limits, Outcome, PendingAdmission};
use cofferdam_model::Level;

use crate::contract::{id, levels, paced};
use crate::redis_server::RedisServer;

const PATIENCE: Duration = Duration::from_secs(20);
/// Longer than a busy machine keeps an answer back, and shorter than a test has patience.
const BUDGET: Duration = Duration::from_millis(500);

struct Router {
    limits: Limits,
    store: Arc<RedisStore>,
}

impl Router {
    async fn start(server: &RedisServer, mode: Mode, name: &str, ttl: Duration) -> Self {
        let sharing = Sharing { mode, ttl, budget: BUDGET, ..Sharing::new(fleet()) };
        Self::start_at(&server.url(), name, sharing).await
    }

    async fn start_at(url: &str, name: &str, sharing: Sharing) -> Self {
        let timeout = DEFAULT_TIMEOUT.max(sharing.budget);
        let link = Link::open_with_timeout(url.parse().unwrap(), Script::sync(), timeout);
        Self::start_on(link, name, sharing).await
    }

    async fn start_on(link: Link, name: &str, sharing: Sharing) -> Self {
        link.connected().await;
        let (session, budget) = (Session::parse(name).unwrap(), sharing.budget);
        let store = Arc::new(RedisStore::start(sharing, link, session, Clock::suspending()));
        Self { limits: Limits::new(store.clone(), budget), store }
    }

    async fn admit(&self, plan: &Levels) -> bool {
        let admitted = match self.limits.admit(&Demand::new(&id("acme"), 1, plan)) {
            Admission::Admitted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending(pending) => pending.await,
        };
        admitted.map(|permit| permit.release(Outcome::Success)).is_ok()
    }

    /// Admits the first request. On a server that has just begun buckets fill from nothing.
    async fn begin(&self, plan: &Levels) {
        let begun = Instant::now();
        while !self.admit(plan).await {
            assert!(begun.elapsed() < PATIENCE, "nothing is admitted");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn pending(&self, plan: &Levels) -> PendingAdmission {
        match self.limits.admit(&Demand::new(&id("acme"), 1, plan)) {
            Admission::Pending(pending) => pending,
            other => panic!("not pending: {other:?}"),
        }
    }

    fn n_tenants(&self) -> usize {
        self.store.metrics().tenants
    }

    async fn forgets(&self) {
        eventually("the tenant is forgotten", || self.n_tenants() == 0).await;
    }
}

async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn fleet() -> Fleet {
    Fleet::parse("f").unwrap()
}

/// A bucket, and no permits.
fn bucket() -> Levels {
    levels(&[paced(Level::Tenant, "1000/s", 1000)])
}

#[tokio::test]
async fn a_store_that_was_late_once_is_known_to_be_back_though_nobody_has_anything_to_say() {
    let server = RedisServer::start();
    let router = Router::start(&server, Mode::Exact, "sessiona", Duration::from_secs(6)).await;
    router.begin(&bucket()).await;
    server.pause();
    assert!(router.admit(&bucket()).await);
    eventually("the store is away", || router.store.sharing().is_away).await;
    server.resume();
    eventually("the store is back", || !router.store.sharing().is_away).await;
}

#[tokio::test]
async fn one_late_answer_costs_its_own_request_alone() {
    let server = RedisServer::start();
    // No call ends without an answer while this test runs.
    let link =
        Link::open_with_timeout(server.url().parse().unwrap(), Script::sync(), Duration::from_secs(600));
    let sharing = Sharing { mode: Mode::Exact, budget: BUDGET, ..Sharing::new(fleet()) };
    let router = Router::start_on(link, "sessiona", sharing).await;
    router.begin(&bucket()).await;
    let given_up = router.store.sharing().given_up;
    server.pause();
    let begun = Instant::now();
    let alone = router.store.sharing().alone;
    assert!(router.admit(&bucket()).await && begun.elapsed() >= BUDGET);
    assert_eq!(router.store.sharing().alone, alone + 1, "its share decided");
    assert_eq!(router.store.sharing().given_up, given_up);
    // Whoever is late behind it has waited in vain for as long as one may: from then on nobody waits.
    while !router.store.sharing().is_away {
        assert!(begun.elapsed() < PATIENCE && router.admit(&bucket()).await);
    }
    assert!(matches!(router.limits.admit(&Demand::new(&id("acme"), 1, &bucket())), Admission::Admitted(_)));
    server.resume();
    eventually("the store is back", || !router.store.sharing().is_away).await;
}

#[tokio::test]
async fn a_tenant_is_forgotten_though_a_call_for_it_was_lost() {
    for mode in [Mode::Exact, Mode::Lease] {
        let server = RedisServer::start();
        let router = Router::start(&server, mode, "sessiona", Duration::from_millis(200)).await;
        router.begin(&bucket()).await;
        server.pause();
        tokio::time::sleep(Duration::from_millis(250)).await;
        // The loan has ended, and nobody answers.
        assert!(router.admit(&bucket()).await);
        eventually("the call is lost", || router.store.sharing().link.late > 0).await;
        server.resume();
        router.forgets().await;
    }
}

#[tokio::test]
async fn a_tenant_is_forgotten_though_somebody_had_hold_of_it_when_it_was_looked_at() {
    let server = RedisServer::start();
    let router = Router::start(&server, Mode::Exact, "sessiona", Duration::from_millis(200)).await;
    let pending = router.pending(&bucket());
    // It has nothing to say, and is looked at a few times.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(router.n_tenants(), 1);
    pending.await.unwrap().release(Outcome::Success);
    router.forgets().await;
}

#[tokio::test]
async fn nobody_is_taken_for_gone_because_the_store_forgot_them() {
    let server = RedisServer::start();
    let ttl = Duration::from_secs(3);
    let a = Router::start(&server, Mode::Auto, "sessiona", ttl).await;
    let b = Router::start(&server, Mode::Auto, "sessionb", ttl).await;
    let n_sessions = || [&a, &b].map(|router| router.store.sharing().sessions);
    eventually("both are seen", || n_sessions() == [2, 2]).await;
    cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    let begun = Instant::now();
    while begun.elapsed() < ttl {
        // Else one of them would take the whole limit for its share, beside the other's.
        assert_eq!(n_sessions(), [2, 2], "{:?} after it", begun.elapsed());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_store_that_is_not_connected_is_away() {
    for url in ["redis://127.0.0.1:1", "redis-cluster://127.0.0.1:1"] {
        let link = Link::open(url.parse().unwrap(), Script::sync());
        let session = Session::parse("sessiona").unwrap();
        let store = RedisStore::start(Sharing::new(fleet()), link, session, Clock::suspending());
        // Nobody has asked yet, and nobody would wait.
        assert!(store.sharing().is_away, "{url}");
    }
}
