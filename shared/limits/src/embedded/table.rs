//! A table of keys: bounded, sharded, and forgetting whoever is idle when room is needed. It knows no policy. Tenants are one
//! table, and tenants on routes another.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use super::key::Key;
use crate::{LevelPolicy, Standing, StoreMetrics};

/// The most shards that a table has; each has a lock of its own.
const MAX_SHARDS: usize = 64;
/// Tenants that a shard has room for, at least: small tables have few shards.
const MIN_SHARD: usize = 64;
/// The most keys that tenants beyond the table's room share, by hash: no more than the table has room for.
const MAX_SHARED: usize = 256;
/// Places that are looked at for somebody to forget, for each tenant that needs room.
const N_EVICTION_LOOKS: usize = 32;

/// The states of those that were here lately, by `N`: a tenant, or a tenant on a route.
pub(super) struct Table<N> {
    hasher: RandomState,
    shards: Box<[CacheLine<Mutex<Shard<N>>>]>,
    max_in_shard: usize,
    shared: Box<[Mutex<Key>]>,
    evicted: AtomicU64,
    overflowed: AtomicU64,
}

/// Keeps neighbours from sharing a cache line, and so from slowing each other down.
#[repr(align(64))]
struct CacheLine<T>(T);

struct Shard<N> {
    entries: HashTable<Entry<N>>,
    // Where the next search for an idle tenant starts, so that every tenant gets its turn.
    hand: usize,
}

struct Entry<N> {
    name: N,
    key: Key,
}

impl<N: Copy + Eq + Hash> Table<N> {
    /// A table with room for `n_tenants`, and at least for one.
    pub(super) fn new(n_tenants: usize) -> Self {
        let n_shards = 1 << (n_tenants / MIN_SHARD).clamp(1, MAX_SHARDS).ilog2();
        Self {
            hasher: RandomState::default(),
            shards: (0..n_shards).map(|_| CacheLine(Mutex::new(Shard::empty()))).collect(),
            max_in_shard: (n_tenants / n_shards).max(1),
            shared: (0..n_tenants.clamp(1, MAX_SHARED)).map(|_| Mutex::new(Key::shared())).collect(),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Runs `act` on the key of `name`, locked; the key is made if there is none and room, shared if there is no room.
    pub(super) fn with_key<R>(
        &self,
        name: &N,
        policy: &LevelPolicy,
        now_us: u64,
        act: impl FnOnce(&mut Key) -> R,
    ) -> R {
        let hash = self.hasher.hash_one(name);
        let mut shard = self.shard(hash).lock();
        if let Some(key) = shard.get(hash, name) {
            return act(key);
        }
        // The shard stays locked while the shared key is used, so that the tenant does not get a key of its own meanwhile.
        let mut shared = self.shared(hash).lock();
        match self.make_room(&mut shard, now_us) {
            true => act(self.insert(&mut shard, hash, name, Key::after(&mut shared, policy, now_us))),
            false => act(&mut shared),
        }
    }

    /// Where `name` stands under `policy`. Makes no key.
    pub(super) fn look(&self, name: &N, policy: &LevelPolicy, now_us: u64) -> Standing {
        let hash = self.hasher.hash_one(name);
        let mut shard = self.shard(hash).lock();
        match shard.get(hash, name) {
            Some(key) => key.standing(policy, now_us),
            None => self.shared(hash).lock().standing(policy, now_us),
        }
    }

    #[cold]
    fn make_room(&self, shard: &mut Shard<N>, now_us: u64) -> bool {
        if shard.entries.len() < self.max_in_shard {
            return true;
        }
        let found = shard.evict(now_us);
        let counter = if found { &self.evicted } else { &self.overflowed };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    #[cold]
    fn insert<'a>(&self, shard: &'a mut Shard<N>, hash: u64, name: &N, key: Key) -> &'a mut Key {
        let entry = Entry { name: *name, key };
        let rehash = |entry: &Entry<N>| self.hasher.hash_one(entry.name);
        &mut shard.entries.insert_unique(hash, entry, rehash).into_mut().key
    }

    pub(super) fn metrics(&self) -> StoreMetrics {
        StoreMetrics {
            tenants: self.shards.iter().map(|shard| shard.0.lock().entries.len()).sum(),
            tenants_max: self.shards.len() * self.max_in_shard,
            evicted: self.evicted.load(Ordering::Relaxed),
            overflowed: self.overflowed.load(Ordering::Relaxed),
            ..StoreMetrics::default()
        }
    }

    /// The shards' numbers come from bits that the shards' own tables use last. There is a power of two of them: a division
    /// here would be seen in what an admission costs.
    fn shard(&self, hash: u64) -> &Mutex<Shard<N>> {
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)].0
    }

    fn shared(&self, hash: u64) -> &Mutex<Key> {
        &self.shared[(hash >> 32) as usize % self.shared.len()]
    }
}

impl<N: Copy + Eq + Hash> Shard<N> {
    fn empty() -> Self {
        Self { entries: HashTable::new(), hand: 0 }
    }

    fn get(&mut self, hash: u64, name: &N) -> Option<&mut Key> {
        self.entries.find_mut(hash, |entry| entry.name == *name).map(|entry| &mut entry.key)
    }

    /// Forgets one idle tenant, if one is near the hand.
    fn evict(&mut self, now_us: u64) -> bool {
        let n_places = self.entries.num_buckets();
        for _ in 0..N_EVICTION_LOOKS.min(n_places) {
            self.hand = (self.hand + 1) % n_places;
            let Ok(mut entry) = self.entries.get_bucket_entry(self.hand) else { continue };
            if entry.get_mut().key.is_idle(now_us) {
                entry.remove();
                return true;
            }
        }
        false
    }
}
