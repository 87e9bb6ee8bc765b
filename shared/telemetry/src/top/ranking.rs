//! Counters of several streams put together, as if one had counted them all. A key that one of them does not have may
//! have weighed there as much as its least counter: that is added, and said.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use super::recent::Recent;

/// A key among those that weigh most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<K> {
    /// Whose weight it is.
    pub key: K,
    /// What it weighs at most.
    pub count: u64,
    /// The most by which `count` is too high.
    pub too_high: u64,
}

/// The keys that weigh most, heaviest first.
///
/// Of streams that weigh N together, each through m counters, `too_high` is at most N / m, and every key that weighs more
/// than N / m is there.
#[derive(Debug, Clone)]
pub struct Ranking<K> {
    /// Sorted by count; of equals, what is surer comes first, then the lesser key.
    pub entries: Vec<Entry<K>>,
    /// What everything weighs, keys that are not there included.
    pub total: u64,
    /// How far back it goes.
    pub covers: Duration,
}

/// What counters say of a key beyond what it may have weighed where it has none.
struct Sure {
    above: u64,
    below: u64,
}

impl<K: Hash + Ord + Clone> Ranking<K> {
    /// Puts counters together, each turned to `now` by its owner.
    pub fn of<'a>(counters: impl IntoIterator<Item = &'a Recent<K>>, now: Instant) -> Self
    where
        K: 'a,
    {
        let (mut total, mut least, mut covers) = (0, 0, Duration::ZERO);
        let mut keys: HashMap<&K, Sure> = HashMap::new();
        for recent in counters {
            covers = covers.max(recent.covers(now));
            for sketch in recent.sketches() {
                total += sketch.total();
                least += sketch.least();
                for (key, count, too_high) in sketch.counted() {
                    let sure = keys.entry(key).or_insert(Sure { above: 0, below: 0 });
                    // Neither is negative: the least counter is the least, and was no more when the key came.
                    sure.above += count - sketch.least();
                    sure.below += sketch.least() - too_high;
                }
            }
        }
        let entry = |(key, sure): (&K, Sure)| Entry {
            key: key.clone(),
            count: least + sure.above,
            too_high: least - sure.below,
        };
        let mut entries: Vec<_> = keys.into_iter().map(entry).collect();
        entries.sort_unstable_by(|a, b| {
            b.count.cmp(&a.count).then(a.too_high.cmp(&b.too_high)).then_with(|| a.key.cmp(&b.key))
        });
        Self { entries, total, covers }
    }
}
