//! Cells of a tenant, changed over what the fleet file says: a pin, a quarantine, and a bound on how far a tenant may get about.

mod asked;
mod changes;
mod fitted;
mod record;

use std::collections::HashMap;
use std::sync::Arc;

use cofferdam_model::{CellId, CellIndex, CellState, TenantId};
use cofferdam_placement::{PlacementError, Reason};

pub(crate) use asked::{Asked, Ended};
pub(crate) use changes::Changes;
pub(crate) use fitted::Fitted;
pub(crate) use record::{Record, TooManyNew, Touched, Word};

use super::clock::StoreClock;
use super::kept::{AlterError, Altered, Kept};
use super::said::Said;
use crate::snapshot::Snapshot;

/// Why a tenant's cells are not changed as was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("tenant {0} is not in this fleet")]
    UnknownTenant(TenantId),
    #[error(transparent)]
    Placement(#[from] PlacementError),
    #[error("the fleet has no cell whose state is quarantine: nobody can be kept apart")]
    NoWard,
    #[error(transparent)]
    TooManyNew(#[from] TooManyNew),
    #[error("tenant {tenant} has no {of} that an operator has set while routers run")]
    Nothing { tenant: TenantId, of: Reason },
    #[error(
        "there is no store by which other routers would hear of it, and the fleet file does not say that there is \
         none (limits.routers: 1): nothing was changed"
    )]
    Unshared,
}

impl Said for Record {
    const KIND: &'static str = "placement";

    type Fitted = Fitted;

    fn until_ms(&self) -> u64 {
        self.until_ms()
    }

    fn fit(said: &HashMap<String, Self>, snapshot: &Arc<Snapshot>, clock: &Arc<StoreClock>) -> Fitted {
        Fitted::new(said, snapshot, clock)
    }
}

impl Kept<Record> {
    /// Puts what is asked for in the place of any pin, or of any quarantine, that `tenant` has. Returns it.
    pub(crate) async fn put(
        &self,
        of: Reason,
        tenant: &TenantId,
        asked: &Asked,
    ) -> Result<Word, AlterError<Refused>> {
        let snapshot = self.snapshot();
        self.check_shared(&snapshot).map_err(AlterError::Refused)?;
        self.alter(tenant, |old, now_ms| {
            if snapshot.fleet.tenant.plan_for(tenant).is_none() {
                return Err(Refused::UnknownTenant(*tenant));
            }
            let mut record = old.unwrap_or_default();
            let to = match asked.to.is_empty() && of == Reason::Quarantine {
                true => wards(&snapshot, tenant)?,
                false => asked.to.clone(),
            };
            snapshot.placement.named(of, tenant, &to)?;
            let known = known_cells(&record, &snapshot, tenant, now_ms);
            record.touch(&to, &known, snapshot.fleet.placement.max_new_cells, now_ms)?;
            let word = asked.word(&to, now_ms);
            *record.word_mut(of) = Some(word.clone());
            Ok((Altered::to(record.settled(now_ms)), word))
        })
        .await
    }

    /// Takes the pin, or the quarantine, of `tenant` away.
    pub(crate) async fn clear(&self, of: Reason, tenant: &TenantId) -> Result<(), AlterError<Refused>> {
        self.check_shared(&self.snapshot()).map_err(AlterError::Refused)?;
        self.alter(tenant, |old, now_ms| {
            let mut record = old.unwrap_or_default();
            match record.word_mut(of).take() {
                Some(word) if word.is_live(now_ms) => Ok((Altered::to(record.settled(now_ms)), ())),
                _ => Err(Refused::Nothing { tenant: *tenant, of }),
            }
        })
        .await
    }

    /// One router alone needs no store; two that do not know of each other must not differ.
    fn check_shared(&self, snapshot: &Snapshot) -> Result<(), Refused> {
        match self.are_shared() || snapshot.fleet.limits.routers == Some(1) {
            true => Ok(()),
            false => Err(Refused::Unshared),
        }
    }
}

/// The cells that a tenant may come to without counting: those that the file gives it, and those that it has now.
fn known_cells(record: &Record, snapshot: &Snapshot, tenant: &TenantId, now_ms: u64) -> Vec<String> {
    let placement = &snapshot.placement;
    let by_file = placement.place(tenant);
    let by_file = by_file.shard.cells().iter().map(|cell| placement.cells()[cell.get()].to_string());
    by_file.chain(record.binding(now_ms).into_iter().flat_map(|word| word.to.clone())).collect()
}

/// Cells for a quarantine of which nobody has named any: as many as the tenant has else, by their ids.
fn wards(snapshot: &Snapshot, tenant: &TenantId) -> Result<Vec<CellId>, Refused> {
    let placement = &snapshot.placement;
    let wards = (0..).map(CellIndex).zip(placement.cells());
    let wards = wards.filter(|(cell, _)| placement.state_of(*cell) == CellState::Quarantine);
    let wards: Vec<_> = wards.map(|(_, id)| id.clone()).take(placement.size_of(tenant)).collect();
    if wards.is_empty() { Err(Refused::NoWard) } else { Ok(wards) }
}
