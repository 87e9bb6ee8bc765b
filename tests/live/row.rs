//! One row of the table: a kind of limit under a pattern of arrival, with each number of routers.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::ROUTERS;
use crate::exact::{Limit, Outcome, Said};
use crate::kind::Kind;
use crate::lanes;
use crate::pattern::Pattern;
use crate::scene::Scene;

/// Two lines of Markdown.
pub(crate) const HEAD: &str = "| limit | arrivals | 2 routers: refused falsely / refused / admitted | over | 3 routers | over | 4 routers | over |\n\
                               |---|---|---|---|---|---|---|---|";

pub(crate) struct Row {
    pub(crate) kind: Kind,
    pub(crate) pattern: Pattern,
    pub(crate) cells: [Cell; ROUTERS.len()],
}

/// What was seen of a row with one number of routers.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    n_false: usize,
    n_refused: usize,
    n_admitted: usize,
    /// How many were admitted above the limit.
    n_over: usize,
    failed: Vec<String>,
}

pub(crate) async fn measure(scene: &mut Scene, kind: Kind, pattern: Pattern) -> Cell {
    let begun = Instant::now();
    // Tenants that nobody has seen: their buckets are full.
    let tenant = |nth| format!("{}-{}-{nth}", kind as usize, pattern as usize);
    let tenants: Vec<_> = (0..kind.n_tenants()).map(tenant).collect();
    let lanes = pattern.lanes(kind, scene.n_routers());
    let addresses = std::sync::Arc::clone(&scene.addresses);
    scene.backend.most();
    let churn = async {
        if pattern == Pattern::Churn {
            sleep(Duration::from_millis(200)).await;
            scene.join().await;
            scene.leave().await;
        }
    };
    let (outcomes, ()) = tokio::join!(lanes::run(lanes, &tenants, &addresses), churn);
    let cell = Cell::of(kind.limit(), &outcomes, scene.backend.most());
    eprintln!("{}, {}: {} routers, {:?}", kind.name(), pattern.name(), scene.n_routers(), begun.elapsed());
    tell_false(kind.limit(), &outcomes);
    // After the last pattern nobody has to know who came and went.
    if pattern != Pattern::Churn {
        sleep(kind.rest()).await;
    }
    cell
}

/// Says of false refusals when they were, and at which router.
fn tell_false(limit: Limit, outcomes: &[Outcome]) {
    let Some(begun) = outcomes.iter().map(|outcome| outcome.sent).min() else { return };
    for outcome in limit.false_refusals(outcomes).take(3) {
        let (router, after) = (outcome.router, outcome.sent.saturating_duration_since(begun));
        eprintln!("  refused falsely at router {router}, {after:?} after the start");
    }
}

impl Cell {
    fn of(limit: Limit, outcomes: &[Outcome], most: usize) -> Self {
        let count = |said: Said| outcomes.iter().filter(|outcome| outcome.said == said).count();
        let failed = outcomes.iter().filter_map(|outcome| match &outcome.said {
            Said::Failed(why) => Some(why.clone()),
            Said::Admitted | Said::Refused => None,
        });
        let n_over = match limit {
            Limit::Permits(limit) => most.saturating_sub(limit),
            Limit::Tokens { .. } => limit.tokens_above(outcomes),
        };
        Self {
            n_false: limit.false_refusals(outcomes).count(),
            n_refused: count(Said::Refused),
            n_admitted: count(Said::Admitted),
            n_over,
            failed: failed.collect(),
        }
    }
}

/// What of the promises was not kept, by kind and number of routers.
pub(crate) fn broken(rows: &[Row]) -> impl Iterator<Item = String> {
    let cells = Kind::ALL.into_iter().flat_map(|kind| (0..ROUTERS.len()).map(move |at| (kind, at)));
    cells.filter_map(move |(kind, at)| {
        let cells: Vec<_> = rows.iter().filter(|row| row.kind == kind).map(|row| &row.cells[at]).collect();
        let sum = |part: fn(&Cell) -> usize| cells.iter().map(|cell| part(cell)).sum::<usize>();
        let (n_false, n_admitted) = (sum(|cell| cell.n_false), sum(|cell| cell.n_admitted));
        let (n_over, n_failed) = (sum(|cell| cell.n_over), sum(|cell| cell.failed.len()));
        let is_kept = n_false <= kind.tolerated(n_admitted) && n_over == 0 && n_failed == 0;
        let failed: Vec<_> = cells.iter().flat_map(|cell| &cell.failed).take(3).collect();
        let (kind, n_routers) = (kind.name(), ROUTERS[at]);
        let told = format!(
            "{kind}, {n_routers} routers: {n_false} refused falsely of {n_admitted} admitted, {n_over} over, \
             {n_failed} failed {failed:?}"
        );
        (!is_kept).then_some(told)
    })
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {} |", self.kind.name(), self.pattern.name())?;
        for Cell { n_false, n_refused, n_admitted, n_over, .. } in &self.cells {
            write!(f, " {n_false} / {n_refused} / {n_admitted} | {n_over} |")?;
        }
        Ok(())
    }
}
