//! Incidents: each is made to happen to a live fleet, and `cofferdam explain`, run as an operator runs it, has to say it first.
//! `make incidents` prints the table, which stands in `tests/FAULTS.md`.

mod cells;
mod drills;
mod limits;
mod quiet;
mod routers;
mod states;

use std::net::SocketAddr;
use std::pin::Pin;

use crate::support::processes::run;

/// The tenant that has the incident.
const ACME: &str = "acme";

/// Pins two tenants to the same cells.
const PINS: &str = "placement: { pins: { acme: [cell-a, cell-b], initech: [cell-a, cell-b] } }\n";

/// What `explain` said in an incident.
struct Told {
    /// What was wrong.
    incident: &'static str,
    /// What the first line has to have.
    names: &'static [&'static str],
    /// The exit code that it has to have.
    code: i32,
    said: String,
    ended: Option<i32>,
}

impl Told {
    /// Asks these routers of the tenant, as an operator does.
    async fn by(
        incident: &'static str,
        (names, code): (&'static [&'static str], i32),
        routers: &[SocketAddr],
        tenant: &str,
    ) -> Self {
        let (said, ended) = explain(routers, tenant).await;
        Self { incident, names, code, said, ended }
    }

    fn first(&self) -> &str {
        self.said.lines().next().unwrap_or_default().trim_start()
    }

    fn todo(&self) -> &str {
        self.said.lines().nth(1).unwrap_or_default().trim_start()
    }

    fn is_right(&self) -> bool {
        let mark = if self.code == 1 { "! " } else { "- " };
        self.ended == Some(self.code)
            && self.first().starts_with(mark)
            && !self.todo().is_empty()
            && self.names.iter().all(|name| self.first().contains(name))
    }
}

/// What the command prints, and its exit code.
async fn explain(routers: &[SocketAddr], tenant: &str) -> (String, Option<i32>) {
    let mut words = vec!["explain".to_owned(), tenant.to_owned()];
    words.extend(routers.iter().flat_map(|admin| ["--admin".to_owned(), format!("http://{admin}")]));
    let run = move || run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

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
        Box::pin(cells::dependency_breaker()),
        Box::pin(cells::backend_breaker()),
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
