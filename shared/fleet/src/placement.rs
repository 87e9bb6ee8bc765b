//! `placement`: the numbers that the table of shards is built from, the tenants that bypass it, and how routers choose among
//! the cells of one shard.

use std::path::Path;
use std::str::FromStr;

use cofferdam_model::{Alphabet, Rate, TenantId};

use crate::affinity::Affinity;
use crate::cells::Cells;
use crate::named::{Naming, PIN, Pin, QUARANTINE};
use crate::node::{Fields, Node};
use crate::plans::Plans;
use crate::scalars::{Scalar, Share, scalar};

/// The sizes that a table may have: an index of 16 or of 20 bits out of a tenant's hash.
const SLOTS: [u64; 2] = [65_536, 1_048_576];

/// The words of the section.
const KEYS: [&str; 14] = [
    "slots",
    "seed",
    "seed_file",
    "shard_size",
    "pins",
    "quarantine",
    "affinity",
    "choose",
    "inclusion",
    "max_inclusion",
    "max_new_cells",
    "movement_budget",
    "tell",
    "force",
];

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
    /// Cells for each tenant whose plan does not say otherwise; 2 unless the file says otherwise. At least 1, and at most
    /// the number of active cells.
    pub shard_size: u16,
    /// Tenants with cells of their own choosing, sorted by tenant.
    pub pins: Vec<Pin>,
    /// Tenants that are kept apart from all others, sorted by tenant. It comes before a pin.
    pub quarantine: Vec<Pin>,
    /// By what a request says that it belongs to a cell that drains; by nothing unless the file says so.
    pub affinity: Option<Affinity>,
    /// How routers choose among a shard's cells; primary by default. It moves nobody to another shard.
    pub choose: Choose,
    /// How often a cell is in a shard; by weight by default.
    pub inclusion: Inclusion,
    /// The largest share of slots that one cell may be in, where the file bounds it. A table beyond it is refused.
    pub max_inclusion: Option<Share>,
    /// How many cells that it had not had before a tenant may come to within an hour, by what operators do while routers run;
    /// 4 unless the file says otherwise.
    pub max_new_cells: u32,
    /// How many changed slots are let loose in a minute, at least 1; all at once unless the file says otherwise.
    pub movement_budget: Option<u32>,
    /// Whether every answer to a tenant says of which revision its cells are, and which; false unless the file says so, since that tells
    /// callers how the fleet is made.
    pub tell: bool,
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

/// How often a cell is in a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Inclusion {
    /// As weighted rendezvous gives it: homes are in proportion to weight, and shards less so.
    #[default]
    Weight,
    /// In proportion to weight, as homes are. For shards of two.
    Proportional,
}

/// Why text is no word on inclusion.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not weight or proportional")]
pub struct InclusionError(String);

/// Why text is no way to choose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not primary or balance")]
pub struct ChooseError(String);

impl Default for PlacementRules {
    fn default() -> Self {
        Self {
            slots: 65_536,
            seed: 0,
            shard_size: 2,
            pins: Vec::new(),
            quarantine: Vec::new(),
            affinity: None,
            choose: Choose::default(),
            inclusion: Inclusion::default(),
            max_inclusion: None,
            max_new_cells: 4,
            movement_budget: None,
            tell: false,
            force: None,
        }
    }
}

impl PlacementRules {
    /// Reads the section; `size_of` is what a tenant's plan says of its shard.
    pub(crate) fn read(
        root: &Fields<'_>,
        base_dir: &Path,
        cells: &Cells<'_>,
        alphabet: &Alphabet,
        plans: &Plans,
        size_of: impl Fn(&TenantId) -> Option<u16>,
    ) -> Self {
        let mut rules = Self::default();
        let Some(section) = root.get("placement") else {
            // What is at fault is the list of cells.
            cells.check_shard_size(rules.shard_size, &cells.mark);
            rules.warn_of_one_zone(cells);
            return rules;
        };
        let fields = section.fields(&KEYS);
        if let Some(slots) = fields.get("slots") {
            rules.slots = read_slots(slots).unwrap_or(rules.slots);
        }
        rules.seed = read_seed(&fields, base_dir).unwrap_or(rules.seed);
        match fields.get("shard_size") {
            Some(size) => rules.shard_size = cells.read_shard_size(size).unwrap_or(rules.shard_size),
            None => cells.check_shard_size(rules.shard_size, &cells.mark),
        }
        rules.warn_of_one_zone(cells);
        let named = Naming { cells, alphabet };
        if let Some(pins) = fields.get("pins") {
            let usual = rules.shard_size;
            rules.pins = named.read(pins, &PIN, |tenant| Some(size_of(tenant).unwrap_or(usual)));
        }
        if let Some(quarantine) = fields.get("quarantine") {
            rules.quarantine = named.read(quarantine, &QUARANTINE, |_| None);
        }
        rules.affinity = fields.get("affinity").and_then(Affinity::read);
        rules.choose = fields.scalar("choose").unwrap_or_default();
        rules.inclusion = fields.scalar("inclusion").unwrap_or_default();
        if rules.inclusion == Inclusion::Proportional && !sizes_are_two(rules.shard_size, plans) {
            let mark = fields.mark_of("inclusion");
            mark.refuse(
                "inclusion in proportion is for shards of two: some plan or `shard_size` says otherwise",
            );
        }
        rules.max_inclusion = fields.scalar("max_inclusion");
        rules.max_new_cells = fields.whole_u32_or("max_new_cells", 0..=1_000, rules.max_new_cells);
        rules.movement_budget = fields.get("movement_budget").and_then(read_budget);
        rules.tell = fields.scalar("tell").unwrap_or_default();
        rules.force = fields.get("force").and_then(|node| node.read("a reason", read_reason));
        rules
    }

    fn warn_of_one_zone(&self, cells: &Cells<'_>) {
        let fits = usize::from(self.shard_size) <= cells.n_active;
        if cells.n_zones() == 1 && self.shard_size > 1 && fits {
            cells.mark.warn("all cells are in one zone: shards run without zone separation");
        }
    }
}

scalar! {
    Choose, Choose::from_str, "primary or balance";
    Inclusion, Inclusion::from_str, "weight or proportional";
}

impl Choose {
    /// The choice as the file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Balance => "balance",
        }
    }
}

impl Inclusion {
    /// The rule as the file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Proportional => "proportional",
        }
    }
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

impl FromStr for Inclusion {
    type Err = InclusionError;

    fn from_str(text: &str) -> Result<Self, InclusionError> {
        match text {
            "weight" => Ok(Self::Weight),
            "proportional" => Ok(Self::Proportional),
            _ => Err(InclusionError(text.to_owned())),
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

/// Whether every tenant has two cells. The usual size counts where no plan says otherwise.
fn sizes_are_two(usual: u16, plans: &Plans) -> bool {
    plans.sorted.iter().all(|plan| plan.shard_size.unwrap_or(usual) == 2)
}

/// Slots a minute, out of a rate of any period.
fn read_budget(node: &Node<'_>) -> Option<u32> {
    let rate: Rate = node.scalar()?;
    let a_minute = rate.tokens() * 60_000_000 / rate.period_us();
    if a_minute == 0 {
        node.mark.refuse("less than one slot a minute lets nothing go");
        return None;
    }
    Some(u32::try_from(a_minute).unwrap_or(u32::MAX))
}

fn read_slots(node: &Node<'_>) -> Option<u32> {
    let slots = node.whole(0..=u64::MAX)?;
    if !SLOTS.contains(&slots) {
        node.mark.refuse(format_args!("{slots} slots are not possible: expected 65536 or 1048576"));
        return None;
    }
    u32::try_from(slots).ok()
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
    Ok(cofferdam_files::read_text(path, MAX_SEED_FILE)?)
}
