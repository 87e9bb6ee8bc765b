//! The subjects of the tenants that were here lately: bounded, sharded, and emptied of whoever holds nothing any more.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cofferdam_model::TenantId;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use super::queue::Queue;
use super::subject::Subject;

/// Shards, each with a lock of its own.
const N_SHARDS: usize = 64;

pub(super) struct Table {
    hasher: RandomState,
    shards: Box<[Mutex<HashTable<Arc<Subject>>>]>,
    max_in_shard: usize,
    queue: Queue<Subject>,
    overflowed: AtomicU64,
    forgotten: AtomicU64,
}

impl Table {
    /// A table with room for `n_tenants`, and at least for one in each shard.
    pub(super) fn new(n_tenants: usize, queue: Queue<Subject>) -> Self {
        Self {
            hasher: RandomState::default(),
            shards: (0..N_SHARDS).map(|_| Mutex::default()).collect(),
            max_in_shard: n_tenants.div_ceil(N_SHARDS).max(1),
            queue,
            overflowed: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
        }
    }

    /// The subject of `tenant`, which is made if there is none; `None` where there is no room for another.
    #[inline]
    pub(super) fn subject(&self, tenant: &TenantId) -> Option<Arc<Subject>> {
        let hash = self.hasher.hash_one(tenant);
        let mut shard = self.shard(hash).lock();
        if let Some(subject) = shard.find(hash, |subject| subject.tenant.as_ref() == Some(tenant)) {
            return Some(Arc::clone(subject));
        }
        if shard.len() >= self.max_in_shard {
            self.overflowed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let subject = Subject::new(Some(*tenant), self.queue.clone());
        let rehash = |subject: &Arc<Subject>| self.hasher.hash_one(subject.tenant.unwrap_or(*tenant));
        shard.insert_unique(hash, Arc::clone(&subject), rehash);
        // From now on it is looked at from time to time, until it is forgotten.
        self.queue.put(&subject);
        Some(subject)
    }

    /// The subject of `tenant`, if there is one.
    pub(super) fn find(&self, tenant: &TenantId) -> Option<Arc<Subject>> {
        let hash = self.hasher.hash_one(tenant);
        let shard = self.shard(hash).lock();
        shard.find(hash, |subject| subject.tenant.as_ref() == Some(tenant)).map(Arc::clone)
    }

    /// A subject of no tenant that is in no table.
    pub(super) fn nobody(&self) -> Arc<Subject> {
        Subject::new(None, self.queue.clone())
    }

    /// Forgets `subject`, unless somebody beside the caller has hold of it.
    pub(super) fn forget(&self, subject: &Arc<Subject>) -> bool {
        let Some(tenant) = &subject.tenant else { return false };
        let hash = self.hasher.hash_one(tenant);
        let mut shard = self.shard(hash).lock();
        // The table's and the caller's; new ones are made under this lock alone.
        if Arc::strong_count(subject) > 2 {
            return false;
        }
        let Ok(entry) = shard.find_entry(hash, |other| Arc::ptr_eq(other, subject)) else { return true };
        entry.remove();
        if shard.len() < shard.capacity() / 4 {
            let rehash = |subject: &Arc<Subject>| self.hasher.hash_one(subject.tenant.unwrap_or(*tenant));
            shard.shrink_to_fit(rehash);
        }
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Shows every subject, shard by shard.
    pub(super) fn each(&self, mut visit: impl FnMut(&Subject)) {
        for shard in &self.shards {
            shard.lock().iter().for_each(|subject| visit(subject));
        }
    }

    pub(super) fn queue(&self) -> &Queue<Subject> {
        &self.queue
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    pub(super) fn max(&self) -> usize {
        self.max_in_shard * N_SHARDS
    }

    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }

    pub(super) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn shard(&self, hash: u64) -> &Mutex<HashTable<Arc<Subject>>> {
        &self.shards[(hash >> 40) as usize % N_SHARDS]
    }
}
