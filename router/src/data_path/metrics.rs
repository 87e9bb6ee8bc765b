//! What the data path counts: requests by class, cell and outcome, their latency, refusals, and attempts that failed.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cofferdam_fleet::ClassIndex;
use cofferdam_model::CellIndex;
use cofferdam_proxy::tunnel::TunnelMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::outcome::Outcome;
use super::reject::Reason;
use crate::snapshot::Snapshot;

/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    class: String,
    cell: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    level: &'static str,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AttemptLabels {
    cell: String,
    fault: &'static str,
}

/// The families that all workers share. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    requests: Family<RequestLabels, Counter>,
    latency: Family<ClassLabels, Histogram, fn() -> Histogram>,
    refusals: Family<RefusalLabels, Counter>,
    failed_attempts: Family<AttemptLabels, Counter>,
    pub(crate) tunnels: TunnelMetrics,
}

/// The counters of one view, found by index instead of by label.
#[derive(Debug)]
pub(super) struct ViewCounters {
    metrics: Metrics,
    snapshot: Arc<Snapshot>,
    /// By class, then cell (the last stands for "no cell"), then outcome; each made when it is first needed.
    requests: Vec<OnceLock<Counter>>,
    /// By class.
    latency: Vec<Histogram>,
}

impl Metrics {
    /// Families registered in `registry`.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let metrics = Self {
            requests: Family::default(),
            latency: Family::new_with_constructor(histogram),
            refusals: Family::default(),
            failed_attempts: Family::default(),
            tunnels: TunnelMetrics::register(registry, "cofferdam_router"),
        };
        let requests = metrics.requests.clone();
        registry.register("cofferdam_router_requests", "Requests by class, cell and outcome", requests);
        let latency = metrics.latency.clone();
        let help = "From the head of a request to the end of its answer's body";
        registry.register("cofferdam_router_request_duration_seconds", help, latency);
        let refusals = metrics.refusals.clone();
        registry.register("cofferdam_router_refusals", "Requests refused, by level and reason", refusals);
        let failed = metrics.failed_attempts.clone();
        registry.register("cofferdam_router_failed_attempts", "Attempts that had no usable answer", failed);
        metrics
    }

    /// Counts a refusal.
    pub(super) fn refused(&self, reason: Reason) {
        let (level, reason) = reason.labels();
        self.refusals.get_or_create(&RefusalLabels { level, reason }).inc();
    }

    /// Counts an attempt that had no usable answer.
    pub(super) fn attempt_failed(&self, cell: &str, fault: &'static str) {
        self.failed_attempts.get_or_create(&AttemptLabels { cell: cell.to_owned(), fault }).inc();
    }
}

impl ViewCounters {
    pub(super) fn new(snapshot: &Arc<Snapshot>, metrics: &Metrics) -> Self {
        let classes = &snapshot.fleet.cell.classes;
        let n_counters = classes.len() * (snapshot.cells.len() + 1) * Outcome::ALL.len();
        let label = |name: &str| ClassLabels { class: name.to_owned() };
        let latency =
            classes.iter().map(|class| metrics.latency.get_or_create_owned(&label(class.name.as_str())));
        Self {
            metrics: metrics.clone(),
            snapshot: Arc::clone(snapshot),
            requests: (0..n_counters).map(|_| OnceLock::new()).collect(),
            latency: latency.collect(),
        }
    }

    /// Counts a request that has ended.
    pub(super) fn ended(&self, class: ClassIndex, cell: Option<CellIndex>, outcome: Outcome, took: Duration) {
        let n_cells = self.snapshot.cells.len();
        let place = cell.map_or(n_cells, CellIndex::get);
        let class = usize::from(class.0);
        let at = (class * (n_cells + 1) + place) * Outcome::ALL.len() + outcome as usize;
        let counter = self.requests[at].get_or_init(|| {
            let labels = RequestLabels {
                class: self.snapshot.fleet.cell.classes[class].name.to_string(),
                cell: self.snapshot.cells.get(place).map_or_else(String::new, |cell| cell.id.to_string()),
                outcome: outcome.as_str(),
            };
            self.metrics.requests.get_or_create_owned(&labels)
        });
        counter.inc();
        self.latency[class].observe(took.as_secs_f64());
    }
}
