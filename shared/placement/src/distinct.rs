//! Sets of cells of their own: for a list of tenants, shards that no two of them and no pin have in common. A matching,
//! exact in what it promises, and the same on every machine. Who is on the list, and what becomes of the answer, is the
//! caller's affair.
//!
//! What is promised, in this order:
//!
//! 1. Whoever is on the list gets a set as long as there are enough: every set is open to everybody, so that it is enough
//!    to count.
//! 2. As many tenants as possible keep the cells that they have. Of those who have the same set, one can: the first.
//! 3. Of the others, as many as possible keep all cells but one. This is a maximum matching by augmenting paths, and who
//!    comes first on the list is never left out for who comes later.
//! 4. Among equals, home stays home, and the cell that joins is the one with the fewest tenants of the list and of the pins
//!    for its weight.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use cofferdam_model::{CellIndex, CellState, TenantId};

use crate::placement::Placement;
use crate::reason::Reason;

/// A tenant's set of cells that nobody else on the list has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Whose.
    pub tenant: TenantId,
    /// The cells, home first.
    pub shard: Box<[CellIndex]>,
    /// How many of them the tenant does not have now.
    pub gained: usize,
}

/// Not enough sets are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{wanted} tenants want {size} cells each that are no other's, and {} of {sets} such sets are left: pins have spent {spent}",
    sets.saturating_sub(*spent as u128)
)]
pub struct Spent {
    /// Cells of a set.
    pub size: usize,
    /// How many sets of this size cells and zones allow; `u128::MAX` where they are too many to count.
    pub sets: u128,
    /// How many of those pins have.
    pub spent: usize,
    /// How many tenants want one.
    pub wanted: usize,
}

/// Gives each of `tenants` a set of active cells of its own, as many as it has now, in the list's order. Who is pinned or in
/// quarantine stays there and is left out; so is who is named twice, the second time. A larger set may contain a smaller one. The
/// sets that are `taken` somebody has besides, as if pins named them.
///
/// # Errors
///
/// Where there are not as many sets as tenants: see [`Spent`]. Then nobody is given any.
pub fn distinct(
    placement: &Placement,
    tenants: &[TenantId],
    taken: &[Box<[CellIndex]>],
) -> Result<Vec<Given>, Spent> {
    let mut named = HashSet::new();
    let wanting =
        |tenant: &&TenantId| placement.place(tenant).reason == Reason::Slot && named.insert(**tenant);
    let tenants: Vec<TenantId> = tenants.iter().filter(wanting).copied().collect();
    let mut sharing = Sharing::new(placement, &tenants, taken);
    sharing.check()?;
    for tenant in 0..tenants.len() {
        sharing.keep(tenant);
    }
    for tenant in 0..tenants.len() {
        if sharing.given[tenant].is_empty() {
            sharing.move_one_cell(tenant);
        }
    }
    for tenant in 0..tenants.len() {
        if sharing.given[tenant].is_empty() {
            sharing.move_anywhere(tenant);
        }
    }
    Ok(sharing.into_given(&tenants))
}

/// A set of cells, sorted.
type Set = Box<[CellIndex]>;

/// Who has a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// Somebody who stays: a pin, or a tenant that keeps what it has.
    Settled,
    /// A tenant that moves in any case, and may have another set instead.
    Moving(usize),
}

/// The sets while they are given away.
struct Sharing<'a> {
    placement: &'a Placement,
    /// Cells that a set may have.
    pool: Vec<CellIndex>,
    /// By cell: what a set has at most one cell of, its zone or, in a fleet of one zone, the cell itself.
    groups: Vec<usize>,
    /// What the table says, by tenant of the list.
    natural: Vec<&'a [CellIndex]>,
    /// By tenant of the list, home first; empty for as long as it has none.
    given: Vec<Vec<CellIndex>>,
    /// Looked up only: its order decides nothing.
    held: HashMap<Set, Holder>,
    /// By cell: of how many tenants' given sets and pins it is part.
    tenants_on: Vec<u64>,
    /// Tenants of which is known that no set is free for them or whoever would make room for them.
    stuck: HashSet<usize>,
}

impl<'a> Sharing<'a> {
    fn new(placement: &'a Placement, tenants: &[TenantId], taken: &[Box<[CellIndex]>]) -> Self {
        let cells = (0..).map(CellIndex).take(placement.cells().len());
        let pool = cells.filter(|&cell| is_active(placement, cell)).collect();
        let mut sharing = Self {
            placement,
            pool,
            groups: groups(placement),
            natural: tenants.iter().map(|tenant| placement.place(tenant).shard.cells()).collect(),
            given: vec![Vec::new(); tenants.len()],
            held: HashMap::new(),
            tenants_on: vec![0; placement.cells().len()],
            stuck: HashSet::new(),
        };
        let pins = placement.pins().map(|(_, cells)| cells);
        for cells in pins.chain(taken.iter().map(|cells| &**cells)) {
            sharing.held.insert(sorted(cells), Holder::Settled);
            sharing.count(cells, 1);
        }
        sharing
    }

    /// Whether there are as many sets as are wanted, of each size.
    fn check(&self) -> Result<(), Spent> {
        let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
        for natural in &self.natural {
            *wanted.entry(natural.len()).or_default() += 1;
        }
        for (size, wanted) in wanted {
            let sets = self.n_sets(size);
            let spent = self.held.keys().filter(|set| set.len() == size && self.is_allowed(set)).count();
            if sets.saturating_sub(spent as u128) < wanted as u128 {
                return Err(Spent { size, sets, spent, wanted });
            }
        }
        Ok(())
    }

    /// How many sets of `size` cells there are, with at most one cell of each group.
    fn n_sets(&self, size: usize) -> u128 {
        let mut cells_in: BTreeMap<usize, u128> = BTreeMap::new();
        for cell in &self.pool {
            *cells_in.entry(self.groups[cell.get()]).or_default() += 1;
        }
        // `sets[n]`: of n cells, out of the groups so far.
        let mut sets = vec![0_u128; size + 1];
        sets[0] = 1;
        for n_cells in cells_in.into_values() {
            for n in (1..=size).rev() {
                sets[n] = sets[n].saturating_add(sets[n - 1].saturating_mul(n_cells));
            }
        }
        sets[size]
    }

    fn is_allowed(&self, cells: &[CellIndex]) -> bool {
        let groups: HashSet<usize> = cells.iter().map(|&cell| self.groups[cell.get()]).collect();
        groups.len() == cells.len() && cells.iter().all(|&cell| is_active(self.placement, cell))
    }

    fn is_free(&self, cells: &[CellIndex]) -> bool {
        !self.held.contains_key(&sorted(cells))
    }

    /// Lets a tenant keep what it has, if nobody else does.
    fn keep(&mut self, tenant: usize) {
        let natural = self.natural[tenant];
        if self.is_free(natural) {
            self.give(tenant, natural.to_vec(), Holder::Settled);
        }
    }

    /// Gives a tenant a set that differs from what it has in one cell, if need be by giving other tenants another one of
    /// theirs. Leaves it without where no such exchange exists.
    fn move_one_cell(&mut self, tenant: usize) {
        let mut waiting = VecDeque::from([tenant]);
        // Who would take whose set, and as which shard.
        let mut instead: HashMap<usize, (usize, Vec<CellIndex>)> = HashMap::new();
        while let Some(looking) = waiting.pop_front() {
            if let Some(free) = self.nearest_free(looking) {
                let mut next = Some((looking, free));
                while let Some((mover, shard)) = next {
                    self.give(mover, shard, Holder::Moving(mover));
                    next = instead.remove(&mover);
                }
                return;
            }
            for shard in self.with_one_moved(looking) {
                if let Some(&Holder::Moving(other)) = self.held.get(&sorted(&shard))
                    && other != tenant
                    && !self.stuck.contains(&other)
                    && !instead.contains_key(&other)
                {
                    instead.insert(other, (looking, shard));
                    waiting.push_back(other);
                }
            }
        }
        self.stuck.extend(instead.into_keys());
    }

    /// The free set that is nearest to what a tenant has: one cell differs.
    fn nearest_free(&self, tenant: usize) -> Option<Vec<CellIndex>> {
        let home = self.natural[tenant][0];
        let free = self.with_one_moved(tenant).filter(|shard| self.is_free(shard));
        free.reduce(|best, shard| {
            let joined = |shard: &[CellIndex]| {
                shard.iter().copied().find(|cell| !self.natural[tenant].contains(cell)).unwrap_or(home)
            };
            let (keeps, kept) = (shard[0] == home, best[0] == home);
            let is_better =
                if keeps == kept { self.is_lighter(joined(&shard), joined(&best)) } else { keeps };
            if is_better { shard } else { best }
        })
    }

    /// A tenant's shard with one of its cells replaced, in every way. Where home goes, the next cell takes its place.
    fn with_one_moved(&self, tenant: usize) -> impl Iterator<Item = Vec<CellIndex>> {
        let natural = self.natural[tenant];
        (0..natural.len()).rev().flat_map(move |at| {
            let fits = move |cell: &CellIndex| {
                let others = natural.iter().enumerate().filter(|(place, _)| *place != at);
                let mut groups = others.map(|(_, &other)| self.groups[other.get()]);
                *cell != natural[at] && groups.all(|group| group != self.groups[cell.get()])
            };
            self.pool.iter().copied().filter(fits).map(move |cell| {
                let mut shard = natural.to_vec();
                if at == 0 {
                    shard.remove(0);
                    shard.push(cell);
                } else {
                    shard[at] = cell;
                }
                shard
            })
        })
    }

    /// Gives a tenant whatever set is free, with cells that have few tenants for their weight.
    fn move_anywhere(&mut self, tenant: usize) {
        let mut cells = self.pool.clone();
        cells.sort_by(|&a, &b| {
            let ((a_on, a_weight), (b_on, b_weight)) = (self.burden(a), self.burden(b));
            (a_on * b_weight).cmp(&(b_on * a_weight)).then(a.cmp(&b))
        });
        let mut shard = Vec::new();
        if self.complete(&mut shard, &cells, self.natural[tenant].len()) {
            self.give(tenant, shard, Holder::Settled);
        }
    }

    /// Completes a set out of `cells`, those before others that come first, so that it is free.
    fn complete(&self, shard: &mut Vec<CellIndex>, cells: &[CellIndex], size: usize) -> bool {
        if shard.len() == size {
            return self.is_free(shard);
        }
        for (at, &cell) in cells.iter().enumerate() {
            if shard.iter().any(|&other| self.groups[other.get()] == self.groups[cell.get()]) {
                continue;
            }
            shard.push(cell);
            if self.complete(shard, &cells[at + 1..], size) {
                return true;
            }
            shard.pop();
        }
        false
    }

    fn give(&mut self, tenant: usize, shard: Vec<CellIndex>, holder: Holder) {
        let before = std::mem::take(&mut self.given[tenant]);
        self.count(&before, -1);
        self.count(&shard, 1);
        // What it had before goes to whoever it made room for, who is given it next.
        self.held.insert(sorted(&shard), holder);
        self.given[tenant] = shard;
    }

    fn count(&mut self, cells: &[CellIndex], change: i64) {
        for cell in cells {
            let on = &mut self.tenants_on[cell.get()];
            *on = on.saturating_add_signed(change);
        }
    }

    /// Whether one more tenant weighs less on `a` than on `b`; of equals, the smaller id is lighter.
    fn is_lighter(&self, a: CellIndex, b: CellIndex) -> bool {
        let ((a_on, a_weight), (b_on, b_weight)) = (self.burden(a), self.burden(b));
        (a_on * b_weight, a) < (b_on * a_weight, b)
    }

    /// How many tenants a cell would have with one more, and its weight. Both are far below 2^32.
    fn burden(&self, cell: CellIndex) -> (u64, u64) {
        (self.tenants_on[cell.get()] + 1, u64::from(self.placement.weights()[cell.get()].thousandths()))
    }

    fn into_given(self, tenants: &[TenantId]) -> Vec<Given> {
        let each = tenants.iter().zip(self.given).zip(self.natural);
        let given = each.map(|((&tenant, shard), natural)| {
            let gained = shard.iter().filter(|cell| !natural.contains(cell)).count();
            Given { tenant, shard: shard.into(), gained }
        });
        given.collect()
    }
}

fn is_active(placement: &Placement, cell: CellIndex) -> bool {
    placement.state_of(cell) == CellState::Active
}

/// By cell: what a set has at most one cell of.
fn groups(placement: &Placement) -> Vec<usize> {
    if !placement.zone_separated() {
        return (0..placement.cells().len()).collect();
    }
    let zones: BTreeSet<_> = placement.zones().iter().collect();
    let number: BTreeMap<_, _> = zones.into_iter().zip(0..).collect();
    placement.zones().iter().map(|zone| number[zone]).collect()
}

fn sorted(cells: &[CellIndex]) -> Set {
    let mut set: Set = cells.into();
    set.sort_unstable();
    set
}
