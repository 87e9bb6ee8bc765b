//! How much a cell that fails is held to be busier than it looks. A cell that fails fast has little in flight and
//! reports little load: without this, it would draw all requests to it.
//!
//! Each failure weighs as much as one request in flight, and half of it is forgotten in [`HALVES`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_model::TenantId;
use parking_lot::Mutex;

const HALVES: Duration = Duration::from_secs(1);

/// Of the word, the low bits hold the sum without the last eight of its own: it is as exact as one part in 65,536. Above
/// them are whole milliseconds since `born`, enough for 34 years.
const SUM_BITS: u32 = 24;

/// The most tenants whose failures are told apart. Those beyond count as others do.
const MAX_TENANTS: usize = 8;

/// Failures of one cell, fading: when the sum was told last, and the sum, in one word.
#[derive(Debug)]
pub(super) struct Mistrust {
    born: Instant,
    word: AtomicU64,
    /// Of each tenant that failed lately, its part of the sum, as a word of the same kind.
    tenants: Mutex<Vec<(TenantId, u64)>>,
}

impl Mistrust {
    pub(super) fn new() -> Self {
        Self { born: Instant::now(), word: AtomicU64::new(0), tenants: Mutex::default() }
    }

    /// One failure more, of a request of `tenant`.
    pub(super) fn add(&self, tenant: &TenantId, now: Instant) {
        let at = self.ms(now);
        let mut tenants = self.tenants.lock();
        match tenants.iter().position(|(known, _)| known == tenant) {
            Some(known) => tenants[known].1 = pack(at, faded(tenants[known].1, at) + 1.0),
            None if tenants.len() < MAX_TENANTS => tenants.push((*tenant, pack(at, 1.0))),
            None => {
                let least = tenants.iter_mut().min_by(|a, b| faded(a.1, at).total_cmp(&faded(b.1, at)));
                if let Some(least) = least.filter(|least| faded(least.1, at) < 1.0) {
                    *least = (*tenant, pack(at, 1.0));
                }
            }
        }
        drop(tenants);
        let one_more = |word| Some(pack(at, faded(word, at) + 1.0));
        let _ = self.word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
    }

    /// As how many requests in flight the failures weigh for `tenant`. What the one other tenant with the most failures met is
    /// left out: it may have made them happen.
    pub(super) fn weight(&self, tenant: &TenantId, now: Instant) -> f32 {
        let all = match self.word.load(Ordering::Relaxed) {
            0 => return 0.0,
            word => faded(word, self.ms(now)),
        };
        let (tenants, at) = (self.tenants.lock(), self.ms(now));
        let others = tenants.iter().filter(|(other, _)| other != tenant).map(|(_, word)| faded(*word, at));
        (all - others.fold(0.0, f32::max)).max(0.0)
    }

    fn ms(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.born).as_millis() as u64
    }
}

fn pack(at: u64, sum: f32) -> u64 {
    at << SUM_BITS | u64::from(sum.to_bits() >> (u32::BITS - SUM_BITS))
}

/// The sum as it is at `at`.
fn faded(word: u64, at: u64) -> f32 {
    let sum = f32::from_bits((word << (u64::BITS - SUM_BITS) >> u32::BITS) as u32);
    // Another thread's clock may be a little ahead.
    let passed = at.saturating_sub(word >> SUM_BITS);
    sum * (-(passed as f32) / HALVES.as_millis() as f32).exp2()
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
    }

    fn acme() -> TenantId {
        tenant("acme")
    }

    #[test]
    fn one_tenants_failures_weigh_for_itself_alone_and_those_of_two_for_all() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        for _ in 0..1000 {
            mistrust.add(&tenant("mallory"), now);
        }
        assert_eq!((mistrust.weight(&acme(), now), mistrust.weight(&tenant("mallory"), now)), (0.0, 1000.0));
        for n in 0..40 {
            mistrust.add(&tenant(&format!("t-{n}")), now);
        }
        assert_eq!(mistrust.weight(&acme(), now), 40.0);
        assert_eq!(mistrust.tenants.lock().len(), MAX_TENANTS);
    }

    #[test]
    fn failures_weigh_and_fade() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        assert_eq!(mistrust.weight(&acme(), now), 0.0);
        for _ in 0..8 {
            mistrust.add(&acme(), now);
        }
        assert!((mistrust.weight(&acme(), now) - 8.0).abs() < 0.01);
        assert!((mistrust.weight(&acme(), now + HALVES * 3) - 1.0).abs() < 0.01);
    }

    /// The difference of two times in 32 bits was negative from day 24.9 on, and the old sum whole again until day 49.7.
    #[test]
    fn a_failure_of_weeks_ago_weighs_nothing() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        for _ in 0..8 {
            mistrust.add(&acme(), now);
        }
        for days in [1, 24, 25, 40, 49, 50, 75, 400, 10_000] {
            let later = now + Duration::from_hours(24 * days);
            assert_eq!(mistrust.weight(&acme(), later), 0.0, "day {days}");
        }
        let late = now + Duration::from_hours(24 * 40);
        mistrust.add(&acme(), late);
        assert_eq!(mistrust.weight(&acme(), late), 1.0);
    }

    #[test]
    fn many_failures_are_counted_one_by_one() {
        let (mistrust, now) = (Mistrust::new(), Instant::now());
        for _ in 0..50_000 {
            mistrust.add(&acme(), now);
        }
        assert_eq!(mistrust.weight(&acme(), now), 50_000.0);
    }
}
