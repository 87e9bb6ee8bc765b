//! The table of tenants that hold or wait for places, and what each has of every class. It knows no limits.
//!
//! A tenant is entered with its first place or wait and forgotten with its last, so the table is never larger than
//! what is in flight and queued, and its own bound besides.

use std::hash::BuildHasher;

use cofferdam_model::TenantId;
use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::estimate::Hold;
use crate::list::Maybe;

/// Tenants that come when the table is full share this many compartments, by hash. Several tenants may then count
/// as one, and are held to one share together; the hash is seeded afresh in every process. A tenant that shared one
/// gets its own as soon as it asks for a place while the table has room; what it still holds of the shared one stays
/// there until it is released.
pub const SHARED_COMPARTMENTS: usize = 64;

/// Entries to make room for in advance, so that an ordinary load never grows the table.
const PREPARED: usize = 1024;

/// A tenant's compartment: its own, or a shared one. It stays the same while anything is counted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// What a tenant has of one class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) used: u32,
    pub(crate) queued: u32,
    /// How long it holds a place.
    pub(crate) hold: Hold,
    /// Its sub-queue, while it has one.
    pub(crate) flow: Maybe,
}

pub(crate) struct Tenants {
    /// The own slots, by their tenants' hashes. The ids are in the entries, so that each is kept once.
    index: HashTable<Slot>,
    hasher: RandomState,
    max_tenants: usize,
    n_classes: usize,
    /// By slot: the shared ones first.
    entries: Vec<Entry>,
    /// By slot and class.
    counts: Vec<Counts>,
    /// Slots to use again.
    vacant: Vec<Slot>,
}

/// Where a tenant was found. It holds until a tenant is [entered](Tenants::enter) or leaves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Looked {
    hash: u64,
    /// `None` where the tenant would have a slot of its own, and has none yet.
    slot: Option<Slot>,
}

struct Entry {
    /// `None` for a shared slot and for a vacant one.
    id: Option<TenantId>,
    /// The hash of `id`, so that forgetting it hashes nothing.
    hash: u64,
    /// Places and waits in all classes; an own slot with none is given up.
    total: u32,
}

impl Slot {
    fn get(self) -> usize {
        self.0 as usize
    }

    fn shared(hash: u64) -> Self {
        // The remainder is below the number of shared compartments.
        Self((hash % SHARED_COMPARTMENTS as u64) as u32)
    }

    fn is_shared(self) -> bool {
        self.get() < SHARED_COMPARTMENTS
    }
}

impl Tenants {
    pub(crate) fn new(max_tenants: usize, n_classes: usize) -> Self {
        let own = max_tenants.min(PREPARED);
        let mut tenants = Self {
            index: HashTable::with_capacity(own),
            hasher: RandomState::default(),
            max_tenants,
            n_classes,
            entries: Vec::with_capacity(SHARED_COMPARTMENTS + own),
            counts: Vec::with_capacity((SHARED_COMPARTMENTS + own) * n_classes),
            vacant: Vec::with_capacity(own),
        };
        for _ in 0..SHARED_COMPARTMENTS {
            tenants.grow(None, 0);
        }
        tenants
    }

    /// Makes room for `n_classes`, which are no fewer than before, and bounds the table anew. Tenants beyond a bound that
    /// was lowered stay until they are idle.
    pub(crate) fn change(&mut self, max_tenants: usize, n_classes: usize) {
        self.max_tenants = max_tenants;
        if n_classes == self.n_classes {
            return;
        }
        let mut counts = Vec::with_capacity(self.entries.len() * n_classes);
        for row in self.counts.chunks(self.n_classes) {
            counts.extend_from_slice(row);
            counts.extend(std::iter::repeat_n(Counts::NOTHING, n_classes - self.n_classes));
        }
        (self.counts, self.n_classes) = (counts, n_classes);
    }

    /// Tenants with a slot of their own.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Where the tenant's compartment is, if it has one or has to share one.
    pub(crate) fn look(&self, tenant: &TenantId) -> Looked {
        let hash = self.hasher.hash_one(tenant);
        let is_tenants = |slot: &Slot| self.entries[slot.get()].id.as_ref() == Some(tenant);
        let own = self.index.find(hash, is_tenants).copied();
        let has_room = self.index.len() < self.max_tenants;
        let slot = if own.is_some() || has_room { own } else { Some(Slot::shared(hash)) };
        Looked { hash, slot }
    }

    /// What the compartment has of a class.
    pub(crate) fn seen(&self, looked: Looked, class: usize) -> Counts {
        looked.slot.map_or(Counts::NOTHING, |slot| self.counts(slot, class))
    }

    /// The compartment of the tenant that was looked for, entered if it has none. The caller counts something in it at once.
    pub(crate) fn enter(&mut self, tenant: &TenantId, looked: Looked) -> Slot {
        looked.slot.unwrap_or_else(|| self.add(tenant, looked.hash))
    }

    fn add(&mut self, tenant: &TenantId, hash: u64) -> Slot {
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.entries[slot.get()] = Entry { id: Some(*tenant), hash, total: 0 };
                slot
            }
            None => self.grow(Some(*tenant), hash),
        };
        let entries = &self.entries;
        self.index.insert_unique(hash, slot, |slot| entries[slot.get()].hash);
        slot
    }

    pub(crate) fn counts(&self, slot: Slot, class: usize) -> Counts {
        self.counts[slot.get() * self.n_classes + class]
    }

    pub(crate) fn counts_mut(&mut self, slot: Slot, class: usize) -> &mut Counts {
        &mut self.counts[slot.get() * self.n_classes + class]
    }

    pub(crate) fn occupy(&mut self, slot: Slot, class: usize) {
        self.counts_mut(slot, class).used += 1;
        self.entries[slot.get()].total += 1;
    }

    pub(crate) fn release(&mut self, slot: Slot, class: usize) {
        self.counts_mut(slot, class).used -= 1;
        self.leave(slot);
    }

    pub(crate) fn enqueue(&mut self, slot: Slot, class: usize) {
        self.counts_mut(slot, class).queued += 1;
        self.entries[slot.get()].total += 1;
    }

    pub(crate) fn dequeue(&mut self, slot: Slot, class: usize) {
        self.counts_mut(slot, class).queued -= 1;
        self.leave(slot);
    }

    /// Every tenant with a slot of its own, and what it has in all classes together.
    pub(crate) fn own(&self) -> impl Iterator<Item = (TenantId, Counts)> {
        self.entries.iter().enumerate().filter_map(|(slot, entry)| Some((entry.id?, self.sum(slot))))
    }

    /// What the shared compartments have together.
    pub(crate) fn shared_counts(&self) -> Counts {
        (0..SHARED_COMPARTMENTS).map(|slot| self.sum(slot)).fold(Counts::NOTHING, Counts::plus)
    }

    fn sum(&self, slot: usize) -> Counts {
        let row = slot * self.n_classes..(slot + 1) * self.n_classes;
        self.counts[row].iter().copied().fold(Counts::NOTHING, Counts::plus)
    }

    fn grow(&mut self, id: Option<TenantId>, hash: u64) -> Slot {
        // Slots are at most what was ever in flight and queued at once, which `u32`s count.
        let slot = Slot(self.entries.len() as u32);
        self.entries.push(Entry { id, hash, total: 0 });
        self.counts.extend(std::iter::repeat_n(Counts::NOTHING, self.n_classes));
        slot
    }

    fn leave(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot.get()];
        entry.total -= 1;
        if entry.total == 0 && !slot.is_shared() {
            entry.id = None;
            let row = slot.get() * self.n_classes..(slot.get() + 1) * self.n_classes;
            self.counts[row].fill(Counts::NOTHING);
            if let Ok(indexed) = self.index.find_entry(entry.hash, |other| *other == slot) {
                indexed.remove();
            }
            self.vacant.push(slot);
        }
    }
}

impl Counts {
    pub(crate) const NOTHING: Self = Self { used: 0, queued: 0, hold: Hold::NOTHING, flow: Maybe::NONE };

    fn plus(self, other: Self) -> Self {
        Self { used: self.used + other.used, queued: self.queued + other.queued, ..Self::NOTHING }
    }
}

#[cfg(test)]
impl Tenants {
    /// Which of the shared compartments is a tenant's, where it has none of its own.
    pub(crate) fn shared_by(&self, tenant: &TenantId) -> usize {
        Slot::shared(self.hasher.hash_one(tenant)).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_model::Alphabet;

    fn tenant(n: u32) -> TenantId {
        TenantId::parse(format!("t{n}").as_bytes(), &Alphabet::default()).unwrap()
    }

    fn enter(tenants: &mut Tenants, n: u32) -> Slot {
        let looked = tenants.look(&tenant(n));
        tenants.enter(&tenant(n), looked)
    }

    #[test]
    fn an_idle_tenant_is_forgotten_and_its_slot_used_again() {
        // P39: a table never emptied.
        let mut tenants = Tenants::new(10, 2);
        for n in 0..10_000 {
            let slot = enter(&mut tenants, n);
            tenants.occupy(slot, 0);
            tenants.enqueue(slot, 1);
            tenants.release(slot, 0);
            assert_eq!(tenants.len(), 1, "still waiting");
            tenants.dequeue(slot, 1);
            assert_eq!(tenants.len(), 0);
        }
        assert_eq!(tenants.entries.len(), SHARED_COMPARTMENTS + 1);
    }

    #[test]
    fn tenants_beyond_the_table_share_hashed_compartments() {
        // P39: a new limiter for each unknown name.
        let mut tenants = Tenants::new(3, 1);
        let slots: Vec<_> = (0..1000).map(|n| enter(&mut tenants, n)).collect();
        for &slot in &slots {
            tenants.occupy(slot, 0);
        }
        assert_eq!(tenants.len(), 3);
        assert_eq!(tenants.entries.len(), SHARED_COMPARTMENTS + 3);
        assert_eq!(tenants.shared_counts().used, 997);
        assert_eq!(enter(&mut tenants, 500), slots[500], "the same tenant, the same compartment");
        assert!(tenants.seen(tenants.look(&tenant(5000)), 0).used > 0, "997 tenants fill 64 compartments");

        tenants.release(slots[0], 0);
        assert!(!enter(&mut tenants, 500).is_shared(), "the table has room again");
    }
}
