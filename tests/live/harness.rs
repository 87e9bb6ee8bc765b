//! False refusals, live: 2 to 4 routers share the limits of tenants in one Redis, as processes, with one agent and one backend
//! behind them. Requests arrive in patterns; an exact limiter, fed with what was admitted, says of each refusal whether it had
//! to be. `make limits-live` runs it; `tests/FAULTS.md` keeps its table.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it measures, and says what it saw"
)]

mod backend;
mod exact;
mod kind;
mod lanes;
mod pattern;
mod row;
mod scene;

#[allow(dead_code, reason = "the integration tests have their own part of it")]
#[path = "../support/mod.rs"]
mod support;

use kind::Kind;
use row::{Cell, Row};
use scene::Scene;

/// How many routers share the limits.
const ROUTERS: [usize; 3] = [2, 3, 4];

/// Measures the kinds of limits whose names begin with an argument; all of them without one.
fn main() {
    let wanted: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_wanted =
        |kind: &Kind| wanted.is_empty() || wanted.iter().any(|name| kind.name().starts_with(name.as_str()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rows = Vec::new();
    for kind in Kind::ALL.into_iter().filter(is_wanted) {
        let columns = ROUTERS.map(|n_routers| runtime.block_on(measure(kind, n_routers)));
        let of_kind = kind.patterns().into_iter().enumerate();
        let of_kind: Vec<_> = of_kind
            .map(|(at, pattern)| Row {
                kind,
                pattern,
                cells: columns.each_ref().map(|cells| cells[at].clone()),
            })
            .collect();
        if rows.is_empty() {
            println!("{}", row::HEAD);
        }
        of_kind.iter().for_each(|row| println!("{row}"));
        rows.extend(of_kind);
    }
    let broken: Vec<_> = row::broken(&rows).collect();
    assert!(broken.is_empty(), "not kept:\n{}", broken.join("\n"));
}

/// Every pattern of one kind of limit, with so many routers.
async fn measure(kind: Kind, n_routers: usize) -> Vec<Cell> {
    let mut scene = Scene::start(kind, n_routers).await;
    let mut cells = Vec::new();
    for pattern in kind.patterns() {
        cells.push(row::measure(&mut scene, kind, pattern).await);
    }
    cells
}
