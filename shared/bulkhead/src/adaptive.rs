//! A limit that follows the measured latency: as long as answers take about as long as they do without load, there is room
//! for more; as they take longer, there is less. It gives a number, and admits nobody.
//!
//! The gradient is the latency without load by the latency now, with some tolerance: below one, requests wait for each other.
//! The latency without load is measured from time to time with a quarter of the limit, whatever the limit's floor is:
//! measured under the load that it is to tell of, it would grow with it.

use std::time::Duration;

use tokio::time::Instant;

use crate::breaker::Caller;

/// A probe lasts for no more than so many steps.
const PROBE_STEPS: u32 = 20;
/// Or than so many times the latency under load: those who came before it have left by then, and others have come and left.
const PROBE_LATENCIES: u32 = 3;

/// Bounds and pace of a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptivePolicy {
    /// The least that it falls to, at least 1.
    pub floor: u32,
    /// The most that it grows to.
    pub ceiling: u32,
    /// How much longer than without load an answer may take before the limit falls: 1.5 is half as long again.
    pub tolerance: f64,
    /// Samples of one step.
    pub samples: u32,
    /// The shortest time of one step.
    pub step: Duration,
    /// How often the latency without load is measured anew.
    pub probe_every: Duration,
}

/// The state of one limit: fed with samples, it says how many may be in flight.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::{AdaptiveLimit, AdaptivePolicy};
/// use tokio::time::Instant;
///
/// let mut limit = AdaptiveLimit::new(AdaptivePolicy { floor: 4, ceiling: 200, ..AdaptivePolicy::default() }, 20);
/// let mut now = Instant::now();
/// let mut answers = |limit: &mut AdaptiveLimit, latency_ms| {
///     for _ in 0..100 {
///         now += Duration::from_millis(10);
///         limit.sample(Duration::from_millis(latency_ms), limit.limit(), now);
///     }
///     limit.limit()
/// };
/// let fast = answers(&mut limit, 10);
/// assert!(fast > 20, "there is room for more: {fast}");
/// let slow = answers(&mut limit, 100);
/// assert!(slow < fast, "requests wait for each other: {slow}");
/// ```
#[derive(Debug)]
pub struct AdaptiveLimit {
    policy: AdaptivePolicy,
    limit: f64,
    /// Without load, in seconds; nothing before the first was measured.
    unloaded_s: Option<f64>,
    /// While there is one, what is in `step` is without load.
    probe: Option<Probe>,
    /// When a probe began or ended last. The first one counts only if it measured anybody.
    probed: Option<Instant>,
    step: Step,
    gradient: f64,
}

/// The latency without load is being measured.
#[derive(Debug)]
struct Probe {
    /// Who came since then is measured; nothing until the first comes.
    since: Option<Instant>,
    /// How long it may last from then on.
    patience: Duration,
}

/// Samples since the last step.
#[derive(Debug, Default)]
struct Step {
    began: Option<Instant>,
    /// In seconds, each with its caller.
    latencies: Vec<(Option<Caller>, f64)>,
    most_in_flight: u32,
}

/// What explains a limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveState {
    /// How many may be in flight now.
    pub limit: u32,
    /// The latency without load; zero before it was measured.
    pub unloaded: Duration,
    /// The last gradient, in 0.5..=1: below one, answers took longer than is tolerated.
    pub gradient: f64,
    /// Whether the latency without load is being measured.
    pub is_probing: bool,
}

impl Default for AdaptivePolicy {
    fn default() -> Self {
        Self {
            floor: 1,
            ceiling: 1000,
            tolerance: 1.5,
            samples: 20,
            step: Duration::from_millis(100),
            probe_every: Duration::from_secs(30),
        }
    }
}

impl AdaptiveLimit {
    /// A limit that begins at `initial`, within its policy's bounds.
    pub fn new(policy: AdaptivePolicy, initial: u32) -> Self {
        let policy = AdaptivePolicy { floor: policy.floor.max(1), ceiling: policy.ceiling.max(1), ..policy };
        let limit = f64::from(initial.clamp(policy.floor.min(policy.ceiling), policy.ceiling));
        Self {
            policy,
            limit,
            unloaded_s: None,
            probe: Some(Probe { since: None, patience: policy.step.saturating_mul(PROBE_STEPS) }),
            probed: None,
            step: Step::default(),
            gradient: 1.0,
        }
    }

    /// How many may be in flight now.
    pub fn limit(&self) -> u32 {
        let limit = if self.probe.is_some() { (self.limit / 4.0).max(1.0) } else { self.limit };
        // Between 1 and the ceiling.
        limit as u32
    }

    /// How many may be in flight where no probe runs.
    pub fn steady(&self) -> u32 {
        self.limit as u32
    }

    /// Ends a probe that has lasted for long enough, with what it has measured, if anything; `true` where it did. Ask as each
    /// request begins: the first probe's time begins with the first of them, since nobody can be measured before.
    pub fn give_up_probe(&mut self, now: Instant) -> bool {
        let Some(probe) = &mut self.probe else { return false };
        let since = *probe.since.get_or_insert(now);
        let gives_up = now.saturating_duration_since(since) >= probe.patience;
        if gives_up {
            let measured = std::mem::take(&mut self.step).median();
            self.end_probe(measured, now);
        }
        gives_up
    }

    /// An answer took `latency` until `now`, with so many in flight when it began, itself among them. Only what the backend did
    /// is a sample: neither refusals nor what was taken back, nor quick errors, nor streams, whose length is their own affair.
    /// While the latency without load is measured, who came before that or among too many says nothing of it.
    pub fn sample(&mut self, latency: Duration, in_flight: u32, now: Instant) {
        self.take_sample(None, latency, in_flight, now);
    }

    /// The same of one of many callers. Of a step's latencies each caller has one voice, whatever its number of samples: its median.
    pub fn sample_of(&mut self, caller: Caller, latency: Duration, in_flight: u32, now: Instant) {
        self.take_sample(Some(caller), latency, in_flight, now);
    }

    fn take_sample(&mut self, caller: Option<Caller>, latency: Duration, in_flight: u32, now: Instant) {
        if let Some(probe) = &mut self.probe {
            let since = *probe.since.get_or_insert(now.checked_sub(latency).unwrap_or(now));
            let came_before = now.saturating_duration_since(since) < latency;
            if came_before || in_flight > self.limit() {
                return;
            }
        }
        let began = *self.step.began.get_or_insert(now);
        self.step.latencies.push((caller, latency.as_secs_f64()));
        self.step.most_in_flight = self.step.most_in_flight.max(in_flight);
        let is_whole = self.step.latencies.len() >= self.policy.samples.max(1) as usize;
        if is_whole && now.saturating_duration_since(began) >= self.policy.step {
            let step = std::mem::take(&mut self.step);
            self.take(step, now);
        } else if self.step.latencies.len() >= 16 * self.policy.samples.max(1) as usize {
            // More says nothing new until the step is over; memory is bounded.
            self.step.latencies.pop();
        }
    }

    /// What explains it.
    pub fn state(&self) -> AdaptiveState {
        AdaptiveState {
            limit: self.limit(),
            unloaded: Duration::from_secs_f64(self.unloaded_s.unwrap_or(0.0)),
            gradient: self.gradient,
            is_probing: self.probe.is_some(),
        }
    }

    fn take(&mut self, mut step: Step, now: Instant) {
        let Some(latency_s) = step.median() else { return };
        if self.probe.is_some() {
            return self.end_probe(Some(latency_s), now);
        }
        // What is measured under load says nothing of what it is without: then nothing follows from it.
        if let Some(unloaded_s) = self.unloaded_s {
            self.follow(latency_s, unloaded_s, step.most_in_flight);
        }
        let every = self.policy.probe_every;
        if self.probed.is_none_or(|probed| now.saturating_duration_since(probed) >= every) {
            self.begin_probe(latency_s, now);
        }
    }

    fn begin_probe(&mut self, latency_s: f64, now: Instant) {
        let latency = Duration::try_from_secs_f64(latency_s).unwrap_or(Duration::MAX);
        let steps = self.policy.step.saturating_mul(PROBE_STEPS);
        let patience = steps.max(latency.saturating_mul(PROBE_LATENCIES));
        (self.probe, self.probed) = (Some(Probe { since: Some(now), patience }), Some(now));
    }

    fn end_probe(&mut self, latency_s: Option<f64>, now: Instant) {
        self.probe = None;
        // A first one that measured nobody is made up for as soon as there is somebody.
        if latency_s.is_some() || self.probed.is_some() {
            self.probed = Some(now);
        }
        let Some(latency_s) = latency_s else { return };
        // The first is taken whole; later ones half, so that one odd probe does not decide.
        self.unloaded_s = Some(self.unloaded_s.map_or(latency_s, |before| (before + latency_s) / 2.0));
    }

    fn follow(&mut self, latency_s: f64, unloaded_s: f64, most_in_flight: u32) {
        self.gradient = (self.policy.tolerance * unloaded_s / latency_s.max(1e-9)).clamp(0.5, 1.0);
        let is_used = f64::from(most_in_flight) * 2.0 >= self.limit;
        let target = self.limit * self.gradient + if is_used { self.limit.sqrt() } else { 0.0 };
        // Without need for more there is no growth; with answers that take too long there is less, used or not.
        let target = if is_used { target } else { target.min(self.limit) };
        let floor = f64::from(self.policy.floor.min(self.policy.ceiling));
        self.limit = (0.8 * self.limit + 0.2 * target).clamp(floor, self.policy.ceiling.into());
        // Faster than ever says that the old measure is too high; little by little, since it may be an odd moment.
        self.unloaded_s = Some(unloaded_s + 0.1 * (latency_s - unloaded_s).min(0.0));
    }
}

impl Step {
    /// The median of the callers' medians. Of two callers it is the faster one's: the slow one alone may be what is slow.
    fn median(&mut self) -> Option<f64> {
        self.latencies.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let callers = self.latencies.chunk_by(|a, b| a.0 == b.0);
        let mut medians: Vec<f64> = callers.map(|of_one| of_one[of_one.len() / 2].1).collect();
        let middle = medians.len().checked_sub(1)? / 2;
        Some(*medians.select_nth_unstable_by(middle, f64::total_cmp).1)
    }
}

#[cfg(test)]
mod tests;
