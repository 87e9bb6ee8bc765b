//! The space-saving sketch: as many counters as it is given, and the keys that weigh most in a stream among them.
//!
//! Who comes first has a counter of its own. Once there is none left, a new key takes over the counter that counts least,
//! with what that has counted: so a key is never counted too low, and too high by no more than its counter had when it
//! came. Of a stream of weight N through m counters, the least counter has at most N / m, so every key that weighs more
//! than that is there. (A. Metwally, D. Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
//! Data Streams", ICDT 2005.)
//!
//! It knows no time.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// How much larger than its counters the table of keys is: with so few places taken, a key that goes leaves no mark
/// behind that the table would have to be cleaned of.
const SPARSE: usize = 2;

/// How many counts are below each in the heap: as many as a cache line has.
const BELOW: usize = 4;

/// The counters of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Sketch<K> {
    /// By slot.
    keys: Vec<Key<K>>,
    // Invariant: no count is more than those below it, which are `BELOW` from `BELOW` x its place + 1 on.
    heap: Vec<Count>,
    /// By slot: where in `heap` its count is.
    places: Vec<u16>,
    /// Slots, by their keys' hashes.
    slots: HashTable<u16>,
    // Random, so that nobody can choose keys that meet in the table.
    hasher: RandomState,
    n_counters: u16,
    total: u64,
}

#[derive(Debug, Clone)]
struct Key<K> {
    key: K,
    hash: u64,
    /// What the counter had counted for others when the key came.
    too_high: u64,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    count: u64,
    slot: u16,
}

impl<K> Sketch<K> {
    /// A sketch with this many counters, at least one.
    pub(crate) fn new(n_counters: u16) -> Self {
        let n_counters = n_counters.max(1);
        Self {
            keys: Vec::new(),
            heap: Vec::new(),
            places: Vec::new(),
            slots: HashTable::with_capacity(usize::from(n_counters) * SPARSE),
            hasher: RandomState::default(),
            n_counters,
            total: 0,
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.heap.clear();
        self.places.clear();
        self.slots.clear();
        self.total = 0;
    }

    /// The weight of the whole stream.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The most that a key without a counter can weigh.
    pub(super) fn least(&self) -> u64 {
        match self.heap.first() {
            Some(least) if self.is_full() => least.count,
            _ => 0,
        }
    }

    /// Every key that has a counter, what that has counted, and the most by which it is too high.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (&K, u64, u64)> {
        self.heap.iter().map(|counted| {
            let key = &self.keys[usize::from(counted.slot)];
            (&key.key, counted.count, key.too_high)
        })
    }

    fn is_full(&self) -> bool {
        self.heap.len() >= usize::from(self.n_counters)
    }

    /// Puts a count at its place in the heap.
    fn put(&mut self, at: usize, count: Count) {
        self.heap[at] = count;
        self.places[usize::from(count.slot)] = at as u16;
    }

    /// The least of the counts below the one at `at`, and where it is.
    fn least_below(&self, at: usize) -> Option<(usize, Count)> {
        let first = BELOW * at + 1;
        let below = self.heap.get(first..)?;
        let mut least = (0, *below.first()?);
        for (n, count) in below.iter().enumerate().take(BELOW).skip(1) {
            if count.count < least.1.count {
                least = (n, *count);
            }
        }
        Some((first + least.0, least.1))
    }

    /// Restores the heap where the count at `at` has grown.
    fn sink(&mut self, mut at: usize) {
        let sinking = self.heap[at];
        while let Some((least, count)) = self.least_below(at).filter(|(_, below)| below.count < sinking.count)
        {
            self.put(at, count);
            at = least;
        }
        self.put(at, sinking);
    }

    /// Restores the heap where the count at `at` is new.
    fn rise(&mut self, mut at: usize) {
        let rising = self.heap[at];
        while at > 0 && self.heap[(at - 1) / BELOW].count > rising.count {
            self.put(at, self.heap[(at - 1) / BELOW]);
            at = (at - 1) / BELOW;
        }
        self.put(at, rising);
    }
}

impl<K: Hash + Eq + Clone> Sketch<K> {
    /// Counts `weight` for `key`. It never waits, and allocates only until every counter is taken.
    pub(crate) fn add(&mut self, key: &K, weight: u64) {
        if weight == 0 {
            return;
        }
        self.total += weight;
        let hash = self.hasher.hash_one(key);
        let is_it = |&slot: &u16| self.keys[usize::from(slot)].key == *key;
        match self.slots.find(hash, is_it).copied() {
            Some(slot) => {
                let at = usize::from(self.places[usize::from(slot)]);
                self.heap[at].count += weight;
                self.sink(at);
            }
            None if self.is_full() => self.take_over(key, hash, weight),
            None => self.take(key, hash, weight),
        }
    }

    /// Gives `key` a counter that nobody had.
    fn take(&mut self, key: &K, hash: u64, weight: u64) {
        let at = self.heap.len();
        let slot = at as u16;
        self.keys.push(Key { key: key.clone(), hash, too_high: 0 });
        self.heap.push(Count { count: weight, slot });
        self.places.push(slot);
        self.name(slot, hash);
        self.rise(at);
    }

    /// Gives `key` the counter that counts least.
    fn take_over(&mut self, key: &K, hash: u64, weight: u64) {
        let Count { count: too_high, slot } = self.heap[0];
        let before = &mut self.keys[usize::from(slot)];
        if let Ok(named) = self.slots.find_entry(before.hash, |&named| named == slot) {
            named.remove();
        }
        *before = Key { key: key.clone(), hash, too_high };
        self.name(slot, hash);
        self.heap[0].count += weight;
        self.sink(0);
    }

    fn name(&mut self, slot: u16, hash: u64) {
        let keys = &self.keys;
        self.slots.insert_unique(hash, slot, |&slot| keys[usize::from(slot)].hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(sketch: &Sketch<&'static str>) -> Vec<(&'static str, u64, u64)> {
        let mut counted: Vec<_> =
            sketch.counted().map(|(key, count, too_high)| (*key, count, too_high)).collect();
        counted.sort_unstable();
        counted
    }

    #[test]
    fn whoever_has_a_counter_of_its_own_is_counted_exactly() {
        let mut sketch = Sketch::new(2);
        for key in ["a", "b", "a", "a"] {
            sketch.add(&key, 1);
        }
        assert_eq!(counted(&sketch), [("a", 3, 0), ("b", 1, 0)]);
        assert_eq!((sketch.least(), sketch.total()), (1, 4));
    }

    #[test]
    fn a_new_key_takes_over_the_least_counter_with_what_it_counted() {
        let mut sketch = Sketch::new(2);
        for (key, weight) in [("a", 5), ("b", 2), ("c", 1), ("d", 4)] {
            sketch.add(&key, weight);
        }
        // c came upon b's 2, and d upon c's 3.
        assert_eq!(counted(&sketch), [("a", 5, 0), ("d", 7, 3)]);
        sketch.add(&"b", 1);
        assert_eq!(counted(&sketch), [("b", 6, 5), ("d", 7, 3)]);
    }

    #[test]
    fn who_weighs_nothing_takes_no_counter() {
        let mut sketch = Sketch::new(1);
        sketch.add(&"a", 0);
        assert!(counted(&sketch).is_empty() && sketch.least() == 0);
        sketch.add(&"b", 3);
        sketch.add(&"a", 0);
        sketch.add(&"b", 0);
        assert_eq!(counted(&sketch), [("b", 3, 0)]);
    }

    #[test]
    fn what_was_cleared_counts_anew() {
        let mut sketch = Sketch::new(1);
        sketch.add(&"a", 3);
        sketch.clear();
        sketch.add(&"b", 1);
        assert_eq!((counted(&sketch), sketch.total()), (vec![("b", 1, 0)], 1));
    }
}
