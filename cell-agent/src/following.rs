//! Classes whose ceiling follows the latency: how long answers take is told, and the compartments are set by it.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cofferdam_bulkhead::{AdaptiveLimit, AdaptivePolicy, AdaptiveState, Compartments};
use cofferdam_fleet::{Class, ClassIndex};
use cofferdam_model::TenantId;
use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// A gauge's name, what it shows, and how it is read off.
type Gauge = (&'static str, &'static str, fn(&AdaptivePolicy, &AdaptiveState) -> f64);

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
    n_samples: AtomicU64,
    policy: AdaptivePolicy,
    /// Makes a number of a tenant, by which samples are told apart.
    hasher: RandomState,
    /// Nothing once other rules hold: who was admitted by these ones says nothing of those. Whoever moves the compartment's
    /// ceiling does so under this lock, so that the last word is the newest.
    limit: Mutex<Option<AdaptiveLimit>>,
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
                let limit = AdaptiveLimit::new(policy, class.floor.midpoint(class.ceiling));
                let limit = Mutex::new(Some(limit));
                let (in_flight, n_samples, hasher) =
                    (AtomicU32::new(0), AtomicU64::new(0), RandomState::new());
                Arc::new(Ceiling { name: name.into(), at, in_flight, n_samples, policy, hasher, limit })
            };
            Some(known(name, at, policy).unwrap_or_else(begin))
        };
        let following = Self { classes: classes.iter().zip(at).map(ceiling).collect(), compartments };
        for old in before.into_iter().flat_map(|before| before.classes.iter().flatten()) {
            if !following.classes.iter().flatten().any(|new| Arc::ptr_eq(new, old)) {
                *old.limit.lock() = None;
            }
        }
        for (ceiling, &at) in following.classes.iter().zip(at) {
            match ceiling {
                Some(ceiling) => ceiling.apply(ceiling.limit.lock().as_ref(), &following.compartments),
                None => following.compartments.free_ceiling(at),
            }
        }
        following
    }

    /// A request of `class` has its place; nothing where nobody wants to know how long it takes.
    pub(crate) fn begin(&self, class: ClassIndex) -> Option<Timed> {
        let ceiling = Arc::clone(self.classes.get(class.get())?.as_ref()?);
        ceiling.change(&self.compartments, |limit, now| limit.give_up_probe(now));
        let in_flight = ceiling.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        Some(Timed { ceiling, began: Instant::now(), in_flight })
    }

    /// Its backend has answered, or let the whole time pass. Who refused, gave up or streams says nothing: of those this is not
    /// told.
    /// Its time counts from when the `whole` request was there.
    pub(crate) fn answered(&self, timed: &Timed, tenant: &TenantId, whole: Instant) {
        timed.ceiling.n_samples.fetch_add(1, Ordering::Relaxed);
        let caller = timed.ceiling.hasher.hash_one(tenant);
        timed.ceiling.change(&self.compartments, |limit, now| {
            let before = (limit.limit(), limit.steady());
            limit.sample_of(caller, now - whole.max(timed.began), timed.in_flight, now);
            (limit.limit(), limit.steady()) != before
        });
    }

    /// Writes what explains each ceiling.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let gauges: [Gauge; 6] = [
            ("cofferdam_agent_adaptive_limit", "The ceiling that follows the latency", |_, it| {
                f64::from(it.limit)
            }),
            (
                "cofferdam_agent_adaptive_unloaded_seconds",
                "The latency without load, as it was measured last",
                |_, it| it.unloaded.as_secs_f64(),
            ),
            ("cofferdam_agent_adaptive_ceiling", "The highest that the ceiling may rise", |policy, _| {
                f64::from(policy.ceiling)
            }),
            (
                "cofferdam_agent_adaptive_tolerance",
                "How many times the latency without load is tolerated",
                |policy, _| policy.tolerance,
            ),
            (
                "cofferdam_agent_adaptive_gradient",
                "Below 1, answers take longer than is tolerated, and the ceiling falls",
                |_, it| it.gradient,
            ),
            (
                "cofferdam_agent_adaptive_probing",
                "Whether the latency without load is being measured",
                |_, it| f64::from(u8::from(it.is_probing)),
            ),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ceiling in self.classes.iter().flatten() {
                let Some(state) = ceiling.limit.lock().as_ref().map(AdaptiveLimit::state) else { continue };
                ConstGauge::new(value(&ceiling.policy, &state))
                    .encode(family.encode_family(&[("class", &*ceiling.name)])?)?;
            }
        }
        let (name, help) = ("cofferdam_agent_adaptive_samples", "Answers that the ceiling follows");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for ceiling in self.classes.iter().flatten() {
            let n_samples = ceiling.n_samples.load(Ordering::Relaxed);
            ConstCounter::new(n_samples).encode(family.encode_family(&[("class", &*ceiling.name)])?)?;
        }
        Ok(())
    }
}

impl Ceiling {
    /// Changes the limit, and moves the compartment's ceiling where `change` says that it has to.
    fn change(&self, compartments: &Compartments, change: impl FnOnce(&mut AdaptiveLimit, Instant) -> bool) {
        let mut limit = self.limit.lock();
        if limit.as_mut().is_some_and(|limit| change(limit, Instant::now())) {
            self.apply(limit.as_ref(), compartments);
        }
    }

    /// A probe is short and no reason to call a tenant greedy: its share is of what holds otherwise.
    fn apply(&self, limit: Option<&AdaptiveLimit>, compartments: &Compartments) {
        if let Some(limit) = limit {
            compartments.move_ceiling(self.at, limit.limit(), limit.steady());
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.ceiling.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use cofferdam_fleet::Fleet;
    use cofferdam_model::Alphabet;

    use super::*;
    use crate::rules::layout;

    fn fleet(class: &str) -> Fleet {
        let text = format!(
            "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}, {{ id: b, url: 'http://b:1' }}]\n\
             cell: {{ max_in_flight: 100, classes: {{ default: {{ ceiling: 40, {class} }} }} }}\n"
        );
        Fleet::parse(&text, Path::new(".")).unwrap().fleet
    }

    fn ceiling(compartments: &Compartments) -> u32 {
        compartments.snapshot().classes[0].ceiling
    }

    #[tokio::test(start_paused = true)]
    async fn a_class_that_was_idle_measures_its_first_requests_with_a_quarter() {
        let fleet = fleet("adaptive: {}");
        let compartments = Compartments::new(layout(&fleet).unwrap());
        let at = compartments.indices().classes;
        let following = Following::new(&fleet.cell.classes, &at, compartments.clone(), None);
        tokio::time::advance(Duration::from_secs(10)).await;
        let timed: Vec<_> = (0..20).map(|_| following.begin(ClassIndex(0)).unwrap()).collect();
        assert_eq!(ceiling(&compartments), 5, "whoever came first has not answered yet");
        drop(timed);
        tokio::time::advance(Duration::from_secs(2)).await;
        let _timed = following.begin(ClassIndex(0)).unwrap();
        assert_eq!(ceiling(&compartments), 20, "nobody could be measured");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_keeps_a_ceiling_where_it_is_and_who_came_before_moves_none_of_other_rules() {
        let before = fleet("adaptive: {}");
        let compartments = Compartments::new(layout(&before).unwrap());
        let following = |fleet: &Fleet, before: Option<&Following>| {
            compartments.change(layout(fleet).unwrap());
            assert!(
                before.is_none() || ceiling(&compartments) < 40,
                "nobody is let in by the file's ceiling"
            );
            Following::new(&fleet.cell.classes, &compartments.indices().classes, compartments.clone(), before)
        };
        let first = following(&before, None);
        assert_eq!(
            ceiling(&compartments),
            5,
            "a quarter of the middle, until the latency without load is known"
        );
        // The same rules go on with what they know.
        let second = following(&fleet("adaptive: {}, queue: 3"), Some(&first));
        assert_eq!(ceiling(&compartments), 5);
        let third = following(&fleet("queue: 3"), Some(&second));
        assert_eq!(ceiling(&compartments), 40);
        let acme = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        for _ in 0..100 {
            let timed = second.begin(ClassIndex(0)).unwrap();
            tokio::time::advance(Duration::from_millis(30)).await;
            second.answered(&timed, &acme, timed.began);
        }
        assert_eq!((ceiling(&compartments), third.begin(ClassIndex(0)).is_none()), (40, true));
    }
}
