//! Classes whose ceiling follows the latency: how long answers take is told, and the compartments are set by it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam_bulkhead::{AdaptiveLimit, AdaptivePolicy, AdaptiveState, Compartments};
use cofferdam_fleet::{Class, ClassIndex};
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// A gauge's name, what it shows, and how it is read off.
type Gauge = (&'static str, &'static str, fn(&AdaptiveState) -> f64);

/// The ceilings of one layout.
#[derive(Debug)]
pub(crate) struct Following {
    /// By class; nothing for one whose ceiling stays.
    classes: Vec<Option<Arc<Ceiling>>>,
    compartments: Compartments,
}

#[derive(Debug)]
struct Ceiling {
    name: Box<str>,
    /// Where the compartments have the class.
    at: usize,
    in_flight: AtomicU32,
    policy: AdaptivePolicy,
    limit: Mutex<AdaptiveLimit>,
}

/// A request that has its place.
#[derive(Debug)]
pub(crate) struct Timed {
    ceiling: Arc<Ceiling>,
    began: Instant,
    in_flight: u32,
}

impl Following {
    /// Ceilings for the classes of a layout that the compartments have taken on, each where `at` says that it is. One whose
    /// bounds have not changed goes on as it is in `before`.
    pub(crate) fn new(
        classes: &[Class],
        at: &[usize],
        compartments: Compartments,
        before: Option<&Self>,
    ) -> Self {
        let known = |name: &str, at: usize, policy: AdaptivePolicy| {
            let mut all = before.into_iter().flat_map(|before| before.classes.iter().flatten());
            all.find(|it| &*it.name == name && it.at == at && it.policy == policy).cloned()
        };
        let ceiling = |(class, &at): (&Class, &usize)| {
            let rules = class.adaptive?;
            let policy = AdaptivePolicy {
                floor: class.floor.max(1),
                ceiling: class.ceiling,
                tolerance: f64::from(rules.tolerance_thousandths) / 1000.0,
                ..AdaptivePolicy::default()
            };
            let name = class.name.as_str();
            let begin = || {
                // Who knows nothing yet begins in the middle.
                let limit = Mutex::new(AdaptiveLimit::new(policy, class.floor.midpoint(class.ceiling)));
                Arc::new(Ceiling { name: name.into(), at, in_flight: AtomicU32::new(0), policy, limit })
            };
            Some(known(name, at, policy).unwrap_or_else(begin))
        };
        let following = Self { classes: classes.iter().zip(at).map(ceiling).collect(), compartments };
        for ceiling in following.classes.iter().flatten() {
            following.compartments.set_ceiling(ceiling.at, ceiling.limit.lock().limit());
        }
        following
    }

    /// A request of `class` has its place; nothing where nobody wants to know how long it takes.
    pub(crate) fn begin(&self, class: ClassIndex) -> Option<Timed> {
        let ceiling = Arc::clone(self.classes.get(class.get())?.as_ref()?);
        let in_flight = ceiling.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Timed { ceiling, began: Instant::now(), in_flight })
    }

    /// Its backend has answered. Who refused, gave up or streams says nothing: of those this is not told.
    pub(crate) fn answered(&self, timed: &Timed) {
        let now = Instant::now();
        let limit = {
            let mut limit = timed.ceiling.limit.lock();
            let before = limit.limit();
            limit.sample(now - timed.began, timed.in_flight, now);
            (limit.limit() != before).then(|| limit.limit())
        };
        if let Some(limit) = limit {
            self.compartments.set_ceiling(timed.ceiling.at, limit);
        }
    }

    /// Writes what explains each ceiling.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges: [Gauge; 4] = [
            ("cofferdam_agent_adaptive_limit", "The ceiling that follows the latency", |it| {
                f64::from(it.limit)
            }),
            (
                "cofferdam_agent_adaptive_unloaded_seconds",
                "The latency without load, as it was measured last",
                |it| it.unloaded.as_secs_f64(),
            ),
            (
                "cofferdam_agent_adaptive_gradient",
                "Below 1, answers take longer than is tolerated, and the ceiling falls",
                |it| it.gradient,
            ),
            (
                "cofferdam_agent_adaptive_probing",
                "Whether the latency without load is being measured",
                |it| f64::from(u8::from(it.is_probing)),
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ceiling in self.classes.iter().flatten() {
                let state = ceiling.limit.lock().state();
                ConstGauge::new(value(&state)).encode(family.encode_family(&[("class", &*ceiling.name)])?)?;
            }
        }
        Ok(())
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.ceiling.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
