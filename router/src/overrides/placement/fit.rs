//! What becomes of a pin or a quarantine where the fleet file changed under it. A quarantine fails closed: while the fleet has any
//! cell for it, the tenant is kept apart. A pin binds whole or not at all, and its cells that drain keep the tenant until they go.

use std::time::UNIX_EPOCH;

use cofferdam_model::{CellId, CellIndex, CellState, TenantId};
use cofferdam_placement::{MAX_SHARD_SIZE, Reason};

use super::wards::Wards;
use super::word::Word;
use crate::snapshot::Snapshot;

/// The cells of one word, home first, and until when they are the tenant's.
#[derive(Debug)]
pub(super) struct Placing {
    pub(super) until_ms: u64,
    pub(super) shard: Box<[CellIndex]>,
    /// Why they are not those of the word.
    pub(super) instead: Option<String>,
}

/// The cells of a quarantine: those of `word` as far as the fleet has them for that, or else others that it has, of which the
/// tenant `had` some lately; or why there are none.
pub(super) fn quarantine(
    tenant: &TenantId,
    word: &Word,
    snapshot: &Snapshot,
    wards: &Wards,
    had: &[String],
) -> Result<Placing, String> {
    let (placement, until_ms) = (&snapshot.placement, word.until_ms);
    let why = match parsed(word).and_then(|names| Ok(placement.named(Reason::Quarantine, tenant, &names)?)) {
        Ok(shard) => return Ok(Placing { until_ms, shard, instead: None }),
        Err(why) => why.0,
    };
    let is_ward = |cell: &CellIndex| placement.state_of(*cell) == CellState::Quarantine;
    let named = word.to.iter().filter_map(|name| placement.index_of(&CellId::parse(name).ok()?));
    let mut shard: Vec<CellIndex> = Vec::new();
    for cell in named.filter(is_ward).take(MAX_SHARD_SIZE) {
        if !shard.contains(&cell) {
            shard.push(cell);
        }
    }
    if shard.is_empty() {
        shard = wards.choose(snapshot, placement.size_of(tenant), had);
    }
    if shard.is_empty() {
        return Err(format!("{why}, and the fleet has no cell for quarantine: the tenant is not kept apart"));
    }
    let cells: Vec<_> = shard.iter().map(|cell| placement.cells()[cell.get()].as_str()).collect();
    let instead = Some(format!("{why}: the tenant is kept apart on {}", cells.join(", ")));
    Ok(Placing { until_ms, shard: shard.into(), instead })
}

/// The cells of a pin, or why the fleet does not have them so. A plan's shards may have another size since, and what drains is the
/// tenant's until it goes.
pub(super) fn pin(
    tenant: &TenantId,
    word: &Word,
    snapshot: &Snapshot,
    now_ms: u64,
) -> Result<Placing, String> {
    let (placement, mut until_ms) = (&snapshot.placement, word.until_ms);
    let may = |cell, state| match state {
        CellState::Active | CellState::Dedicated => true,
        CellState::Draining => {
            let gone_ms = gone_ms(snapshot, cell);
            until_ms = until_ms.min(gone_ms);
            now_ms < gone_ms
        }
        CellState::Quarantine | CellState::Disabled => false,
    };
    let names = parsed(word).map_err(|why| why.0)?;
    let shard = placement.named_where(Reason::Pin, tenant, &names, may).map_err(|error| error.to_string())?;
    if !(1..=MAX_SHARD_SIZE).contains(&shard.len()) {
        return Err(format!("pin of {tenant} has {} cells: 1 to {MAX_SHARD_SIZE} are possible", shard.len()));
    }
    Ok(Placing { until_ms, shard, instead: None })
}

/// When a draining cell goes, in milliseconds since 1970.
fn gone_ms(snapshot: &Snapshot, cell: CellIndex) -> u64 {
    let until =
        snapshot.fleet.cells[cell.get()].until.and_then(|until| until.duration_since(UNIX_EPOCH).ok());
    until.map_or(0, |until| u64::try_from(until.as_millis()).unwrap_or(u64::MAX))
}

/// Why a word does not fit.
struct Unfit(String);

impl<E: std::error::Error> From<E> for Unfit {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

fn parsed(word: &Word) -> Result<Vec<CellId>, Unfit> {
    Ok(word.to.iter().map(|cell| CellId::parse(cell)).collect::<Result<_, _>>()?)
}
