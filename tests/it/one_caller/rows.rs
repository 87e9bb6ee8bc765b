//! The table of ends, row by row: what two tenants meet counts as the table says, and the page shows what the table has.

use cofferdam_model::{Again, CallEnd, Charge, Guard};

use super::deeds::{Deed, MALLORY, guarded};

/// The ends that a deed can bring about at a backend that is well, each with its deed and the caller's status.
const ROWS: [(CallEnd, Deed, u16); 20] = [
    (CallEnd::Answered, Deed::Well, 200),
    (CallEnd::Answered, Deed::NotFound, 404),
    (CallEnd::Answered, Deed::RefusedUpgrade, 200),
    (CallEnd::TooMany, Deed::TooMany, 429),
    (CallEnd::ServerError, Deed::ServerError, 500),
    (CallEnd::Malformed, Deed::Garbage, 502),
    (CallEnd::Malformed, Deed::LargeHead, 502),
    (CallEnd::Malformed, Deed::Interim, 502),
    (CallEnd::RouteTimeout, Deed::Timeout, 504),
    (CallEnd::Lost, Deed::ClosedPost, 502),
    (CallEnd::Lost, Deed::Closed, 502),
    (CallEnd::Truncated, Deed::Truncated, 200),
    (CallEnd::NotSpoken, Deed::Grpc, 12),
    (CallEnd::BadRequest, Deed::Malformed, 405),
    (CallEnd::BodyTooLarge, Deed::LargeUpload, 413),
    (CallEnd::BodyTooLarge, Deed::DeclaredLarge, 413),
    (CallEnd::BodyIdle, Deed::StalledUpload, 408),
    (CallEnd::BodySlow, Deed::SlowUpload, 408),
    (CallEnd::BodyBroken, Deed::BrokenUpload, 0),
    (CallEnd::CallerGone, Deed::Gone, 0),
];

#[tokio::test]
async fn each_end_that_two_tenants_meet_counts_as_the_table_says() {
    for (end, deed, status) in ROWS {
        let fleet = guarded().await;
        for _ in 0..4 {
            for tenant in [MALLORY, "zoe"] {
                let told = deed.ask(&fleet, tenant).await;
                // Behind an open breaker it is refused.
                assert!(told == status || end.charge().guard == Guard::Dependency, "{deed:?}: {told}");
            }
        }
        fleet.idle().await;
        let (metrics, router) = (fleet.cells[0].metrics().await, fleet.router.metrics().await);
        let opened = |of: &str| metrics.sum("cofferdam_agent_breaker_opened_total", &[of]) > 0.0;
        let guards = (opened("of=\"dependency db\""), opened("of=\"backend\""));
        let charge = end.charge();
        assert_eq!(guards, (charge.guard == Guard::Dependency, charge.guard == Guard::Backend), "{deed:?}");
        let n_samples = metrics.sum("cofferdam_agent_adaptive_samples_total", &[]);
        assert!((n_samples > 0.0) == charge.sample, "{deed:?}: {n_samples} samples");
        let is_loss = router.sum("cofferdam_router_cell_losses_total", &[]) > 0.0;
        assert_eq!(is_loss, charge.loss, "{deed:?}");
        let n_retries = router.sum("cofferdam_router_retries_total", &[]);
        // A POST that may have been executed is not tried again.
        let is_paid = charge.again == Again::Paid && deed != Deed::ClosedPost;
        assert_eq!(n_retries > 0.0, is_paid, "{deed:?}");
        let n_up = router.sum("cofferdam_router_cell_up", &[]);
        assert_eq!(n_up < 2.0, charge.down, "{deed:?}");
    }
}

#[tokio::test]
async fn a_backend_that_is_gone_opens_its_own_breaker_and_the_other_cell_serves() {
    let fleet = guarded().await;
    fleet.cells[0].backend.die();
    for _ in 0..4 {
        for tenant in [MALLORY, "zoe"] {
            assert_eq!(Deed::Well.ask(&fleet, tenant).await, 200);
        }
    }
    let metrics = fleet.cells[0].metrics().await;
    assert_eq!(metrics.sum("cofferdam_agent_breaker_opened_total", &["of=\"backend\""]), 1.0);
    assert_eq!(metrics.sum("cofferdam_agent_breaker_opened_total", &["of=\"dependency db\""]), 0.0);
    assert_eq!(metrics.sum("cofferdam_agent_breaker_open_for_one", &[]), 0.0);
}

#[test]
fn the_page_of_outcomes_shows_the_table() {
    let page = include_str!("../../../docs/outcomes.md");
    for end in CallEnd::ALL {
        let row = row(end);
        assert!(page.lines().any(|line| line == row), "docs/outcomes.md lacks:\n{row}");
    }
    let n_rows = page.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 8).count();
    // With the table's head.
    assert_eq!(n_rows, CallEnd::ALL.len() + 1);
}

fn row(end: CallEnd) -> String {
    let Charge { guard, sample, penalty, again, loss, down } = end.charge();
    let guard = match guard {
        Guard::Nothing => "-",
        Guard::Success => "success",
        Guard::Dependency => "failure of the dependency",
        Guard::Backend => "failure of the backend",
    };
    let again = match again {
        Again::No => "-",
        Again::Free => "free",
        Again::Paid => "paid",
    };
    let yes = |it| if it { "yes" } else { "-" };
    let [sample, penalty, loss, down] = [sample, penalty, loss, down].map(yes);
    format!("| {} | {guard} | {sample} | {penalty} | {again} | {loss} | {down} |", end.as_str())
}
