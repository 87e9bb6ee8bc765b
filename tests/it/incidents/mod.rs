//! Incidents: each is made to happen to a live fleet, and `cofferdam explain`, run as an operator runs it, has to say it first.
//! `make incidents` prints the table, which stands in `tests/FAULTS.md`.

mod cells;
mod drills;
mod limits;
mod quiet;
mod routers;
mod states;
mod told;

use std::pin::Pin;

use told::Told;

type Incident = Pin<Box<dyn Future<Output = Told>>>;

fn incidents() -> Vec<Incident> {
    vec![
        Box::pin(limits::tenant_rate()),
        Box::pin(limits::tenant_concurrency()),
        Box::pin(limits::route_limit()),
        Box::pin(limits::quota()),
        Box::pin(limits::ceiling()),
        Box::pin(limits::share()),
        Box::pin(limits::class_full()),
        Box::pin(limits::dependency_cap()),
        Box::pin(cells::dependency_breaker()),
        Box::pin(cells::backend_breaker()),
        Box::pin(cells::dead_backend()),
        Box::pin(cells::all_backends_dead()),
        Box::pin(cells::dead_cell()),
        Box::pin(cells::all_cells_dead()),
        Box::pin(cells::slow_backend()),
        Box::pin(cells::timeouts()),
        Box::pin(cells::failing_backend()),
        Box::pin(drills::hang()),
        Box::pin(drills::error()),
        Box::pin(drills::latency()),
        Box::pin(states::confinement()),
        Box::pin(states::store_away()),
        Box::pin(states::fresh_store()),
        Box::pin(states::pin()),
        Box::pin(states::quarantine()),
        Box::pin(states::rollout()),
    ]
}

#[tokio::test]
async fn every_incident_is_what_explain_says_first() {
    let mut wrong = Vec::new();
    println!("| incident | exit | `cofferdam explain` says first, and what to do |\n|---|---|---|");
    for incident in incidents() {
        let told = incident.await;
        let ended = told.ended.map_or_else(|| "-".to_owned(), |code| code.to_string());
        println!("| {} | {ended} | {}<br>{} |", told.incident, told.first(), told.todo());
        if !told.is_right() {
            wrong.push(format!(
                "{}: exit {ended}, not {:?} {}:\n{}",
                told.incident, told.names, told.code, told.said
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
