//! Moves in what is kept: how one begins, goes on and is stopped, each in one step that is decided by what is there.

use std::time::Duration;

use cofferdam_model::{CellId, TenantId};
use cofferdam_placement::Reason;

use super::super::kept::{AlterError, Altered, Kept};
use super::asked::Asked;
use super::changing::{Refused, at_rest, by_file, known_cells};
use super::moving::{Heard, Move, Phase};
use super::record::Record;
use crate::snapshot::Snapshot;

/// Nothing would change.
#[derive(Debug, thiserror::Error)]
#[error("there is nothing new")]
pub(crate) struct NoNews;

/// What a router knows that may take a move further.
#[derive(Debug, Clone, Copy)]
pub(crate) struct News<'a> {
    /// Which move.
    pub(crate) id: &'a str,
    /// What this router says of itself, by its session.
    pub(crate) said: Option<(&'a str, Heard)>,
    /// The routers that live, where that is known.
    pub(crate) live: Option<&'a [String]>,
    /// A cell that the tenant would come to, and that is believed down.
    pub(crate) dead: Option<&'a str>,
}

impl Kept<Record> {
    /// Begins to move `tenant`, with a name for the move, and the routers that live.
    pub(crate) async fn begin_move(
        &self,
        tenant: &TenantId,
        (asked, timeout): (&Asked, Duration),
        id: &str,
        live: &[String],
    ) -> Result<(), AlterError<Refused>> {
        let snapshot = self.snapshot();
        self.check_known(&snapshot, tenant).map_err(AlterError::Refused)?;
        let routers = snapshot.fleet.limits.routers.unwrap_or(1);
        let n_live = live.len();
        if n_live < routers as usize {
            return Err(AlterError::Refused(Refused::RoutersMissing { n_live, routers }));
        }
        self.alter(tenant, |old, now_ms| {
            let mut record = at_rest(old, tenant)?;
            let by_file = snapshot.placement.place(tenant).reason;
            let is_apart = record.quarantine.as_ref().is_some_and(|word| word.is_live(now_ms));
            if is_apart || by_file == Reason::Quarantine {
                return Err(Refused::InQuarantine(*tenant));
            }
            snapshot.placement.named(Reason::Pin, tenant, asked.to())?;
            if has_already(&record, &snapshot, tenant, asked.to(), now_ms) {
                return Err(Refused::There(*tenant));
            }
            let pin = asked.word(asked.to(), now_ms);
            // They count once it has come to them.
            let known = known_cells(&record, &snapshot, tenant, now_ms);
            record.clone().touch(asked.to(), &known, snapshot.fleet.placement.max_new_cells, now_ms)?;
            let deadline_ms = now_ms + timeout.as_millis() as u64;
            record.moving = Some(Move::new(id.to_owned(), pin, now_ms, deadline_ms));
            Ok((Altered::to(record.settled(now_ms)), ()))
        })
        .await
    }

    /// Undoes a move that has not taken effect.
    pub(crate) async fn stop_move(&self, tenant: &TenantId, why: &str) -> Result<(), AlterError<Refused>> {
        self.alter(tenant, |old, now_ms| {
            let mut record = old.unwrap_or_default();
            match record.moving.as_ref().map(|moving| moving.phase) {
                None => Err(Refused::NotMoving(*tenant)),
                Some(Phase::LettingIn) => Err(Refused::TooLate(*tenant)),
                Some(Phase::Holding) => {
                    record.end_move(Some(why.to_owned()), now_ms);
                    Ok((Altered::to(record.settled(now_ms)), ()))
                }
            }
        })
        .await
    }

    /// Takes a move further by what this router knows. Whether it ended by that.
    pub(crate) async fn go_on(&self, tenant: &TenantId, news: News<'_>) -> Result<bool, AlterError<NoNews>> {
        let snapshot = self.snapshot();
        self.alter(tenant, |old, now_ms| {
            let record = old.ok_or(NoNews)?;
            let moving = record.moving.as_ref().filter(|moving| moving.id == news.id).ok_or(NoNews)?;
            let mut next = record.clone();
            let is_heard = news.said.is_some_and(|(session, heard)| next.hear(news.id, session, heard));
            let before = next.clone();
            if !next.advance(news.live, now_ms) && !is_heard {
                return Err(NoNews);
            }
            let takes_effect =
                moving.phase == Phase::Holding && next.moving.as_ref().is_some_and(Move::has_taken_effect);
            if takes_effect
                && let Err(why) = take_effect(&mut next, &record, tenant, &snapshot, news.dead, now_ms)
            {
                next = before;
                next.end_move(Some(why), now_ms);
            }
            let has_ended = next.moving.is_none();
            let deadline_ms = takes_effect.then_some(moving.deadline_ms);
            Ok((Altered::to(next.settled(now_ms)).not_after(deadline_ms), has_ended))
        })
        .await
    }
}

/// Looks once more whether the tenant can have the cells that it comes to with this step, and takes note of them.
fn take_effect(
    next: &mut Record,
    before: &Record,
    tenant: &TenantId,
    snapshot: &Snapshot,
    dead: Option<&str>,
    now_ms: u64,
) -> Result<(), String> {
    if let Some(cell) = dead {
        return Err(format!("cell {cell} is believed down"));
    }
    let to: Vec<CellId> =
        next.pin.iter().flat_map(|pin| &pin.to).filter_map(|cell| CellId::parse(cell).ok()).collect();
    snapshot.placement.named(Reason::Pin, tenant, &to).map_err(|error| error.to_string())?;
    let known = known_cells(before, snapshot, tenant, now_ms);
    let most = snapshot.fleet.placement.max_new_cells;
    next.touch(&to, &known, most, now_ms).map_err(|error| error.to_string())
}

/// Whether the tenant has these cells, in this order.
fn has_already(record: &Record, snapshot: &Snapshot, tenant: &TenantId, to: &[CellId], now_ms: u64) -> bool {
    let has = match record.binding(now_ms) {
        Some(word) => word.to.clone(),
        None => by_file(snapshot, tenant),
    };
    has.iter().map(String::as_str).eq(to.iter().map(CellId::as_str))
}
