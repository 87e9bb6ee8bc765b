//! The layouts as fleet files. They differ in how tenants share cells, and in nothing else.

use std::fmt::Write;
use std::net::SocketAddr;

use cofferdam_model::TenantId;

/// How tenants share the cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Everyone has every cell.
    Pool,
    /// The cells are split into pairs, and each tenant has one of those.
    FixedPairs,
    /// Each tenant has the two cells that the table gives it.
    Shuffle,
    /// The same, and whose requests break cells is kept to its home cell.
    Guarded,
}

/// Where a cell listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellAddress {
    /// For requests.
    pub(crate) data: SocketAddr,
    /// For probes.
    pub(crate) probe: SocketAddr,
}

/// What both sides of the demonstration agree on: which tenants are bad.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadTenants {
    /// Floods a slow route.
    pub(crate) noisy: TenantId,
    /// Sends requests that kill the process that serves them.
    pub(crate) poisonous: TenantId,
}

impl Layout {
    /// The layout's word in file names and JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pool => "pool",
            Self::FixedPairs => "fixed",
            Self::Shuffle => "shuffle",
            Self::Guarded => "guarded",
        }
    }

    /// The layout's name in a sentence.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pool => "one shared pool",
            Self::FixedPairs => "fixed pairs",
            Self::Shuffle => "shuffle-sharded pairs",
            Self::Guarded => "shuffled, with a poison guard",
        }
    }

    /// What that means.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Pool => "everyone on all 8 cells",
            Self::FixedPairs => "4 pairs, 14 tenants each",
            Self::Shuffle => "28 pairs, 2 tenants each",
            Self::Guarded => "poison stays in one cell",
        }
    }
}

/// A cell's id, counted from 0 here and from 1 in its name.
pub(crate) fn cell_id(index: usize) -> String {
    format!("cell-{}", index + 1)
}

/// The fleet file of a layout. `tenants` are those whose pair a layout of fixed pairs has to name.
pub(crate) fn text(layout: Layout, cells: &[CellAddress], bad: &BadTenants, tenants: &[TenantId]) -> String {
    let mut text = format!(
        "# The demonstration's fleet, {}: {}.\n\nfleet: demo\n\ncells:\n",
        layout.name(),
        layout.describe()
    );
    for (index, CellAddress { data, probe }) in cells.iter().enumerate() {
        let id = cell_id(index);
        line(
            &mut text,
            format_args!("  - {{ id: {id}, url: \"http://{data}\", probe: \"http://{probe}\" }}"),
        );
    }
    match layout {
        Layout::Pool => line(&mut text, format_args!("\nplacement: {{ shard_size: {} }}", cells.len())),
        Layout::FixedPairs => pins(&mut text, cells.len() / 2, bad, tenants),
        Layout::Shuffle | Layout::Guarded => {
            line(&mut text, format_args!("\nplacement: {{ shard_size: 2 }}"))
        }
    }
    line(&mut text, format_args!("\npoison_guard: {}", layout == Layout::Guarded));
    text.push_str(&rules(bad));
    text
}

/// Tenants go round the pairs, and round the two homes of a pair. The poisonous one is on the first pair.
fn pins(text: &mut String, n_pairs: usize, bad: &BadTenants, tenants: &[TenantId]) {
    text.push_str("\nplacement:\n  shard_size: 2\n  pins:\n");
    let everyone = std::iter::once(&bad.poisonous).chain(tenants).zip((0..1).chain(0..));
    for (tenant, turn) in everyone {
        let first = turn % n_pairs * 2;
        let home = turn / n_pairs % 2;
        let (home, second) = (cell_id(first + home), cell_id(first + 1 - home));
        line(text, format_args!("    {tenant}: [{home}, {second}]"));
    }
}

/// What is the same in every layout. Nothing here refuses poison: what holds it is where its tenant is placed.
fn rules(bad: &BadTenants) -> String {
    format!(
        "
tenant:
  from:
    - header: {{ name: x-tenant-id, trusted: [127.0.0.0/8] }}
  plan_of: {{ {noisy}: small }}
  unknown: standard

plans:
  small:    {{ sustained: 5/s,  burst: 15,   max_in_flight: 20 }}
  standard: {{ sustained: 1k/s, burst: 1000, max_in_flight: 200 }}

routes:
  - {{ match: {{ path: /slow }}, class: slow, timeout: 4s }}
  - {{ match: {{ path: / }}, class: default, timeout: 4s }}

cell:
  max_in_flight: 64
  tenant_share: 0.5
  classes:
    default: {{ priority: 0, floor: 32, ceiling: 60, queue: 32, max_wait: 100ms }}
    slow:    {{ priority: 1, floor: 4,  ceiling: 16, queue: 8,  max_wait: 100ms }}
",
        noisy = bad.noisy
    )
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_fleet::Fleet;
    use cofferdam_placement::Placement;
    use cofferdam_router::placement_spec;

    use super::*;
    use crate::demo::tenants;

    fn bad() -> BadTenants {
        BadTenants {
            noisy: tenants::named("noisy").unwrap(),
            poisonous: tenants::named("poisonous").unwrap(),
        }
    }

    fn cells() -> Vec<CellAddress> {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        (7000..7008).map(|port| CellAddress { data: address(port), probe: address(port + 100) }).collect()
    }

    fn placement(layout: Layout, tenants: &[TenantId]) -> Placement {
        let text = text(layout, &cells(), &bad(), tenants);
        let fleet = Fleet::parse(&text, Path::new(".")).unwrap().fleet;
        Placement::build(&placement_spec(&fleet)).unwrap()
    }

    #[test]
    fn the_walk_gives_each_of_28_pairs_two_tenants_with_a_home_on_each_cell() {
        let placement = placement(Layout::Shuffle, &[]);
        let tenants = tenants::walk(&placement).unwrap();
        assert_eq!(tenants.len(), 56);
        let mut shards: Vec<_> = tenants.iter().map(|tenant| placement.place(tenant).shard.cells()).collect();
        shards.sort();
        shards.dedup();
        assert_eq!(shards.len(), 56);
        assert!(shards.iter().all(|shard| shards.contains(&&[shard[1], shard[0]][..])));
    }

    // P10
    #[test]
    fn poison_covers_everyone_in_the_pool_a_quarter_on_fixed_pairs_and_two_when_shuffled() {
        let tenants = tenants::walk(&placement(Layout::Shuffle, &[])).unwrap();
        let covered = [Layout::Pool, Layout::FixedPairs, Layout::Shuffle]
            .map(|layout| tenants::covered(&placement(layout, &tenants), &tenants, &bad().poisonous).len());
        assert_eq!(covered, [56, 14, 2]);
        let guarded = placement(Layout::Guarded, &tenants);
        assert_eq!(tenants::covered_by_home(&guarded, &tenants, &bad().poisonous), [bad().poisonous]);
    }
}
