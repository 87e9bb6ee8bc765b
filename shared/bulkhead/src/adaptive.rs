//! A limit that follows the measured latency: as long as answers take about as long as they do without load, there is room
//! for more; as they take longer, there is less. It gives a number, and admits nobody.
//!
//! The gradient is the latency without load by the latency now, with some tolerance: below one, requests wait for each other.
//! The latency without load is measured from time to time with a quarter of the limit, whatever the limit's floor is:
//! measured under the load that it is to tell of, it would grow with it.

use std::time::Duration;

use tokio::time::Instant;

/// A probe that has lasted for so many steps has nobody to measure.
const PROBE_STEPS: u32 = 20;

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
    /// Measures what is in `step` without load until it is over.
    is_probing: bool,
    /// When the probe that runs or the one before it began.
    probed: Instant,
    step: Step,
    gradient: f64,
}

/// Samples since the last step.
#[derive(Debug, Default)]
struct Step {
    began: Option<Instant>,
    /// In seconds.
    latencies: Vec<f64>,
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
            is_probing: true,
            probed: Instant::now(),
            step: Step::default(),
            gradient: 1.0,
        }
    }

    /// How many may be in flight now.
    pub fn limit(&self) -> u32 {
        let limit = if self.is_probing { (self.limit / 4.0).max(1.0) } else { self.limit };
        // Between 1 and the ceiling.
        limit as u32
    }

    /// How many may be in flight where no probe runs.
    pub fn steady(&self) -> u32 {
        self.limit as u32
    }

    /// Ends a probe for which nobody came whose latency could be measured; `true` where it did. Ask from time to time.
    pub fn give_up_probe(&mut self, now: Instant) -> bool {
        let is_late = now.saturating_duration_since(self.probed) >= PROBE_STEPS * self.policy.step;
        let gives_up = self.is_probing && is_late;
        self.is_probing &= !gives_up;
        gives_up
    }

    /// An answer took `latency` until `now`, with so many in flight when it began, itself among them. Only what the backend did
    /// is a sample: neither refusals nor what was taken back, nor quick errors, nor streams, whose length is their own affair.
    /// While the latency without load is measured, who came before that or among too many says nothing of it.
    pub fn sample(&mut self, latency: Duration, in_flight: u32, now: Instant) {
        let came_before = now.saturating_duration_since(self.probed) < latency;
        if self.is_probing && (came_before || in_flight > self.limit()) {
            return;
        }
        let began = *self.step.began.get_or_insert(now);
        self.step.latencies.push(latency.as_secs_f64());
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
            is_probing: self.is_probing,
        }
    }

    fn take(&mut self, mut step: Step, now: Instant) {
        let latency_s = step.median();
        if self.is_probing {
            // The first is taken whole; later ones half, so that one odd probe does not decide.
            let unloaded_s = self.unloaded_s.map_or(latency_s, |before| (before + latency_s) / 2.0);
            (self.unloaded_s, self.is_probing) = (Some(unloaded_s), false);
            return;
        }
        let unloaded_s = self.unloaded_s.unwrap_or(latency_s);
        self.gradient = (self.policy.tolerance * unloaded_s / latency_s.max(1e-9)).clamp(0.5, 1.0);
        let is_used = f64::from(step.most_in_flight) * 2.0 >= self.limit;
        let target = self.limit * self.gradient + if is_used { self.limit.sqrt() } else { 0.0 };
        // Without need for more there is no growth; with answers that take too long there is less, used or not.
        let target = if is_used { target } else { target.min(self.limit) };
        let floor = f64::from(self.policy.floor.min(self.policy.ceiling));
        self.limit = (0.8 * self.limit + 0.2 * target).clamp(floor, self.policy.ceiling.into());
        // Faster than ever says that the old measure is too high; little by little, since it may be an odd moment.
        self.unloaded_s = Some(unloaded_s + 0.1 * (latency_s - unloaded_s).min(0.0));
        if now.saturating_duration_since(self.probed) >= self.policy.probe_every {
            (self.is_probing, self.probed) = (true, now);
        }
    }
}

impl Step {
    fn median(&mut self) -> f64 {
        let middle = self.latencies.len() / 2;
        *self.latencies.select_nth_unstable_by(middle, f64::total_cmp).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: AdaptivePolicy = AdaptivePolicy {
        floor: 4,
        ceiling: 200,
        tolerance: 1.5,
        samples: 20,
        step: Duration::from_millis(100),
        probe_every: Duration::from_secs(30),
    };

    /// A backend that works on `capacity` at once, each for 10 ms, and lets the others wait; driven for so many steps with
    /// `demand` in flight at most. The result is the limit in the end.
    fn drive(limit: &mut AdaptiveLimit, now: &mut Instant, capacity: u32, demand: u32, steps: u32) -> u32 {
        for _ in 0..steps {
            *now += Duration::from_millis(110);
            let in_flight = limit.limit().min(demand).max(1);
            let waits = f64::from(in_flight.max(capacity)) / f64::from(capacity);
            let latency = Duration::from_secs_f64(0.01 * waits);
            for _ in 0..20 {
                limit.sample(latency, in_flight, *now);
            }
            *now += Duration::from_millis(110);
            limit.sample(latency, in_flight, *now);
        }
        limit.state().limit
    }

    #[test]
    fn it_finds_what_the_backend_can_do_and_follows_it() {
        // P22
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(POLICY, 20);
        let found = drive(&mut limit, &mut now, 40, 500, 100);
        assert!((50..=80).contains(&found), "half as long again is tolerated: {found}");
        let slower = drive(&mut limit, &mut now, 10, 500, 100);
        assert!((10..=25).contains(&slower), "{slower}");
        let again = drive(&mut limit, &mut now, 40, 500, 200);
        assert!((50..=80).contains(&again), "{again}");
    }

    #[test]
    fn it_does_not_grow_while_less_than_half_is_used() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(POLICY, 20);
        assert_eq!(drive(&mut limit, &mut now, 40, 9, 100), 20);
        let used = drive(&mut limit, &mut now, 40, 15, 100);
        assert!((28..=32).contains(&used), "until half of it is: {used}");
    }

    #[test]
    fn the_latency_without_load_is_measured_with_a_quarter_even_below_the_floor() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(AdaptivePolicy { floor: 10, ..POLICY }, 12);
        assert_eq!((limit.limit(), limit.state().is_probing), (3, true));
        drive(&mut limit, &mut now, 2, 500, 20);
        assert_eq!((limit.limit(), limit.state().is_probing), (10, false), "at its floor");
        now += Duration::from_secs(30);
        drive(&mut limit, &mut now, 2, 500, 1);
        assert_eq!((limit.limit(), limit.state().is_probing), (2, true));
    }

    #[test]
    fn a_probe_measures_only_who_came_after_it_began_and_ends_where_nobody_comes() {
        let start = Instant::now();
        let ms = |ms| start + Duration::from_millis(ms);
        let mut limit = AdaptiveLimit::new(POLICY, 40);
        limit.probed = start;
        // Sent before, and among more than a probe lets in.
        for _ in 0..40 {
            limit.sample(Duration::from_millis(300), 5, ms(200));
            limit.sample(Duration::from_millis(50), 30, ms(200));
        }
        assert!(limit.state().is_probing);
        assert!(!limit.give_up_probe(ms(1_999)) && limit.give_up_probe(ms(2_000)));
        assert_eq!((limit.limit(), limit.state().unloaded), (40, Duration::ZERO));
    }

    #[test]
    fn a_moment_of_quick_answers_does_not_make_the_usual_ones_slow() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(POLICY, 40);
        drive(&mut limit, &mut now, 40, 30, 5);
        for _ in 0..21 {
            limit.sample(Duration::from_micros(100), 30, now);
        }
        now += Duration::from_millis(110);
        limit.sample(Duration::from_micros(100), 30, now);
        drive(&mut limit, &mut now, 40, 30, 20);
        assert!(limit.limit() >= 40, "{}", limit.limit());
    }

    #[test]
    fn it_stays_within_its_bounds_and_holds_bounded_samples() {
        let mut now = Instant::now();
        let mut limit = AdaptiveLimit::new(POLICY, 1_000_000);
        assert!(limit.limit() <= 200);
        assert_eq!(drive(&mut limit, &mut now, 10_000, 10_000, 300), 200);
        assert_eq!(drive(&mut limit, &mut now, 1, 10_000, 300), 4);
        for _ in 0..10_000 {
            limit.sample(Duration::from_millis(1), 1, now);
        }
        assert!(limit.step.latencies.len() <= 320);
    }
}
