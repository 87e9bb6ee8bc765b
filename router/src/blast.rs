//! Who shares cells with a tenant, or has a cell: tenants that are known, sorted by how much of them one fault takes. Where
//! each of them is, and how it is known, is the caller's affair.

use cofferdam_model::{CellId, CellIndex, Shard, TenantId};
use serde::Serialize;

/// Whose neighbours are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlastOf<'a> {
    /// Tenants that share cells with this one.
    Tenant(TenantId, Shard<'a>),
    /// Tenants that have this cell.
    Cell(CellIndex),
}

/// A tenant that is known, and what it has done lately, where that is known too.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// Which.
    pub tenant: TenantId,
    /// Its cells, home first.
    pub shard: Shard<'a>,
    /// Its recent load.
    pub load: Option<Load>,
}

/// What a tenant has done lately, as one router saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Requests that were admitted: never too low.
    pub requests: u64,
    /// By how much that may be too high.
    pub too_high_by_at_most: u64,
    /// Requests that were refused, by a limit or for want of room.
    pub refused: u64,
    /// Requests in flight now.
    pub in_flight: u32,
}

/// The neighbours, in groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blast {
    /// Whose neighbours they are, unless it is a cell's.
    pub tenant: Option<String>,
    /// The cells that it is about.
    pub cells: Vec<String>,
    /// Those who share most first.
    pub groups: [Group; 2],
    /// Tenants that are known and share nothing.
    pub share_none: usize,
}

/// Tenants that share equally much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `all` cells of the tenant or `some`; of a cell, those whose `home` it is or `other` tenants that have it.
    pub shares: &'static str,
    /// How many there are.
    pub n_tenants: usize,
    /// What they sent together, where that is known.
    pub requests: Option<u64>,
    /// The first of them, as many as were asked for.
    pub tenants: Vec<Neighbour>,
    /// How many of them are left out.
    pub not_shown: usize,
}

/// A tenant that shares cells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Neighbour {
    /// Which.
    pub tenant: String,
    /// Its cells, home first.
    pub cells: Vec<String>,
    /// Its recent load.
    #[serde(flatten)]
    pub load: Option<Load>,
}

impl Blast {
    /// Sorts `known` into groups, each in the order in which they come, and shows `most` of each. `cells` has the names.
    pub fn new<'a>(
        of: BlastOf<'_>,
        cells: &[CellId],
        known: impl IntoIterator<Item = Known<'a>>,
        most: usize,
    ) -> Self {
        let names = |shard: &[CellIndex]| shard.iter().map(|cell| cells[cell.get()].to_string()).collect();
        let (tenant, of_cells, shares) = match &of {
            BlastOf::Tenant(tenant, shard) => {
                (Some(tenant.to_string()), names(shard.cells()), ["all", "some"])
            }
            BlastOf::Cell(cell) => (None, names(&[*cell]), ["home", "other"]),
        };
        let mut groups = shares.map(Group::none);
        let mut share_none = 0;
        for known in known {
            match of.group(&known) {
                Some(Shares::Itself) => {}
                Some(Shares::Most) => groups[0].add(&known, names, most),
                Some(Shares::Less) => groups[1].add(&known, names, most),
                None => share_none += 1,
            }
        }
        Self { tenant, cells: of_cells, groups, share_none }
    }
}

/// How much somebody shares, if anything.
enum Shares {
    Itself,
    Most,
    Less,
}

impl BlastOf<'_> {
    fn group(&self, known: &Known<'_>) -> Option<Shares> {
        match self {
            Self::Tenant(tenant, _) if *tenant == known.tenant => Some(Shares::Itself),
            Self::Tenant(_, shard) => match shard.n_shared(known.shard) {
                0 => None,
                all if all == shard.cells().len() => Some(Shares::Most),
                _ => Some(Shares::Less),
            },
            Self::Cell(cell) => match known.shard.cells().iter().position(|has| has == cell)? {
                0 => Some(Shares::Most),
                _ => Some(Shares::Less),
            },
        }
    }
}

impl Group {
    fn none(shares: &'static str) -> Self {
        Self { shares, n_tenants: 0, requests: None, tenants: Vec::new(), not_shown: 0 }
    }

    fn add(&mut self, known: &Known<'_>, names: impl Fn(&[CellIndex]) -> Vec<String>, most: usize) {
        self.n_tenants += 1;
        if let Some(load) = known.load {
            *self.requests.get_or_insert_default() += load.requests;
        }
        if self.tenants.len() == most {
            self.not_shown += 1;
            return;
        }
        let (tenant, cells) = (known.tenant.to_string(), names(known.shard.cells()));
        self.tenants.push(Neighbour { tenant, cells, load: known.load });
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    const AB: [CellIndex; 2] = [CellIndex(0), CellIndex(1)];
    const BA: [CellIndex; 2] = [CellIndex(1), CellIndex(0)];
    const CA: [CellIndex; 2] = [CellIndex(2), CellIndex(0)];
    const CD: [CellIndex; 2] = [CellIndex(2), CellIndex(3)];

    fn known<'a>(name: &str, shard: &'a [CellIndex], requests: u64) -> Known<'a> {
        let tenant = TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap();
        let load = Load { requests, too_high_by_at_most: 0, refused: 0, in_flight: 0 };
        Known { tenant, shard: Shard::new(shard), load: Some(load) }
    }

    fn blast(of: BlastOf<'_>, most: usize) -> Blast {
        let cells: Vec<_> = ["a", "b", "c", "d"].iter().map(|id| CellId::parse(id).unwrap()).collect();
        let known = [
            known("t", &AB, 9),
            known("u", &BA, 4),
            known("v", &AB, 2),
            known("w", &CA, 7),
            known("x", &CD, 1),
        ];
        Blast::new(of, &cells, known, most)
    }

    fn names(group: &Group) -> Vec<&str> {
        group.tenants.iter().map(|neighbour| neighbour.tenant.as_str()).collect()
    }

    #[test]
    fn a_tenants_neighbours_share_all_some_or_nothing_and_it_is_none_of_them() {
        let t = known("t", &AB, 0);
        let blast = blast(BlastOf::Tenant(t.tenant, t.shard), 1);
        let [all, some] = &blast.groups;
        assert_eq!((all.shares, all.n_tenants, all.requests, all.not_shown), ("all", 2, Some(6), 1));
        assert_eq!((names(all), names(some)), (vec!["u"], vec!["w"]));
        assert_eq!((blast.cells, blast.share_none), (vec!["a".to_owned(), "b".to_owned()], 1));
    }

    #[test]
    fn a_cells_tenants_are_at_home_there_or_have_it_besides() {
        let blast = blast(BlastOf::Cell(CellIndex(0)), 10);
        let [home, other] = &blast.groups;
        assert_eq!((home.shares, names(home)), ("home", vec!["t", "v"]));
        assert_eq!((other.shares, names(other)), ("other", vec!["u", "w"]));
        assert_eq!((blast.tenant, blast.share_none), (None, 1));
    }
}
