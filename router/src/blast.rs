//! Who shares cells with a tenant, or has a cell: tenants that are known, sorted by how much of them one fault takes. Where
//! each of them is, and how it is known, is the caller's affair.

use cofferdam_model::{CellId, CellIndex, Shard, TenantId};
use serde::{Deserialize, Serialize};

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

/// What a tenant has done lately, as one router saw it, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// What one router answers, out of those that it has seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlastAnswer {
    /// The fleet's name.
    pub fleet: String,
    /// The revision of its file.
    pub revision: u64,
    /// The digest of its table.
    pub digest: String,
    /// Who shares what.
    #[serde(flatten)]
    pub blast: Blast,
    /// Of how many that is.
    pub seen: BlastSeen,
}

/// What a router has seen, and how much of it is not told tenant by tenant.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BlastSeen {
    /// For how long, in milliseconds.
    pub window_ms: u64,
    /// Tenants that were counted one by one, the one that is asked for included.
    pub tenants: usize,
    /// Requests that were admitted, of all tenants.
    pub requests: u64,
    /// Any tenant with more requests than this is among those that were counted.
    pub counted_above: u64,
    /// Tenants that the limits know of here: what is missing of them sent fewer, or is older.
    pub tenants_with_limits: u64,
}

/// Whom to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// How many of each group.
    pub most: usize,
    /// Whether those too that share nothing, all of them.
    pub others: bool,
}

/// The neighbours, in groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blast {
    /// Whose neighbours they are, unless it is a cell's.
    pub tenant: Option<String>,
    /// The cells that it is about.
    pub cells: Vec<String>,
    /// Those who share most first.
    pub groups: [Group; 2],
    /// Tenants that are known and share nothing.
    pub share_none: usize,
    /// Which, where those are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others: Option<Vec<Neighbour>>,
}

/// Tenants that share equally much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// `all` cells of the tenant or `some`; of a cell, those whose `home` it is or `other` tenants that have it.
    pub shares: String,
    /// How many there are.
    pub n_tenants: usize,
    /// What they sent together, where that is known.
    pub requests: Option<u64>,
    /// The first of them, as many as were asked for.
    pub tenants: Vec<Neighbour>,
    /// How many of them are left out.
    pub not_shown: usize,
}

/// A tenant beside the one that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Sorts `known` into groups, each in the order in which they come, and names some of them. `cells` has the names.
    pub fn new<'a>(
        of: BlastOf<'_>,
        cells: &[CellId],
        known: impl IntoIterator<Item = Known<'a>>,
        shown: Shown,
    ) -> Self {
        let names = |shard: &[CellIndex]| shard.iter().map(|cell| cells[cell.get()].to_string()).collect();
        let (tenant, of_cells, shares) = match &of {
            BlastOf::Tenant(tenant, shard) => {
                (Some(tenant.to_string()), names(shard.cells()), ["all", "some"])
            }
            BlastOf::Cell(cell) => (None, names(&[*cell]), ["home", "other"]),
        };
        let mut groups = shares.map(Group::none);
        let (mut share_none, mut others) = (0, shown.others.then(Vec::new));
        for known in known {
            let neighbour = || Neighbour::new(&known, names);
            match of.group(&known) {
                Some(Shares::Itself) => {}
                Some(Shares::Most) => groups[0].add(known.load, neighbour, shown.most),
                Some(Shares::Less) => groups[1].add(known.load, neighbour, shown.most),
                None => {
                    share_none += 1;
                    others.iter_mut().for_each(|others| others.push(neighbour()));
                }
            }
        }
        Self { tenant, cells: of_cells, groups, share_none, others }
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
    /// One without tenants.
    pub fn none(shares: &str) -> Self {
        Self { shares: shares.to_owned(), n_tenants: 0, requests: None, tenants: Vec::new(), not_shown: 0 }
    }

    /// Counts a tenant, and names it where fewer than `most` are.
    pub fn add(&mut self, load: Option<Load>, neighbour: impl FnOnce() -> Neighbour, most: usize) {
        self.n_tenants += 1;
        if let Some(load) = load {
            *self.requests.get_or_insert_default() += load.requests;
        }
        match self.tenants.len() == most {
            true => self.not_shown += 1,
            false => self.tenants.push(neighbour()),
        }
    }
}

impl Neighbour {
    fn new(known: &Known<'_>, names: impl Fn(&[CellIndex]) -> Vec<String>) -> Self {
        let (tenant, cells) = (known.tenant.to_string(), names(known.shard.cells()));
        Self { tenant, cells, load: known.load }
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
        Blast::new(of, &cells, known, Shown { most, others: false })
    }

    fn names(group: &Group) -> Vec<&str> {
        group.tenants.iter().map(|neighbour| neighbour.tenant.as_str()).collect()
    }

    #[test]
    fn a_tenants_neighbours_share_all_some_or_nothing_and_it_is_none_of_them() {
        let t = known("t", &AB, 0);
        let blast = blast(BlastOf::Tenant(t.tenant, t.shard), 1);
        let [all, some] = &blast.groups;
        assert_eq!((&*all.shares, all.n_tenants, all.requests, all.not_shown), ("all", 2, Some(6), 1));
        assert_eq!((names(all), names(some)), (vec!["u"], vec!["w"]));
        assert_eq!((blast.cells, blast.share_none), (vec!["a".to_owned(), "b".to_owned()], 1));
    }

    #[test]
    fn a_cells_tenants_are_at_home_there_or_have_it_besides() {
        let blast = blast(BlastOf::Cell(CellIndex(0)), 10);
        let [home, other] = &blast.groups;
        assert_eq!((&*home.shares, names(home)), ("home", vec!["t", "v"]));
        assert_eq!((&*other.shares, names(other)), ("other", vec!["u", "w"]));
        assert_eq!((blast.tenant, blast.share_none), (None, 1));
    }
}
