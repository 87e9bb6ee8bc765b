//! `cells`: who is in the fleet, where, how large, and what for. Not whether a cell is well: that is observed, never configured.

use std::collections::HashMap;
use std::time::SystemTime;

use cofferdam_model::{CellId, CellIndex, CellState, Weight, ZoneId};

use crate::Origin;
use crate::nearest::did_you_mean;
use crate::node::{Fields, Mark, Node};
use crate::time::Time;

/// The most cells that a fleet may have.
const MAX_CELLS: usize = 4096;

/// One cell of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The cell's immutable name.
    pub id: CellId,
    /// Its failure domain; `zone-1` unless the file says otherwise.
    pub zone: ZoneId,
    /// Where its agent takes requests.
    pub url: Origin,
    /// Where its agent answers probes. Without one, a cell counts as up until traffic tells.
    pub probe: Option<Origin>,
    /// Its share of homes beside the others'; 1 unless the file says otherwise.
    pub weight: Weight,
    /// What it is there for; active unless the file says otherwise.
    pub state: CellState,
    /// Of a cell that drains: until when it still serves what is marked with it.
    pub until: Option<SystemTime>,
}

/// The cells as far as they could be read, sorted by id, and what the checks of other sections ask of them.
pub(crate) struct Cells<'d> {
    pub(crate) sorted: Vec<Cell>,
    /// How many the file lists, readable or not, without those that are there for something else than the table.
    pub(crate) n_active: usize,
    pub(crate) mark: Mark<'d>,
}

impl<'d> Cells<'d> {
    pub(crate) fn read(root: &Fields<'d>) -> Self {
        let mark = root.mark_of("cells");
        let wanted = "a list of cells such as { id: cell-a, url: http://10.0.1.10:7100 }";
        let nodes = root.required("cells", wanted).map_or_else(Vec::new, |node| node.filled_list(wanted));
        if nodes.len() > MAX_CELLS {
            mark.refuse(format_args!("{} cells exceed {MAX_CELLS}", nodes.len()));
        }
        let mut sorted = read_distinct(&nodes);
        sorted.sort_by(|a, b| a.id.cmp(&b.id));
        if !sorted.is_empty() && sorted.iter().all(|cell| cell.state != CellState::Active) {
            mark.refuse("no cell is active: the table has nobody to give tenants to");
        }
        let n_others = sorted.iter().filter(|cell| cell.state != CellState::Active).count();
        Self { sorted, n_active: nodes.len() - n_others, mark }
    }

    /// Reads how many cells a shard has, and refuses what the active cells cannot fill.
    pub(crate) fn read_shard_size(&self, node: &Node<'_>) -> Option<u16> {
        let size = node.whole(1..=u64::from(u16::MAX)).and_then(|size| u16::try_from(size).ok())?;
        self.check_shard_size(size, &node.mark);
        Some(size)
    }

    /// A shard has its cells in zones of their own wherever active cells are in more than one.
    pub(crate) fn check_shard_size(&self, size: u16, mark: &Mark<'_>) {
        let (n_cells, n_zones) = (self.n_active, self.n_zones());
        if n_cells == 0 {
            return;
        }
        if usize::from(size) > n_cells {
            let cells = if n_cells == 1 { "cell" } else { "cells" };
            mark.refuse(format_args!("shard size {size} exceeds {n_cells} active {cells}"));
        } else if n_zones > 1 && usize::from(size) > n_zones {
            mark.refuse(format_args!("shard size {size} exceeds {n_zones} zones of active cells"));
        }
    }

    /// Finds a cell by the name that another section gives it.
    pub(crate) fn resolve(&self, node: &Node<'_>) -> Option<CellIndex> {
        let id: CellId = node.scalar()?;
        let found = self.sorted.binary_search_by(|cell| cell.id.cmp(&id)).ok();
        if found.is_none() {
            let nearest = did_you_mean(id.as_str(), self.sorted.iter().map(|cell| cell.id.as_str()));
            node.mark.refuse(format_args!("cell {id} is not in this fleet{nearest}"));
        }
        found.and_then(|at| u16::try_from(at).ok()).map(CellIndex)
    }

    /// How many zones the active cells live in.
    pub(crate) fn n_zones(&self) -> usize {
        let active = self.sorted.iter().filter(|cell| cell.state == CellState::Active);
        let mut zones: Vec<_> = active.map(|cell| &cell.zone).collect();
        zones.sort();
        zones.dedup();
        zones.len()
    }
}

/// The readable cells; two of one id, or two listeners at one address, are refused at the later one.
fn read_distinct(nodes: &[Node<'_>]) -> Vec<Cell> {
    let mut by_id = HashMap::new();
    let mut by_address = HashMap::new();
    let mut cells = Vec::with_capacity(nodes.len());
    for node in nodes {
        let fields = node.fields(&["id", "zone", "url", "probe", "weight", "state", "until"]);
        let Some(cell) = read_cell(&fields) else { continue };
        let line = node.mark.line();
        if let Some(first) = by_id.insert(cell.id.clone(), line) {
            fields.mark_of("id").refuse(format_args!("cell {} is already on line {first}", cell.id));
            continue;
        }
        for (key, address) in [("url", Some(&cell.url)), ("probe", cell.probe.as_ref())] {
            let Some(address) = address else { continue };
            if let Some((taken, id)) = by_address.insert(address.clone(), (key, cell.id.clone())) {
                let mark = fields.mark_of(key);
                mark.refuse(format_args!("{key} {address} is already the {taken} of cell {id}"));
            }
        }
        cells.push(cell);
    }
    cells
}

fn read_cell(fields: &Fields<'_>) -> Option<Cell> {
    let id = fields.required_scalar("id");
    let url = fields.required_scalar("url");
    for key in ["url", "probe"] {
        fields.get(key).into_iter().for_each(warn_of_port);
    }
    let zone = fields.scalar("zone").or_else(|| ZoneId::parse("zone-1").ok());
    let probe = fields.scalar("probe");
    let weight = fields.scalar("weight").unwrap_or_default();
    let state = fields.scalar("state").unwrap_or_default();
    let until = read_until(fields, state);
    Some(Cell { id: id?, zone: zone?, url: url?, probe, weight, state, until })
}

/// A url without a port has HTTP's, which is seldom an agent's.
fn warn_of_port(node: &Node<'_>) {
    let named = node.text().and_then(|text| Some((text, text.parse::<Origin>().ok()?)));
    if let Some((text, origin)) = named.filter(|(text, _)| !Origin::names_port(text)) {
        let port = origin.port();
        node.mark
            .warn(format_args!("{text} names no port, so it is port {port}: an agent has 7100 and 7101"));
    }
}

/// A drain has an end, and nothing else has.
fn read_until(fields: &Fields<'_>, state: CellState) -> Option<SystemTime> {
    if state == CellState::Draining {
        return fields.required_scalar("until").map(|Time(until)| until);
    }
    if let Some(until) = fields.get("until") {
        until.mark.refuse(format_args!("a cell that is {state} has no end: this is for one that drains"));
    }
    None
}
