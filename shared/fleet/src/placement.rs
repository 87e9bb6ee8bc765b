//! `placement`: the numbers that the table of shards is built from, the tenants that bypass it, and how routers choose among
//! the cells of one shard.

use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use cofferdam_model::{Alphabet, CellIndex, TenantId};

use crate::cells::Cells;
use crate::node::{Fields, Node};
use crate::scalars::{Scalar, Share, scalar};
use crate::tenant::read_tenant;

/// The sizes that a table may have: an index of 16 or of 20 bits out of a tenant's hash.
const SLOTS: [u64; 2] = [65_536, 1_048_576];

/// The words of the section.
const KEYS: [&str; 8] =
    ["slots", "seed", "seed_file", "shard_size", "pins", "choose", "max_inclusion", "force"];

/// The most bytes that a seed file is read for.
const MAX_SEED_FILE: u64 = 1024;

/// The most characters of a reason.
const MAX_REASON: usize = 200;

/// What placement is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementRules {
    /// Slots of the table, 65,536 (the default) or 1,048,576. It never follows the number of cells.
    pub slots: u32,
    /// The map's seed; 0 unless the file gives one, or names a file that holds one.
    pub seed: u64,
    /// Cells for each tenant; 2 unless the file says otherwise. At least 1, and at most the number of cells.
    pub shard_size: u16,
    /// Tenants with cells of their own choosing, sorted by tenant.
    pub pins: Vec<Pin>,
    /// How routers choose among a shard's cells; primary by default. It moves nobody to another shard.
    pub choose: Choose,
    /// The largest share of slots that one cell may be in, where the file bounds it. A table beyond it is refused.
    pub max_inclusion: Option<Share>,
    /// Why the file is to be taken although its changes are refused. Not so where the file before had the same reason:
    /// it was given for that one's changes.
    pub force: Option<Box<str>>,
}

/// How routers choose among the cells of one shard that are up and have room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choose {
    /// Home serves for as long as it is up and has room.
    #[default]
    Primary,
    /// Whichever has less to do.
    Balance,
}

/// Why text is no way to choose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not primary or balance")]
pub struct ChooseError(String);

/// A tenant whose cells the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The tenant.
    pub tenant: TenantId,
    /// Its cells, home first: distinct, and as many as the shard size.
    pub cells: Vec<CellIndex>,
}

impl Default for PlacementRules {
    fn default() -> Self {
        Self {
            slots: 65_536,
            seed: 0,
            shard_size: 2,
            pins: Vec::new(),
            choose: Choose::default(),
            max_inclusion: None,
            force: None,
        }
    }
}

impl PlacementRules {
    pub(crate) fn read(root: &Fields<'_>, base_dir: &Path, cells: &Cells<'_>, alphabet: &Alphabet) -> Self {
        let mut rules = Self::default();
        let Some(section) = root.get("placement") else {
            check_shard_size(rules.shard_size, cells, root);
            return rules;
        };
        let fields = section.fields(&KEYS);
        if let Some(slots) = fields.get("slots") {
            rules.slots = read_slots(slots).unwrap_or(rules.slots);
        }
        rules.seed = read_seed(&fields, base_dir).unwrap_or(rules.seed);
        if let Some(size) = fields.get("shard_size") {
            let size = size.whole(1..=u64::from(u16::MAX)).and_then(|size| u16::try_from(size).ok());
            rules.shard_size = size.unwrap_or(rules.shard_size);
        }
        check_shard_size(rules.shard_size, cells, &fields);
        if let Some(pins) = fields.get("pins") {
            rules.pins = read_pins(pins, rules.shard_size, cells, alphabet);
        }
        rules.choose = fields.scalar("choose").unwrap_or_default();
        rules.max_inclusion = fields.scalar("max_inclusion");
        rules.force = fields.get("force").and_then(|node| node.read("a reason", read_reason));
        rules
    }
}

scalar! {
    Choose, Choose::from_str, "primary or balance";
}

impl FromStr for Choose {
    type Err = ChooseError;

    fn from_str(text: &str) -> Result<Self, ChooseError> {
        match text {
            "primary" => Ok(Self::Primary),
            "balance" => Ok(Self::Balance),
            _ => Err(ChooseError(text.to_owned())),
        }
    }
}

/// A reason goes to logs and to whoever asks, so it is one line of some text.
fn read_reason(text: &str) -> Result<Box<str>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("a change is forced for a reason: expected some words".to_owned());
    }
    if text.chars().count() > MAX_REASON || text.contains(char::is_control) {
        return Err(format!("a reason is one line of at most {MAX_REASON} characters"));
    }
    Ok(text.into())
}

fn read_slots(node: &Node<'_>) -> Option<u32> {
    let slots = node.whole(0..=u64::MAX)?;
    if !SLOTS.contains(&slots) {
        node.mark.refuse(format_args!("{slots} slots are not possible: expected 65536 or 1048576"));
        return None;
    }
    u32::try_from(slots).ok()
}

/// A shard has its cells in zones of their own wherever there is more than one zone. Where a size is not given, what
/// is at fault is the list of cells.
fn check_shard_size(size: u16, cells: &Cells<'_>, fields: &Fields<'_>) {
    let mark = fields.get("shard_size").map_or(&cells.mark, |node| &node.mark);
    let (n_cells, n_zones) = (cells.n_written, cells.n_zones());
    if n_cells == 0 {
        return;
    }
    if usize::from(size) > n_cells {
        mark.refuse(format_args!(
            "shard size {size} exceeds {n_cells} {}",
            if n_cells == 1 { "cell" } else { "cells" }
        ));
    } else if n_zones > 1 && usize::from(size) > n_zones {
        mark.refuse(format_args!("shard size {size} exceeds {n_zones} zones"));
    } else if n_zones == 1 && size > 1 {
        cells.mark.warn("all cells are in one zone: shards run without zone separation");
    }
}

fn read_seed(fields: &Fields<'_>, base_dir: &Path) -> Option<u64> {
    const WANTED: &str = "a seed from 0 to 18446744073709551615";
    let parse = |text: &str| {
        let plain = text.bytes().all(|b| b.is_ascii_digit());
        let seed = if plain { text.parse().ok() } else { None };
        seed.ok_or_else(|| format!("{text:?} is not {WANTED}"))
    };
    match (fields.get("seed"), fields.get("seed_file")) {
        (Some(_), Some(file)) => {
            file.mark.refuse("seed and seed_file are both given: one of them must go");
            None
        }
        (Some(seed), None) => seed.read(WANTED, parse),
        // What a seed file holds is secret, so a message never shows it.
        (None, Some(file)) => file.read("the path of a file that holds a seed", |name| {
            let path = base_dir.join(name);
            let text = read_short(&path).map_err(|error| format!("seed file {}: {error}", path.display()))?;
            parse(text.trim()).map_err(|_| format!("seed file {} does not hold {WANTED}", path.display()))
        }),
        (None, None) => None,
    }
}

fn read_short(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_SEED_FILE).read_to_string(&mut text)?;
    Ok(text)
}

fn read_pins(node: &Node<'_>, shard_size: u16, cells: &Cells<'_>, alphabet: &Alphabet) -> Vec<Pin> {
    const WANTED: &str = "a list of cells, home first";
    let mut pins = Vec::new();
    for entry in node.entries("a map from tenants to their cells") {
        let tenant = read_tenant(&entry, alphabet);
        let nodes = entry.value.filled_list(WANTED);
        let n_pinned = nodes.len();
        if n_pinned > 0 && n_pinned != usize::from(shard_size) {
            entry
                .value
                .mark
                .refuse(format_args!("a pin of {n_pinned} does not match shard size {shard_size}"));
        }
        let mut pinned = Vec::with_capacity(n_pinned);
        for node in nodes {
            let Some(cell) = cells.resolve(&node) else { continue };
            if pinned.contains(&cell) {
                node.mark.refuse(format_args!("cell {} is pinned twice", cells.sorted[cell.get()].id));
            }
            pinned.push(cell);
        }
        pins.extend(tenant.map(|tenant| Pin { tenant, cells: pinned }));
    }
    pins.sort_by_key(|pin| pin.tenant);
    pins
}
