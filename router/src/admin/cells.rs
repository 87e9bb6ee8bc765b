//! `GET /cells`: every cell with its health and its last report, how old that is, and what is avoided because of it.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use cofferdam_model::CellIndex;
use serde::Serialize;

use super::state::Admin;
use crate::cells::Gauge;
use crate::snapshot::Snapshot;

/// One cell as an operator sees it. Saturations are ratios in 0..=1.
#[derive(Debug, Serialize)]
pub(super) struct CellView {
    id: String,
    zone: String,
    url: String,
    /// What the fleet file has it there for, and until when it drains.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    up: bool,
    /// Drills that go on there, and breakers that are not closed, as its agent tells whoever probes it.
    drills: Vec<String>,
    open_breakers: Vec<String>,
    /// This router's own requests on the cell.
    in_flight: u32,
    report: Option<ReportView>,
}

#[derive(Debug, Serialize)]
struct ReportView {
    age_ms: u128,
    saturation: f64,
    /// For how long the whole cell has been avoided; nothing where it is not.
    avoided_for_ms: Option<u128>,
    classes: serde_json::Map<String, serde_json::Value>,
    /// The same by class, for those that are.
    classes_avoided_for_ms: serde_json::Map<String, serde_json::Value>,
}

impl CellView {
    pub(super) fn new(snapshot: &Snapshot, index: CellIndex, now: Instant) -> Self {
        let (cell, said) = (&snapshot.cells[index.get()], &snapshot.fleet.cells[index.get()]);
        let ms = |gauge: &Gauge| gauge.avoided_for.map(|avoided| avoided.as_millis());
        let report = cell.reported(now).map(|reported| ReportView {
            age_ms: reported.age.as_millis(),
            saturation: reported.cell.saturation.as_f64(),
            avoided_for_ms: ms(&reported.cell),
            classes: reported
                .classes
                .iter()
                .map(|(name, gauge)| (name.to_string(), gauge.saturation.as_f64().into()))
                .collect(),
            classes_avoided_for_ms: reported
                .classes
                .iter()
                .filter_map(|(name, gauge)| Some((name.to_string(), (ms(gauge)? as u64).into())))
                .collect(),
        });
        let told = cell.told.lately(now);
        Self {
            id: cell.id.to_string(),
            zone: cell.zone.to_string(),
            url: format!("http://{}", cell.endpoint.authority()),
            state: said.state.as_str(),
            until: said.until.map(|until| humantime::format_rfc3339_seconds(until).to_string()),
            up: cell.health.is_up(now),
            drills: told.drills,
            open_breakers: told.open_breakers,
            in_flight: cell.in_flight(),
            report,
        }
    }
}

pub(super) async fn list(State(admin): State<Admin>) -> Json<Vec<CellView>> {
    let now = Instant::now();
    let snapshot = admin.snapshots.load();
    let cells = (0..).map(CellIndex).take(snapshot.cells.len());
    Json(cells.map(|cell| CellView::new(&snapshot, cell, now)).collect())
}
