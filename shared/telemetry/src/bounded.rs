//! A table of the keys that were used lately, in memory that does not grow with how many there are.
//!
//! A full table forgets the key that was not used again for about as long as any other: each use but the first marks its key, a hand
//! goes round and takes marks away, and the first key without a mark makes room (the "second chance" of page replacement). So a stream of keys
//! that come once each forgets those first, and a key that is used in between stays. It knows no time.

use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// At most so many keys, each with a value.
#[derive(Debug)]
pub struct BoundedTable<K, V> {
    entries: Vec<Entry<K, V>>,
    /// Places in `entries`, by their keys' hashes.
    slots: HashTable<u32>,
    // Random, so that nobody can choose keys that meet in the table.
    hasher: RandomState,
    most: u32,
    /// Where the next key to forget is looked for.
    hand: usize,
    forgotten: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    hash: u64,
    is_used: bool,
    value: V,
}

impl<K: Hash + Eq + Clone, V> BoundedTable<K, V> {
    /// An empty table of at most `most` keys, at least one.
    pub fn new(most: u32) -> Self {
        Self {
            entries: Vec::new(),
            slots: HashTable::new(),
            hasher: RandomState::default(),
            most: most.max(1),
            hand: 0,
            forgotten: 0,
        }
    }

    /// The value of `key`, made by `make` where it has none. A full table forgets another key for that.
    pub fn get_or_insert_with(&mut self, key: &K, make: impl FnOnce() -> V) -> &mut V {
        let hash = self.hasher.hash_one(key);
        let is_it = |&at: &u32| self.entries[at as usize].key == *key;
        let at = match self.slots.find(hash, is_it) {
            Some(at) => {
                let at = *at as usize;
                self.entries[at].is_used = true;
                at
            }
            None => self.insert(key, hash, make()),
        };
        &mut self.entries[at].value
    }

    /// The value of `key`. To look is no use of it.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let at = *self.slots.find(hash, |&at| self.entries[at as usize].key == *key)?;
        Some(&mut self.entries[at as usize].value)
    }

    /// How often a key was forgotten for another.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn insert(&mut self, key: &K, hash: u64, value: V) -> usize {
        // Without a mark: who comes once goes before who came again.
        let entry = Entry { key: key.clone(), hash, is_used: false, value };
        let at = if self.entries.len() < self.most as usize {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let at = self.make_room();
            self.entries[at] = entry;
            at
        };
        let entries = &self.entries;
        self.slots.insert_unique(hash, at as u32, |&at| entries[at as usize].hash);
        at
    }

    /// Forgets a key, and says where it was.
    fn make_room(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[at];
            if std::mem::take(&mut entry.is_used) {
                continue;
            }
            if let Ok(slot) = self.slots.find_entry(entry.hash, |&slot| slot as usize == at) {
                slot.remove();
            }
            self.forgotten += 1;
            return at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_once_are_forgotten_before_one_that_is_used() {
        let mut table = BoundedTable::new(8);
        for n in 0..10_000_u32 {
            *table.get_or_insert_with(&u32::MAX, || 0) += 1;
            table.get_or_insert_with(&n, || 0);
        }
        assert_eq!(table.get_mut(&u32::MAX), Some(&mut 10_000));
        assert_eq!((table.entries.len(), table.slots.len()), (8, 8));
        assert_eq!(table.forgotten(), 10_001 - 8);
        assert_eq!(table.get_mut(&0), None);
        assert!(table.get_mut(&9_999).is_some());
    }

    #[test]
    fn a_table_with_room_forgets_nothing() {
        let mut table = BoundedTable::new(3);
        for key in ["a", "b", "c", "a", "b", "c"] {
            *table.get_or_insert_with(&key, || 0) += 1;
        }
        assert_eq!(["a", "b", "c"].map(|key| table.get_mut(&key).copied()), [Some(2); 3]);
        assert_eq!(table.forgotten(), 0);
    }
}
