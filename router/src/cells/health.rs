//! Whether a cell is believed to be up, and how much of its work one takes that has returned. A belief orders the cells of
//! a shard; it never removes one.
//!
//! - A cell goes down by a connect that failed, or by `fall` failed probes in a row.
//! - It comes up by `rise` good probes in a row, or by any answer but one that the cell has no room. If it went down by a
//!   connect, the prober connects as well before it takes a probe for a good one.
//! - Without a probe the belief expires, since only traffic could tell otherwise.
//! - A cell that goes down again within [`STEADY`] of its return has to wait longer each time, up to [`MAX_HOLD`].
//! - A cell that has returned takes a share of its requests that grows from a tenth to all within `slow_start`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_fleet::HealthRules;
use parking_lot::Mutex;

/// How long a cell without a probe is believed down after a failed connect.
const EXPIRES: Duration = Duration::from_secs(2);

/// A cell that stays up for so long has returned for good.
const STEADY: Duration = Duration::from_secs(30);

/// How long a cell that keeps going down again has to wait at most.
const MAX_HOLD: Duration = Duration::from_secs(32);

/// Down for as long as nothing says otherwise.
const UNTIL_TOLD: u64 = u64::MAX;

/// One part in ten of 2^32: the share with which a cell begins that has returned.
const FIRST_SHARE: u32 = u32::MAX / 10;

/// The golden ratio of 2^32. Its multiples are spread evenly, whichever of them are looked at.
const GOLDEN: u32 = 0x9E37_79B9;

/// The rules of the running fleet file. Every cell reads them where they are needed.
#[derive(Debug)]
pub(super) struct Rules {
    fall: AtomicU32,
    rise: AtomicU32,
    slow_start_ms: AtomicU64,
}

/// One cell's health as this router sees it. Times are whole milliseconds since `born`, plus 1.
#[derive(Debug)]
pub(crate) struct Health {
    rules: Arc<Rules>,
    born: Instant,
    probed: bool,
    /// Until when the cell is believed down; 0 is up.
    down_until: AtomicU64,
    /// When it returned; 0 where it was never down.
    returned: AtomicU64,
    /// Requests that could have gone to it since it returned.
    n_offered: AtomicU32,
    record: Mutex<Record>,
}

/// What led to the belief.
#[derive(Debug, Default)]
struct Record {
    n_bad_probes: u32,
    n_good_probes: u32,
    /// The cell went down by a connect that failed.
    by_connect: bool,
    /// How often the cell went down again soon after it had returned.
    n_flaps: u32,
    /// The last connect or probe that failed.
    last_fault: u64,
    /// When the cell returned, or will, where its belief expires; 0 where it was never down.
    rose: u64,
}

impl Rules {
    pub(super) fn new(rules: HealthRules) -> Self {
        let HealthRules { fall, rise, slow_start } = rules;
        let slow_start_ms = AtomicU64::new(slow_start.as_millis() as u64);
        Self { fall: AtomicU32::new(fall), rise: AtomicU32::new(rise), slow_start_ms }
    }

    /// Takes the rules of another fleet file.
    pub(super) fn change(&self, rules: HealthRules) {
        self.fall.store(rules.fall, Ordering::Relaxed);
        self.rise.store(rules.rise, Ordering::Relaxed);
        self.slow_start_ms.store(rules.slow_start.as_millis() as u64, Ordering::Relaxed);
    }
}

impl Health {
    pub(super) fn new(probed: bool, rules: Arc<Rules>) -> Self {
        Self {
            rules,
            born: Instant::now(),
            probed,
            down_until: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            n_offered: AtomicU32::new(0),
            record: Mutex::default(),
        }
    }

    /// Whether the cell is believed to be up at `now`.
    pub(crate) fn is_up(&self, now: Instant) -> bool {
        match self.down_until.load(Ordering::Relaxed) {
            0 => true,
            until => self.age(now) >= until,
        }
    }

    /// A connect failed. Answers whether the belief changed.
    pub(crate) fn note_fault(&self, now: Instant) -> bool {
        let mut record = self.record.lock();
        record.n_good_probes = 0;
        self.falls(&mut record, true, now)
    }

    /// The cell answered, and takes work. Answers whether the belief changed.
    pub(crate) fn note_answer(&self, now: impl FnOnce() -> Instant) -> bool {
        // The common case only reads, so that workers do not fight over the line.
        if self.down_until.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let now = now();
        let mut record = self.record.lock();
        self.age(now) >= record.last_fault + record.hold_ms() && self.rises(&mut record, now)
    }

    /// A probe answered well or not. Answers whether the belief changed.
    pub(super) fn note_probe(&self, well: bool, now: Instant) -> bool {
        let mut record = self.record.lock();
        if !well {
            record.n_good_probes = 0;
            record.n_bad_probes = record.n_bad_probes.saturating_add(1);
            let is_enough = record.n_bad_probes >= self.rules.fall.load(Ordering::Relaxed);
            return is_enough && self.falls(&mut record, false, now);
        }
        record.n_bad_probes = 0;
        record.n_good_probes = record.n_good_probes.saturating_add(1);
        let is_enough = record.n_good_probes >= self.rules.rise.load(Ordering::Relaxed);
        is_enough
            && self.age(now) >= record.last_fault + record.hold_ms()
            && self.down_until.load(Ordering::Relaxed) != 0
            && self.rises(&mut record, now)
    }

    /// Whether a probe says too little, since it was a connect to the cell itself that failed.
    pub(super) fn is_down_by_connect(&self) -> bool {
        self.down_until.load(Ordering::Relaxed) != 0 && self.record.lock().by_connect
    }

    /// Whether the cell has returned within the time of the slow start.
    pub(crate) fn is_returning(&self, now: Instant) -> bool {
        self.share(now).is_some()
    }

    /// Whether the next request that could go to the cell goes elsewhere, if it can: the cell has returned lately, and has
    /// had its share.
    pub(crate) fn is_held_back(&self, now: Instant) -> bool {
        let Some(share) = self.share(now) else { return false };
        let n = self.n_offered.fetch_add(1, Ordering::Relaxed);
        n.wrapping_mul(GOLDEN) >= share
    }

    /// Which part of 2^32 the cell has of its requests; nothing where it has all.
    fn share(&self, now: Instant) -> Option<u32> {
        let returned = self.returned.load(Ordering::Relaxed);
        if returned == 0 {
            return None;
        }
        let slow_start_ms = self.rules.slow_start_ms.load(Ordering::Relaxed);
        let passed_ms = self.age(now).saturating_sub(returned);
        if passed_ms >= slow_start_ms {
            // From here on one look is enough, until the cell goes down again.
            let _ = self.returned.compare_exchange(returned, 0, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        let grown = u64::from(u32::MAX) * passed_ms / slow_start_ms;
        Some(FIRST_SHARE.max(grown as u32))
    }

    /// Believes the cell down from now on. Answers whether it was believed up.
    fn falls(&self, record: &mut Record, by_connect: bool, now: Instant) -> bool {
        let (age, was_up) = (self.age(now), self.is_up(now));
        if was_up {
            let is_soon = record.rose != 0 && age.saturating_sub(record.rose) < STEADY.as_millis() as u64;
            record.n_flaps = if is_soon { record.n_flaps.saturating_add(1) } else { 0 };
            record.by_connect = false;
        }
        record.by_connect |= by_connect;
        record.last_fault = age;
        let expires = age + record.hold_ms().max(EXPIRES.as_millis() as u64);
        let (until, rose) = if self.probed { (UNTIL_TOLD, 0) } else { (expires, expires) };
        record.rose = rose;
        self.returned.store(rose, Ordering::Relaxed);
        self.down_until.store(until, Ordering::Relaxed);
        was_up
    }

    /// Believes the cell up from now on. Answers whether it was believed down.
    fn rises(&self, record: &mut Record, now: Instant) -> bool {
        let was_down = !self.is_up(now);
        if was_down {
            record.rose = self.age(now);
            self.returned.store(record.rose, Ordering::Relaxed);
        }
        self.down_until.store(0, Ordering::Relaxed);
        was_down
    }

    fn age(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.born).as_millis() as u64 + 1
    }
}

impl Record {
    /// For how long after its last fault the cell stays down whatever is said of it: nothing at first, then a second, and
    /// twice as long each time that it goes down again soon.
    fn hold_ms(&self) -> u64 {
        let most = MAX_HOLD.as_millis() as u64;
        match self.n_flaps {
            0 => 0,
            n => 1_000_u64.checked_shl(n - 1).map_or(most, |hold| hold.min(most)),
        }
    }
}

#[cfg(test)]
mod tests;
