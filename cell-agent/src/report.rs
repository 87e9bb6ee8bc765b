//! How full the cell is, told in two ways: a line on every answer, and the whole at `/saturation` of the probe
//! listener, and with the names of tenants at that of the admin listener.
//!
//! `/saturation` answers one JSON object, [`CellReport`]. Numbers that grow do so since the `epoch`, which is when the
//! agent started, in microseconds of Unix time; `sequence` grows with each report of an epoch, so that a reader can put
//! reports in order and see a restart. Ratios are in 0..=1; rates are a second's, of the last one that was over.
//!
//! The line has ORCA's own fields beside the classes: `application_utilization`, `rps_fractional` and `eps`, by which its
//! users weigh a cell that fails fast for what it is.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use cofferdam_bulkhead::{ClassLayout, ClassSnapshot, Compartments, Place, Saturations, TenantPlaces};
use cofferdam_model::{CellId, CellReason, headers};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::time::Instant;

use crate::drills::Drills;
use crate::leaving::Leaving;
use crate::rates::{CellRates, ClassRates, Rates};
use crate::routers::{RoutedBy, Routers};
use crate::rules::Rules;

/// The load report of every answer, in the form of [`cofferdam_model::Report`]. One for each worker, so that nobody
/// waits for the last one's lock.
pub(crate) struct LoadField {
    compartments: Compartments,
    rates: Rates,
    last: Mutex<Last>,
}

/// What was written last. It is written anew only once a number has changed.
struct Last {
    saturations: Saturations,
    rates: CellRates,
    value: HeaderValue,
    /// What says the rates, which change once a second.
    rated: String,
    /// What stands before each class's number, in the order of the layout.
    names: Vec<String>,
    /// How often the layout had been changed before the names were taken.
    changes: u64,
}

impl LoadField {
    pub(crate) fn new(compartments: Compartments, rates: Rates) -> Self {
        let (saturations, now) = (compartments.saturations(), rates.cell());
        let (names, rated) = (names(&compartments), rated(now));
        let (value, changes) = (load(&saturations, &rated, &names, 0), saturations.changes());
        let last = Mutex::new(Last { saturations, rates: now, value, rated, names, changes });
        Self { compartments, rates, last }
    }

    /// Puts the report on an answer, in the place of any that was there. The place of the answer's own request counts for
    /// nothing: by the time that the next one comes it is free.
    pub(crate) fn write(&self, fields: &mut HeaderMap, own: Option<&Place>) {
        let (mut now, rates) = (self.saturations(own), self.rates.cell());
        let mut last = self.last.lock();
        // Names that are newer than the numbers are found out by the next numbers.
        while last.changes != now.changes() {
            (last.changes, last.names) = (now.changes(), names(&self.compartments));
            now = self.saturations(own);
        }
        let are_rates_new = last.rates != rates;
        if are_rates_new {
            (last.rates, last.rated) = (rates, rated(rates));
        }
        if are_rates_new || last.saturations != now {
            // As long as the last: mostly, only digits change.
            last.value = load(&now, &last.rated, &last.names, last.value.len());
            last.saturations = now;
        }
        fields.insert(headers::LOAD, last.value.clone());
    }

    fn saturations(&self, own: Option<&Place>) -> Saturations {
        own.map_or_else(|| self.compartments.saturations(), |own| self.compartments.saturations_without(own))
    }
}

fn names(compartments: &Compartments) -> Vec<String> {
    let name = |class: &ClassLayout| format!(", named_metrics.{}=", class.name);
    compartments.layout().classes().iter().map(name).collect()
}

fn rated(rates: CellRates) -> String {
    let CellRates { requests, errors } = rates;
    format!(", rps_fractional={requests:.1}, eps={errors:.1}")
}

fn load(now: &Saturations, rated: &str, names: &[String], n_bytes: usize) -> HeaderValue {
    let mut text = Vec::with_capacity(n_bytes);
    text.extend_from_slice(b"TEXT application_utilization=");
    text.extend_from_slice(&now.cell().text());
    text.extend_from_slice(rated.as_bytes());
    for (name, saturation) in names.iter().zip(now.classes()) {
        text.extend_from_slice(name.as_bytes());
        text.extend_from_slice(&saturation.text());
    }
    // Classes and numbers are plain ASCII by their own types.
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

/// Whom `/saturation` asks.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) cell: CellId,
    pub(crate) compartments: Compartments,
    pub(crate) routers: Arc<Routers>,
    pub(crate) rates: Rates,
    pub(crate) leaving: Leaving,
    /// Where they are allowed.
    pub(crate) drills: Option<Arc<Drills>>,
    pub(crate) rules: Arc<ArcSwap<Rules>>,
}

/// `/saturation`, for the probe listener: numbers, and no tenant's name.
pub(crate) fn routes(source: Source) -> Router {
    Router::new().route("/saturation", get(saturation)).with_state(source)
}

/// The same for operators, with the names.
pub(crate) fn operators_routes(source: Source) -> Router {
    Router::new().route("/saturation", get(saturation_by_name)).with_state(source)
}

async fn saturation(State(source): State<Source>) -> Json<CellReport> {
    Json(CellReport { top_tenants: None, ..CellReport::new(&source) })
}

async fn saturation_by_name(State(source): State<Source>) -> Json<CellReport> {
    Json(CellReport::new(&source))
}

/// The whole cell at one moment.
#[derive(Debug, Serialize)]
struct CellReport {
    cell: String,
    epoch: u64,
    sequence: u64,
    /// Whether nothing new is let in.
    draining: bool,
    /// When what is left is cut, in milliseconds from now; `null` until the agent drains. Of one that follows another, that one's.
    leaving_ms: Option<u64>,
    saturation: f64,
    used: u32,
    limit: u32,
    /// Requests that ended, a second.
    rps: f64,
    /// Those of them that failed or found no room, a second.
    eps: f64,
    /// By name.
    classes: Vec<ClassReport>,
    /// Tenants that hold or wait for a place and have a compartment of their own.
    tenants: usize,
    /// Those who hold the most places, the most first; for operators alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    top_tenants: Option<Vec<TenantReport>>,
    /// Drills that go on, without the names of tenants.
    drills: Vec<String>,
    /// Breakers that are open or let a few try, by what they guard.
    open_breakers: Vec<String>,
    /// What the last router that was heard routed by; `null` before the first.
    router: Option<RouterReport>,
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
    /// Places given, a second.
    grant_rate: f64,
    /// Refusals, a second.
    reject_rate: f64,
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

/// A router's fleet file and its placement table.
#[derive(Debug, Serialize)]
struct RouterReport {
    revision: u64,
    digest: String,
}

impl CellReport {
    fn new(source: &Source) -> Self {
        let Source { cell, compartments, routers, rates, leaving, drills, rules } = source;
        let drills = drills.iter().flat_map(|drills| drills.going_on(Instant::now()));
        let (now, router) = (&compartments.snapshot(), routers.routed_by());
        let CellRates { requests, errors } = rates.cell();
        let class = |class: &ClassSnapshot| ClassReport::new(class, rates.class(&class.class));
        Self {
            cell: cell.to_string(),
            epoch: now.epoch,
            sequence: now.sequence,
            draining: now.closed,
            leaving_ms: leaving.left_ms(),
            saturation: now.saturation.as_f64(),
            used: now.used,
            limit: now.max,
            rps: requests.into(),
            eps: errors.into(),
            classes: now.classes.iter().map(class).collect(),
            tenants: now.tenants,
            top_tenants: Some(now.top_tenants.iter().map(TenantReport::new).collect()),
            drills: drills.map(|drill| drill.without_names()).collect(),
            open_breakers: rules.load().breakers.not_closed(),
            router: router.map(RouterReport::new),
        }
    }
}

impl ClassReport {
    fn new(class: &ClassSnapshot, rates: ClassRates) -> Self {
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
            grant_rate: rates.grants,
            reject_rate: rates.refusals,
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

impl RouterReport {
    fn new(by: RoutedBy) -> Self {
        Self { revision: by.revision.0, digest: by.digest.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cofferdam_bulkhead::{Layout, TenantShare};
    use cofferdam_model::{Alphabet, ClassName, ClassSaturation, Report, TenantId};

    use super::*;

    fn compartments() -> Compartments {
        let class = |(name, ceiling): (&str, u32)| ClassLayout {
            name: ClassName::parse(name).unwrap(),
            priority: 0,
            floor: 0,
            ceiling,
            queue: 0,
            max_wait: Duration::ZERO,
        };
        let classes = [("checkout", 2), ("default", 4), ("search", 3)].map(class).into();
        Compartments::new(Layout::new(4, TenantShare::WHOLE, 10, classes).unwrap())
    }

    /// The report as the model writes it.
    fn reference(compartments: &Compartments) -> String {
        let now = compartments.snapshot();
        let class = |class: ClassSnapshot| {
            let ClassSnapshot { class, saturation, .. } = class;
            ClassSaturation { class, saturation }
        };
        let classes = now.classes.into_iter().map(class).collect();
        let report = Report { cell: now.saturation, classes }.to_string();
        // The model knows what routers go by, and passes over the rest.
        let (cell, classes) = report.split_at(report.find(", ").unwrap());
        format!("{cell}, rps_fractional=0.0, eps=0.0{classes}")
    }

    fn written(load: &LoadField) -> HeaderValue {
        let mut fields = HeaderMap::new();
        fields.insert(headers::LOAD, HeaderValue::from_static("TEXT forged=1"));
        load.write(&mut fields, None);
        assert_eq!(fields.get_all(headers::LOAD).iter().count(), 1);
        fields[headers::LOAD].clone()
    }

    #[test]
    fn the_load_field_is_the_models_report_whatever_is_held() {
        let compartments = compartments();
        let load = LoadField::new(compartments.clone(), Rates::default());
        let tenant = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let mut held = Vec::new();
        for class in [0, 1, 2, 1] {
            assert_eq!(written(&load), reference(&compartments));
            held.push(compartments.try_acquire(class, &tenant).unwrap());
        }
        let full = written(&load);
        assert_eq!(full, reference(&compartments));
        assert!(full.to_str().unwrap().ends_with("named_metrics.search=1.000"), "{full:?}");
        drop(held);
        assert_eq!(written(&load), reference(&compartments));
    }

    #[test]
    fn a_report_of_the_same_numbers_is_not_written_again() {
        let load = LoadField::new(compartments(), Rates::default());
        let bytes = |value: &HeaderValue| value.as_bytes().as_ptr();
        let (first, second) = (written(&load), written(&load));
        assert_eq!(bytes(&first), bytes(&second));
    }
}
