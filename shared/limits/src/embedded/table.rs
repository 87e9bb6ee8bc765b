//! The table of tenants: bounded, sharded, and forgetting whoever is idle when room is needed. It knows no policy.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_model::TenantId;
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

/// The states of the tenants that were here lately.
pub(super) struct Table {
    hasher: RandomState,
    shards: Box<[CacheLine<Mutex<Shard>>]>,
    max_in_shard: usize,
    shared: Box<[Mutex<Key>]>,
    evicted: AtomicU64,
    overflowed: AtomicU64,
}

/// Keeps neighbours from sharing a cache line, and so from slowing each other down.
#[repr(align(64))]
struct CacheLine<T>(T);

#[derive(Default)]
struct Shard {
    entries: HashTable<Entry>,
    // Where the next search for an idle tenant starts, so that every tenant gets its turn.
    hand: usize,
}

struct Entry {
    tenant: TenantId,
    key: Key,
}

impl Table {
    /// A table with room for `n_tenants`, and at least for one.
    pub(super) fn new(n_tenants: usize) -> Self {
        let n_shards = 1 << (n_tenants / MIN_SHARD).clamp(1, MAX_SHARDS).ilog2();
        Self {
            hasher: RandomState::default(),
            shards: (0..n_shards).map(|_| CacheLine(Mutex::default())).collect(),
            max_in_shard: (n_tenants / n_shards).max(1),
            shared: (0..n_tenants.clamp(1, MAX_SHARED)).map(|_| Mutex::new(Key::shared())).collect(),
            evicted: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
        }
    }

    /// Runs `act` on the key of `tenant`, locked; the key is made if there is none and room, shared if there is no room.
    pub(super) fn with_key<R>(
        &self,
        tenant: &TenantId,
        policy: &LevelPolicy,
        now_us: u64,
        act: impl FnOnce(&mut Key) -> R,
    ) -> R {
        let hash = self.hasher.hash_one(tenant);
        let mut shard = self.shard(hash).lock();
        if let Some(key) = shard.get(hash, tenant) {
            return act(key);
        }
        // The shard stays locked while the shared key is used, so that the tenant does not get a key of its own meanwhile.
        let mut shared = self.shared(hash).lock();
        match self.make_room(&mut shard, now_us) {
            true => act(self.insert(&mut shard, hash, tenant, Key::after(&mut shared, policy, now_us))),
            false => act(&mut shared),
        }
    }

    /// Where `tenant` stands under `policy`. Makes no key.
    pub(super) fn look(&self, tenant: &TenantId, policy: &LevelPolicy, now_us: u64) -> Standing {
        let hash = self.hasher.hash_one(tenant);
        let mut shard = self.shard(hash).lock();
        match shard.get(hash, tenant) {
            Some(key) => key.standing(policy, now_us),
            None => self.shared(hash).lock().standing(policy, now_us),
        }
    }

    #[cold]
    fn make_room(&self, shard: &mut Shard, now_us: u64) -> bool {
        if shard.entries.len() < self.max_in_shard {
            return true;
        }
        let found = shard.evict(now_us);
        let counter = if found { &self.evicted } else { &self.overflowed };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    #[cold]
    fn insert<'a>(&self, shard: &'a mut Shard, hash: u64, tenant: &TenantId, key: Key) -> &'a mut Key {
        let entry = Entry { tenant: *tenant, key };
        let rehash = |entry: &Entry| self.hasher.hash_one(entry.tenant);
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
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)].0
    }

    fn shared(&self, hash: u64) -> &Mutex<Key> {
        &self.shared[(hash >> 32) as usize % self.shared.len()]
    }
}

impl Shard {
    fn get(&mut self, hash: u64, tenant: &TenantId) -> Option<&mut Key> {
        self.entries.find_mut(hash, |entry| entry.tenant == *tenant).map(|entry| &mut entry.key)
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
