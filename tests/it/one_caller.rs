//! What one tenant can make happen at will counts against nobody else: through a router and real agents.

mod deeds;
mod rows;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use self::deeds::{Deed, MALLORY, guarded};
use crate::support::agents::TestFleet;
use crate::support::raw::get;

/// A tenant that asks for what is well is answered as ever, by the cell that always did.
async fn is_well(fleet: &TestFleet, tenant: &str, home: &str, what: &str) {
    let began = std::time::Instant::now();
    let answer = fleet.router.ask(get("/db/ok", tenant)).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, home), "{tenant} after {what}");
    // As long as a timeout of the route would be another class of latency.
    assert!(began.elapsed() < deeds::PATIENT, "{tenant} after {what}: {:?}", began.elapsed());
}

#[tokio::test]
async fn calls_of_grpc_to_a_backend_of_http1_are_unimplemented_and_count_against_nobody() {
    let fleet = guarded().await;
    for n in 0..25 {
        assert_eq!(Deed::Grpc.ask(&fleet, MALLORY).await, 12, "call {n}");
    }
    is_well(&fleet, "acme", "one", "25 calls").await;
    is_well(&fleet, "globex", "two", "25 calls").await;
    assert_eq!(fleet.router.metrics().await.sum("cofferdam_router_cell_up", &[]), 2.0);
}

#[tokio::test]
async fn uploads_that_stall_open_no_breaker_and_lower_no_ceiling() {
    let fleet = guarded().await;
    let ceiling = async || fleet.cells[0].metrics().await.sum("cofferdam_agent_adaptive_limit", &[]);
    let before = ceiling().await;
    let stalls = (0..12).map(|_| Deed::StalledUpload.ask(&fleet, MALLORY));
    for status in futures_util::future::join_all(stalls).await {
        assert_eq!(status, 408);
    }
    for status in futures_util::future::join_all((0..12).map(|_| Deed::SlowUpload.ask(&fleet, MALLORY))).await
    {
        assert_eq!(status, 408);
    }
    is_well(&fleet, "acme", "one", "24 uploads").await;
    assert!(ceiling().await >= before);
    for cell in &fleet.cells {
        assert_eq!(cell.metrics().await.sum("cofferdam_agent_breaker_opened_total", &[]), 0.0);
    }
}

#[tokio::test]
async fn no_sequence_of_one_tenants_requests_to_a_well_backend_changes_anothers_answer() {
    for seed in 0..3 {
        let mut random = StdRng::seed_from_u64(seed);
        let fleet = guarded().await;
        let mut done = Vec::new();
        for _ in 0..40 {
            let deed = Deed::ALL[random.random_range(0..Deed::ALL.len())];
            // Enough of one kind at once for any breaker.
            let n = random.random_range(1..=6);
            let all = (0..n).map(|_| deed.ask(&fleet, MALLORY));
            futures_util::future::join_all(all).await;
            done.push((deed, n));
            let what = format!("seed {seed}: {done:?}");
            for (tenant, home) in [("acme", "one"), ("globex", "two")] {
                if random.random_bool(0.4) {
                    is_well(&fleet, tenant, home, &what).await;
                }
            }
        }
        let what = format!("seed {seed}: {done:?}");
        is_well(&fleet, "acme", "one", &what).await;
        is_well(&fleet, "globex", "two", &what).await;
    }
}
