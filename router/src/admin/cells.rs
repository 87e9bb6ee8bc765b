//! `GET /cells`: every cell with its health and its last report, and how old that is.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::state::Admin;
use crate::cells::Cell;

/// One cell as an operator sees it. Saturations are ratios in 0..=1.
#[derive(Debug, Serialize)]
pub(super) struct CellView {
    id: String,
    zone: String,
    url: String,
    up: bool,
    /// This router's own requests on the cell.
    in_flight: u32,
    report: Option<ReportView>,
}

#[derive(Debug, Serialize)]
struct ReportView {
    age_ms: u128,
    saturation: f64,
    classes: serde_json::Map<String, serde_json::Value>,
}

impl CellView {
    pub(super) fn new(cell: &Cell, now: Instant) -> Self {
        let report = cell.reported(now).map(|reported| ReportView {
            age_ms: reported.age.as_millis(),
            saturation: reported.report.cell.as_f64(),
            classes: reported
                .report
                .classes
                .iter()
                .map(|class| (class.class.to_string(), class.saturation.as_f64().into()))
                .collect(),
        });
        Self {
            id: cell.id.to_string(),
            zone: cell.zone.to_string(),
            url: format!("http://{}", cell.authority),
            up: cell.health.is_up(now),
            in_flight: cell.in_flight(),
            report,
        }
    }
}

pub(super) async fn list(State(admin): State<Admin>) -> Json<Vec<CellView>> {
    let now = Instant::now();
    Json(admin.snapshots.load().cells.iter().map(|cell| CellView::new(cell, now)).collect())
}
