//! `GET /cells`: every cell with its health and its last report, how old that is, and what is avoided because of it.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::state::Admin;
use crate::cells::{Cell, Gauge};

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
    /// For how long the whole cell has been avoided; nothing where it is not.
    avoided_for_ms: Option<u128>,
    classes: serde_json::Map<String, serde_json::Value>,
    /// The same by class, for those that are.
    classes_avoided_for_ms: serde_json::Map<String, serde_json::Value>,
}

impl CellView {
    pub(super) fn new(cell: &Cell, now: Instant) -> Self {
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
