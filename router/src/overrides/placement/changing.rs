//! How a tenant's cells are changed by a pin or a quarantine, each in one step that is decided by what is there.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::{CellId, TenantId};
use cofferdam_placement::{PlacementError, Reason};

use super::super::kept::{AlterError, Altered, Kept};
use super::asked::Asked;
use super::record::{Record, TooManyNew};
use super::wards::Wards;
use super::word::Word;
use crate::snapshot::Snapshot;

/// How often it is looked whether somebody is kept apart on cells that nobody has named.
const COUNT_EVERY: Duration = Duration::from_secs(1);

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
    #[error("tenant {0} is being moved: wait for its end, or stop the move")]
    Moving(TenantId),
    #[error("tenant {0} is not being moved")]
    NotMoving(TenantId),
    #[error("the move of tenant {0} cannot be stopped any more: it has its new cells already")]
    TooLate(TenantId),
    #[error("tenant {0} is in quarantine, which comes before any pin: release it first")]
    InQuarantine(TenantId),
    #[error("tenant {0} has these cells already")]
    There(TenantId),
    #[error(
        "{n_live} of {routers} routers (limits.routers) are heard of, and the others could not be told to hold requests \
         back: nothing was changed"
    )]
    RoutersMissing { n_live: usize, routers: u32 },
    #[error("tenant {tenant} has no {of} that an operator has set while routers run")]
    Nothing { tenant: TenantId, of: Reason },
    #[error(
        "there is no store by which other routers would hear of it, and the fleet file does not say that there is \
         none (limits.routers: 1): nothing was changed"
    )]
    Unshared,
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
        self.check_known(&snapshot, tenant).map_err(AlterError::Refused)?;
        self.alter(tenant, |old, now_ms| {
            let mut record = at_rest(old, tenant)?;
            let to = match asked.to().is_empty() && of == Reason::Quarantine {
                true => self.wards(&snapshot, tenant, &record, now_ms)?,
                false => asked.to().to_vec(),
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
            let mut record = at_rest(old, tenant)?;
            match record.word_mut(of).take() {
                Some(word) if word.is_live(now_ms) => Ok((Altered::to(record.settled(now_ms)), ())),
                _ => Err(Refused::Nothing { tenant: *tenant, of }),
            }
        })
        .await
    }

    /// Takes note, for ever, of the cells on which tenants are kept apart instead of those that were named, as of cells that they
    /// have come to. However many that are, they are kept apart; it counts for what they are let come to next.
    pub(crate) async fn count_wards(self: Arc<Self>) {
        loop {
            let fitted = self.fitted();
            for (tenant, cells) in fitted.uncounted() {
                let counted = self.alter(&tenant, |old, now_ms| {
                    let is_apart = |word: &Word| word.is_live(now_ms);
                    let apart = old.filter(|record| record.quarantine.as_ref().is_some_and(is_apart));
                    let mut record = apart.ok_or(Refused::Nothing { tenant, of: Reason::Quarantine })?;
                    record.touch(&cells, &[], u32::MAX, now_ms)?;
                    Ok::<_, Refused>((Altered::to(record.settled(now_ms)), ()))
                });
                if let Err(error) = counted.await {
                    tracing::debug!(%tenant, %error, "could not count cells for quarantine: it is tried again");
                }
            }
            tokio::time::sleep(COUNT_EVERY).await;
        }
    }

    /// Cells for a quarantine of which nobody has named any: as many as the tenant has else, its own of lately or those on which the
    /// fewest others are.
    fn wards(
        &self,
        snapshot: &Snapshot,
        tenant: &TenantId,
        record: &Record,
        now_ms: u64,
    ) -> Result<Vec<CellId>, Refused> {
        let fitted = self.fitted();
        let others = fitted.all().into_iter().filter(|(other, _)| *other != tenant);
        let words = others.filter_map(|(_, said)| said.quarantine.as_ref());
        let wards = Wards::new(snapshot, words.filter(|word| word.is_live(now_ms)));
        let (size, had) = (snapshot.placement.size_of(tenant), record.touched_at(now_ms));
        let cells = wards.choose(snapshot, size, &had);
        let cells: Vec<_> = cells.into_iter().map(|cell| snapshot.cells[cell.get()].id.clone()).collect();
        if cells.is_empty() { Err(Refused::NoWard) } else { Ok(cells) }
    }

    /// Whether the tenant's cells can be changed here at all.
    pub(super) fn check_known(&self, snapshot: &Snapshot, tenant: &TenantId) -> Result<(), Refused> {
        self.check_shared(snapshot)?;
        match snapshot.fleet.tenant.plan_for(tenant) {
            Some(_) => Ok(()),
            None => Err(Refused::UnknownTenant(*tenant)),
        }
    }

    /// One router alone needs no store; two that do not know of each other must not differ.
    fn check_shared(&self, snapshot: &Snapshot) -> Result<(), Refused> {
        match self.are_shared() || snapshot.fleet.limits.routers == Some(1) {
            true => Ok(()),
            false => Err(Refused::Unshared),
        }
    }
}

/// What is said of a tenant, which is not being moved.
pub(super) fn at_rest(old: Option<Record>, tenant: &TenantId) -> Result<Record, Refused> {
    let record = old.unwrap_or_default();
    if record.moving.is_some() { Err(Refused::Moving(*tenant)) } else { Ok(record) }
}

/// The cells that a tenant may come to without counting: those that it has now, and those that the file gives it, at once or in
/// waves.
pub(super) fn known_cells(
    record: &Record,
    snapshot: &Snapshot,
    tenant: &TenantId,
    now_ms: u64,
) -> Vec<String> {
    let whole = snapshot.ids(snapshot.placement.place(tenant).shard).map(ToString::to_string);
    by_file(snapshot, tenant)
        .into_iter()
        .chain(whole)
        .chain(record.binding(now_ms).into_iter().flat_map(|word| word.to.clone()))
        .collect()
}

/// The cells that a tenant has now where operators have said nothing, home first.
pub(super) fn by_file(snapshot: &Snapshot, tenant: &TenantId) -> Vec<String> {
    snapshot.ids(snapshot.place(tenant).shard).map(ToString::to_string).collect()
}
