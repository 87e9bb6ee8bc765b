//! What happened of each kind since it was last told, and whose it was most: counted by each worker for itself, in bounded
//! memory, and put together by whoever tells it. What the kinds and the keys are is the caller's affair.
//!
//! ```
//! use cofferdam_telemetry::tally::Tallies;
//!
//! let tallies = Tallies::default();
//! let worker = tallies.worker();
//! for caller in ["ann", "bob", "ann"] {
//!     worker.add(|kind| *kind == "late", || "late", Some(&caller));
//! }
//! let told = tallies.take();
//! assert_eq!((told[0].kind, told[0].n, told[0].keys[0]), ("late", 3, ("ann", 2)));
//! assert!(tallies.take().is_empty());
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::top::Sketch;

/// Counters for the keys of one kind in one worker. Whose share is above one in so many is found.
const N_COUNTERS: u16 = 32;

/// The most keys that are told of a kind.
const MAX_KEYS: usize = 5;

/// The most kinds that one worker counts apart; what is of another one is left out.
const MAX_KINDS: usize = 1024;

/// What all workers counted. Clones share everything.
#[derive(Debug)]
pub struct Tallies<G, K>(Arc<Mutex<Workers<G, K>>>);

type Workers<G, K> = Vec<Arc<Tally<G, K>>>;

/// What one worker counts.
#[derive(Debug)]
pub struct Tally<G, K>(Mutex<Vec<Group<G, K>>>);

#[derive(Debug)]
struct Group<G, K> {
    kind: G,
    n: u64,
    keys: Sketch<K>,
}

/// One kind, of all workers together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<G, K> {
    /// The kind.
    pub kind: G,
    /// How often it happened.
    pub n: u64,
    /// Whose it was most, the most first. A count may be too high, and never too low.
    pub keys: Vec<(K, u64)>,
}

impl<G, K: fmt::Display> Told<G, K> {
    /// The keys on one line, each with its count, such as `ann (12), bob (3)`.
    pub fn keys(&self) -> String {
        self.keys.iter().map(|(key, n)| format!("{key} ({n})")).collect::<Vec<_>>().join(", ")
    }
}

impl<G, K> Clone for Tallies<G, K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<G, K> Default for Tallies<G, K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<G, K> Tallies<G, K>
where
    G: Clone + PartialEq,
    K: Clone + Hash + Ord,
{
    /// One more worker's.
    pub fn worker(&self) -> Arc<Tally<G, K>> {
        let tally = Arc::new(Tally(Mutex::default()));
        lock(&self.0).push(Arc::clone(&tally));
        tally
    }

    /// Everything that was counted since the last time, the most frequent kind first.
    pub fn take(&self) -> Vec<Told<G, K>> {
        let workers = lock(&self.0).clone();
        let mut all: Vec<(G, u64, HashMap<K, u64>)> = Vec::new();
        for group in workers.iter().flat_map(|worker| std::mem::take(&mut *lock(&worker.0))) {
            let at = all.iter().position(|(kind, ..)| *kind == group.kind).unwrap_or_else(|| {
                all.push((group.kind.clone(), 0, HashMap::new()));
                all.len() - 1
            });
            let (_, n, keys) = &mut all[at];
            *n += group.n;
            for (key, count, _) in group.keys.counted() {
                *keys.entry(key.clone()).or_default() += count;
            }
        }
        let mut told: Vec<_> = all
            .into_iter()
            .map(|(kind, n, keys)| {
                let mut keys: Vec<_> = keys.into_iter().collect();
                keys.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
                keys.truncate(MAX_KEYS);
                Told { kind, n, keys }
            })
            .collect();
        told.sort_by_key(|told| Reverse(told.n));
        told
    }
}

impl<G, K: Clone + Eq + Hash> Tally<G, K> {
    /// Counts one of the kind that `is` finds among those that are known, or that `make` makes.
    pub fn add(&self, is: impl Fn(&G) -> bool, make: impl FnOnce() -> G, key: Option<&K>) {
        let mut groups = lock(&self.0);
        let at = match groups.iter().position(|group| is(&group.kind)) {
            Some(at) => at,
            None if groups.len() >= MAX_KINDS => return,
            None => {
                groups.push(Group { kind: make(), n: 0, keys: Sketch::new(N_COUNTERS) });
                groups.len() - 1
            }
        };
        let group = &mut groups[at];
        group.n += 1;
        if let Some(key) = key {
            group.keys.add(key, 1);
        }
    }
}

/// Nobody panics under one of these locks, and a count that was half made is no reason to stop.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_put_together_by_kind_and_the_keys_that_have_most_are_told() {
        let tallies = Tallies::<&str, u32>::default();
        let (one, other) = (tallies.worker(), tallies.worker());
        let add = |worker: &Tally<&str, u32>, kind: &'static str, key: Option<u32>| {
            worker.add(|known| *known == kind, || kind, key.as_ref());
        };
        for key in 0..20 {
            (0..=key).for_each(|_| add(if key % 2 == 0 { &one } else { &other }, "full", Some(key)));
        }
        add(&one, "late", None);
        let told = tallies.take();
        assert_eq!((told.len(), told[0].kind, told[0].n), (2, "full", 210));
        assert_eq!(told[0].keys(), "19 (20), 18 (19), 17 (18), 16 (17), 15 (16)");
        assert_eq!(told[0].keys, [(19, 20), (18, 19), (17, 18), (16, 17), (15, 16)]);
        assert_eq!(told[1], Told { kind: "late", n: 1, keys: Vec::new() });
        assert!(tallies.take().is_empty(), "what was told is not told again");
        add(&one, "late", Some(7));
        assert_eq!(tallies.take(), [Told { kind: "late", n: 1, keys: vec![(7, 1)] }]);
    }

    #[test]
    fn memory_is_bounded_in_kinds_and_in_keys() {
        let tallies = Tallies::<usize, usize>::default();
        let worker = tallies.worker();
        for kind in 0..MAX_KINDS + 100 {
            worker.add(|known| *known == kind, || kind, None);
        }
        assert_eq!(tallies.take().len(), MAX_KINDS);
        for key in 0..10_000 {
            worker.add(|_| true, || 0, Some(&key));
            worker.add(|_| true, || 0, Some(&42));
        }
        let told = tallies.take();
        assert_eq!((told[0].n, told[0].keys.len(), told[0].keys[0].0), (20_000, MAX_KEYS, 42));
    }
}
