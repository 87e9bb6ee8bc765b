//! How full the cell is, told in two ways: a line on every answer, and the whole at `/saturation` of the probe
//! listener.
//!
//! `/saturation` answers one JSON object, [`CellReport`]. Numbers that grow do so since the `epoch`, which is when the
//! agent started, in microseconds of Unix time; `sequence` grows with each report of an epoch, so that a reader can put
//! reports in order and see a restart. Ratios are in 0..=1.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use cofferdam_bulkhead::{ClassSnapshot, Compartments, Snapshot, TenantPlaces};
use cofferdam_model::{CellId, CellReason, Report, headers};
use http::{HeaderMap, HeaderValue};
use serde::Serialize;

/// Puts the load report on an answer, in the place of any that was there.
pub(crate) fn write(report: &Report, fields: &mut HeaderMap) {
    // Classes and numbers are plain ASCII by their own types.
    if let Ok(value) = HeaderValue::from_str(&report.to_string()) {
        fields.insert(headers::LOAD, value);
    }
}

/// `/saturation`, for the probe listener.
pub(crate) fn routes(cell: CellId, compartments: Compartments) -> Router {
    Router::new().route("/saturation", get(saturation)).with_state((cell, compartments))
}

async fn saturation(State((cell, compartments)): State<(CellId, Compartments)>) -> Json<CellReport> {
    Json(CellReport::new(&cell, &compartments.snapshot()))
}

/// The whole cell at one moment.
#[derive(Debug, Serialize)]
struct CellReport {
    cell: String,
    epoch: u64,
    sequence: u64,
    /// Whether nothing new is let in.
    draining: bool,
    saturation: f64,
    used: u32,
    limit: u32,
    /// By name.
    classes: Vec<ClassReport>,
    /// Tenants that hold or wait for a place and have a compartment of their own.
    tenants: usize,
    /// Those who hold the most places, the most first.
    top_tenants: Vec<TenantReport>,
}

/// One class at that moment, and what it counted.
#[derive(Debug, Serialize)]
struct ClassReport {
    class: String,
    saturation: f64,
    used: u32,
    floor: u32,
    limit: u32,
    queued: u32,
    /// The most that may wait.
    queue: u32,
    oldest_wait_ms: u64,
    granted: u64,
    refused: RefusedReport,
    /// Those of the refused who had waited.
    queue_timeouts: u64,
    peak_used: u32,
}

/// Refusals by the level that was full.
#[derive(Debug, Serialize)]
struct RefusedReport {
    tenant: u64,
    class: u64,
    cell: u64,
}

/// What one tenant has in all classes together.
#[derive(Debug, Serialize)]
struct TenantReport {
    tenant: String,
    used: u32,
    queued: u32,
}

impl CellReport {
    fn new(cell: &CellId, now: &Snapshot) -> Self {
        Self {
            cell: cell.to_string(),
            epoch: now.epoch,
            sequence: now.sequence,
            draining: now.closed,
            saturation: now.saturation.as_f64(),
            used: now.used,
            limit: now.max,
            classes: now.classes.iter().map(ClassReport::new).collect(),
            tenants: now.tenants,
            top_tenants: now.top_tenants.iter().map(TenantReport::new).collect(),
        }
    }
}

impl ClassReport {
    fn new(class: &ClassSnapshot) -> Self {
        Self {
            class: class.class.to_string(),
            saturation: class.saturation.as_f64(),
            used: class.used,
            floor: class.floor,
            limit: class.ceiling,
            queued: class.queued,
            queue: class.queue,
            oldest_wait_ms: class.oldest_wait.as_millis() as u64,
            granted: class.granted,
            refused: RefusedReport {
                tenant: class.refused_for(CellReason::Tenant),
                class: class.refused_for(CellReason::Class),
                cell: class.refused_for(CellReason::Cell),
            },
            queue_timeouts: class.timeouts,
            peak_used: class.peak_used,
        }
    }
}

impl TenantReport {
    fn new(places: &TenantPlaces) -> Self {
        Self { tenant: places.tenant.as_str().to_owned(), used: places.used, queued: places.queued }
    }
}
