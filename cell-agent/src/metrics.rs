//! What the agent counts, and what its compartments show at a scrape. Labels are classes, outcomes and reasons, all of
//! them closed sets; a tenant is never one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use cofferdam_bulkhead::{CapSnapshot, ClassMeter, ClassSnapshot, Compartments, Refused, Snapshot};
use cofferdam_model::{CellReason, ClassName, TenantId};
use cofferdam_proxy::tunnel::TunnelMetrics;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::busiest::Busiest;
use crate::demand;

/// Seconds, from what a memory look-up takes to what a report takes.
const BUCKETS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0];

/// Seconds, each half again as long as the one before, and a little more: sizes are reckoned by what lies between.
const HOLDS: [f64; 24] = [
    0.0005, 0.0008, 0.0013, 0.002, 0.0033, 0.0052, 0.0084, 0.0134, 0.0215, 0.0344, 0.055, 0.088, 0.141,
    0.225, 0.36, 0.576, 0.922, 1.476, 2.36, 3.78, 6.04, 9.67, 15.5, 24.8,
];

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The backend's answer was handed on to its last byte.
    Served,
    /// So was the backend's own 5xx.
    BackendError,
    /// The compartments had no place, or a breaker was open.
    Refused,
    /// So it was, and something stood in for an answer.
    FellBack,
    /// The agent drains: that is no want of room.
    Draining,
    /// The backend takes no connection.
    Unreachable,
    /// The backend was lost before its answer.
    Lost,
    /// The backend's answer was not HTTP.
    Malformed,
    /// The backend's body broke off.
    Truncated,
    /// The deadline passed.
    Deadline,
    /// The request's own fault.
    BadRequest,
    /// The client went away first.
    ClientGone,
}

impl Outcome {
    const ALL: [Self; 12] = [
        Self::Served,
        Self::BackendError,
        Self::Refused,
        Self::FellBack,
        Self::Draining,
        Self::Unreachable,
        Self::Lost,
        Self::Malformed,
        Self::Truncated,
        Self::Deadline,
        Self::BadRequest,
        Self::ClientGone,
    ];

    fn is_error(self) -> bool {
        !matches!(self, Self::Served | Self::Draining | Self::BadRequest | Self::ClientGone)
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::BackendError => "backend_error",
            Self::Refused => "refused",
            Self::FellBack => "fell_back",
            Self::Draining => "draining",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::Deadline => "deadline",
            Self::BadRequest => "bad_request",
            Self::ClientGone => "client_gone",
        }
    }
}

/// The agent's own counters, resolved once, so that counting a request looks nothing up.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<[(&'static str, String); 2], Counter>,
    durations: Histograms,
    holds: Histograms,
    /// By name. A class that a fleet file takes away stays, since counters do.
    classes: Mutex<BTreeMap<ClassName, Arc<ClassMetrics>>>,
    unclassified: Counter,
    pub(crate) tunnels: TunnelMetrics,
    began: Instant,
}

type Histograms = Family<[(&'static str, String); 1], Histogram, fn() -> Histogram>;

/// One class's counters.
#[derive(Debug)]
pub(crate) struct ClassMetrics {
    name: ClassName,
    outcomes: [Counter; Outcome::ALL.len()],
    duration: Histogram,
    hold: Histogram,
    busiest: Busiest,
    meter: ClassMeter,
}

/// One request's entry in the counters, made exactly once. Dropped without an outcome, the client was gone.
#[derive(Debug)]
pub(crate) struct Record {
    class: Arc<ClassMetrics>,
    started: Instant,
    /// When it was given its place.
    admitted: Option<Instant>,
    /// When the answer was there, where what comes behind it is no part of the request's time.
    switched: Option<Instant>,
    outcome: Outcome,
}

impl Metrics {
    /// Registers the counters; those of a class come with the [first look](Self::of) for it.
    pub(crate) fn register(registry: &mut Registry) -> Arc<Self> {
        let durations = Histograms::new_with_constructor(|| Histogram::new(BUCKETS));
        let holds = Histograms::new_with_constructor(|| Histogram::new(HOLDS));
        let metrics = Arc::new(Self {
            requests: Family::default(),
            durations: durations.clone(),
            holds: holds.clone(),
            classes: Mutex::default(),
            unclassified: Counter::default(),
            tunnels: TunnelMetrics::register(registry, "cofferdam_agent"),
            began: Instant::now(),
        });
        let (requests, unclassified) = (metrics.requests.clone(), metrics.unclassified.clone());
        registry.register_collector(Box::new(PeaksCollector(Arc::clone(&metrics))));
        registry.register("cofferdam_agent_requests", "Requests by how they ended", requests);
        registry.register(
            "cofferdam_agent_request_duration_seconds",
            "From a request's arrival to the end of its answer's body",
            durations,
        );
        registry.register(
            "cofferdam_agent_hold_seconds",
            "From a request's place to the end of its answer's body or of its tunnel",
            holds,
        );
        registry.register(
            "cofferdam_agent_unclassified",
            "Requests turned away before they had a class: malformed, or without a usable tenant",
            unclassified,
        );
        metrics
    }

    /// The counters of a class.
    pub(crate) fn of(&self, class: &ClassName) -> Arc<ClassMetrics> {
        let mut classes = self.classes.lock();
        let made = classes.entry(class.clone()).or_insert_with(|| {
            let label = || ("class", class.to_string());
            let outcome = |outcome: Outcome| ("outcome", outcome.as_str().to_owned());
            let outcomes =
                Outcome::ALL.map(|each| self.requests.get_or_create_owned(&[label(), outcome(each)]));
            Arc::new(ClassMetrics {
                name: class.clone(),
                outcomes,
                duration: self.durations.get_or_create_owned(&[label()]),
                hold: self.holds.get_or_create_owned(&[label()]),
                busiest: Busiest::new(self.began),
                meter: ClassMeter::new(self.began),
            })
        });
        Arc::clone(made)
    }

    /// How many requests have ended, and how many of them failed or found no room, what stood in for an answer among them. What
    /// was the client's own doing is no failure, and neither is a drain.
    pub(crate) fn ended(&self) -> (u64, u64) {
        let classes = self.classes.lock();
        let outcomes = || classes.values().flat_map(|class| Outcome::ALL.iter().zip(&class.outcomes));
        let sum = |is_counted: fn(Outcome) -> bool| {
            outcomes().filter(|(outcome, _)| is_counted(**outcome)).map(|(_, counter)| counter.get()).sum()
        };
        (sum(|_| true), sum(Outcome::is_error))
    }

    /// A request was turned away before it had a class.
    pub(crate) fn unclassified(&self) {
        self.unclassified.inc();
    }
}

impl ClassMetrics {
    /// A request of the class arrived at `started`.
    pub(crate) fn begin(self: &Arc<Self>, started: Instant) -> Record {
        self.busiest.count(started);
        let class = Arc::clone(self);
        Record { class, started, admitted: None, switched: None, outcome: Outcome::ClientGone }
    }

    /// Bounds what one tenant's requests count for in the demand for the class; 0 is no bound.
    pub(crate) fn bound_tenants(&self, places: u32) {
        self.meter.bound_tenants(places);
    }
}

impl Record {
    /// The request was given its place at `admitted`.
    pub(crate) fn admitted(&mut self, tenant: &TenantId, admitted: Instant) {
        self.admitted = Some(admitted);
        self.class.meter.admitted(tenant, admitted);
    }

    /// The compartments refused the request.
    pub(crate) fn refused(&self, tenant: &TenantId, refused: &Refused) {
        if let Refused::Full { reason, .. } = refused {
            self.class.meter.refused(tenant, *reason, Instant::now());
        }
    }

    /// The request has become a tunnel: how long it took is known.
    pub(crate) fn switched(mut self) -> Self {
        self.switched = Some(Instant::now());
        self
    }

    /// The request ended so.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let class = &self.class;
        class.outcomes[self.outcome as usize].inc();
        let now = Instant::now();
        class.duration.observe((self.switched.unwrap_or(now) - self.started).as_secs_f64());
        if let Some(admitted) = self.admitted {
            class.hold.observe((now - admitted).as_secs_f64());
            class.meter.held(now - admitted);
        }
    }
}

/// Shows the busiest second of each class, and for how long there was one to be busy in.
#[derive(Debug)]
struct PeaksCollector(Arc<Metrics>);

impl Collector for PeaksCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = ("cofferdam_agent_uptime_seconds", "Since the agent began to count");
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(self.0.began.elapsed().as_secs_f64()).encode(gauge)?;
        let (name, help) =
            ("cofferdam_agent_busiest_second", "The most requests that came within one second");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        let classes = self.0.classes.lock();
        classes.values().try_for_each(|class| {
            let labels = [("class", class.name.as_str())];
            ConstGauge::new(f64::from(class.busiest.most())).encode(family.encode_family(&labels)?)
        })?;
        let demands = classes.values().map(|class| (class.name.as_str(), class.meter.demand()));
        demand::encode(&demands.collect::<Vec<_>>(), &mut encoder)
    }
}

/// Shows the compartments at the moment of a scrape.
#[derive(Debug)]
pub(crate) struct CompartmentsCollector(pub(crate) Compartments);

impl Collector for CompartmentsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let cell = self.0.snapshot();
        for (name, help, value) in CELL_GAUGES {
            let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value(&cell)).encode(gauge)?;
        }
        let classes = cell.classes;
        for (name, help, value) in CLASS_GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for class in &classes {
                let labels = [("class", class.class.as_str())];
                ConstGauge::new(value(class)).encode(family.encode_family(&labels)?)?;
            }
        }
        encode_refusals(&classes, &mut encoder)?;
        encode_caps(&cell.caps, &mut encoder)?;
        for (name, help, value) in CLASS_COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for class in &classes {
                let labels = [("class", class.class.as_str())];
                ConstCounter::new(value(class)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

/// A gauge's name, what it shows, and how it is read off the cell or a class.
type Gauge<T> = (&'static str, &'static str, fn(&T) -> f64);

const CELL_GAUGES: [Gauge<Snapshot>; 3] = [
    ("cofferdam_agent_cell_places_in_use", "Places held in the cell", |cell| f64::from(cell.used)),
    ("cofferdam_agent_cell_places_limit", "The cell's places", |cell| f64::from(cell.max)),
    ("cofferdam_agent_cell_saturation", "Places held in the cell, of all its places", |cell| {
        cell.saturation.as_f64()
    }),
];

const CLASS_GAUGES: [Gauge<ClassSnapshot>; 9] = [
    ("cofferdam_agent_places_in_use", "Places held", |class| f64::from(class.used)),
    ("cofferdam_agent_places_limit", "The most places that may be held", |class| f64::from(class.ceiling)),
    ("cofferdam_agent_places_floor", "Places kept for the class", |class| f64::from(class.floor)),
    ("cofferdam_agent_places_peak", "The most places that were held at once", |class| {
        f64::from(class.peak_used)
    }),
    ("cofferdam_agent_class_priority", "Who is given a freed place first: 0 before 1", |class| {
        f64::from(class.priority)
    }),
    ("cofferdam_agent_queue_limit", "The most requests that may wait", |class| f64::from(class.queue)),
    ("cofferdam_agent_max_wait_seconds", "How long a request may wait", |class| class.max_wait.as_secs_f64()),
    ("cofferdam_agent_queued", "Requests that wait for a place", |class| f64::from(class.queued)),
    ("cofferdam_agent_oldest_wait_seconds", "How long the first in line has waited", |class| {
        class.oldest_wait.as_secs_f64()
    }),
];

type ClassCounter = (&'static str, &'static str, fn(&ClassSnapshot) -> u64);

const CLASS_COUNTERS: [ClassCounter; 2] = [
    ("cofferdam_agent_queue_timeouts", "Requests refused after a wait in the queue", |class| class.timeouts),
    ("cofferdam_agent_queue_hopeless", "Requests refused since they would have waited too long", |class| {
        class.hopeless
    }),
];

type CapGauge = (&'static str, &'static str, fn(&CapSnapshot) -> u32);

const CAP_GAUGES: [CapGauge; 3] = [
    ("cofferdam_agent_cap_in_use", "Places held under a cap of a route or a dependency", |cap| cap.used),
    ("cofferdam_agent_cap_queued", "Requests under a cap that wait for a place", |cap| cap.queued),
    ("cofferdam_agent_cap_limit", "The most requests under a cap, in use or waiting", |cap| cap.limit),
];

/// Labels of caps are the fleet file's own names.
fn encode_caps(caps: &[CapSnapshot], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    for (name, help, value) in CAP_GAUGES {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for cap in caps {
            let labels = [("kind", cap.name.kind.as_str()), ("name", &*cap.name.name)];
            ConstGauge::new(f64::from(value(cap))).encode(family.encode_family(&labels)?)?;
        }
    }
    let (name, help) =
        ("cofferdam_agent_cap_refusals", "Requests that a cap refused; their classes' count them too");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    caps.iter().try_for_each(|cap| {
        let labels = [("kind", cap.name.kind.as_str()), ("name", &*cap.name.name)];
        ConstCounter::new(cap.refused).encode(family.encode_family(&labels)?)
    })
}

fn encode_refusals(classes: &[ClassSnapshot], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Requests that the compartments refused, by the level that was full";
    let mut family =
        encoder.encode_descriptor("cofferdam_agent_refusals", help, None, MetricType::Counter)?;
    for class in classes {
        for reason in CellReason::ALL {
            let labels = [("class", class.class.as_str()), ("reason", reason.as_str())];
            ConstCounter::new(class.refused_for(reason)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
