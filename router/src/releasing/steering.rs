//! The one task that moves a release on, and what operators ask of it.

use std::panic;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cofferdam_limits::redis::link::LinkError;
use cofferdam_limits::redis::{ReleaseBook, ReleaseProgress, ReleaseTerms};
use cofferdam_proxy::handover::{HandedOn, Owned, Ownership};
use parking_lot::Mutex;
use serde::Serialize;

use super::alone::Alone;
use super::kept::Kept;
use crate::accepted::{Accepted, Ledger, Telling};
use crate::snapshot::Snapshot;
use crate::state_dir::StateDir;
use crate::waves::Wave;

/// How often it is looked how far a release is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The release of one router, where one is under way.
#[derive(Debug)]
pub(crate) struct Releasing {
    snapshots: Arc<ArcSwap<Snapshot>>,
    ledger: Arc<Ledger>,
    clock: Clock,
    kept: Kept,
    /// Whether this process may change what no store keeps.
    ownership: Ownership,
}

/// What counts.
#[derive(Debug)]
enum Clock {
    Store(ReleaseBook),
    Own(Mutex<Option<Alone>>),
}

/// How a release stands, as it is shown.
#[derive(Debug, Serialize)]
pub(crate) struct Standing {
    revision: u64,
    /// Of the table that it leads to, and of the one that it leads away from.
    digest: String,
    from: String,
    /// Slots that change, and those that have had their turn.
    pub(super) n_slots: u32,
    pub(super) n_loose: u32,
    per_minute: u32,
    pub(super) stopped: bool,
    /// Where it goes on: in how long it will be over.
    ends_in_s: Option<u64>,
}

/// Why a release was not stopped, or does not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error("no release is under way")]
    None,
    #[error("the store has another release, of revision {0}: ask a router that runs it")]
    Other(u64),
    #[error(transparent)]
    HandedOn(#[from] HandedOn),
    #[error("{0}: nothing was changed")]
    NotDone(LinkError),
    #[error("{0}: it may have been done or not: look again")]
    Unknown(LinkError),
}

/// What is asked of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    Stop,
    Go,
}

impl From<LinkError> for ReleaseError {
    fn from(error: LinkError) -> Self {
        if error.changed_nothing() { Self::NotDone(error) } else { Self::Unknown(error) }
    }
}

impl Releasing {
    /// By the store's clock where there is a `book`, and else by this router's own, while it has the `ownership`. How far it is is
    /// kept in `folder`, if there is one.
    pub(crate) fn new(
        snapshots: Arc<ArcSwap<Snapshot>>,
        ledger: Arc<Ledger>,
        book: Option<ReleaseBook>,
        folder: Option<StateDir>,
        ownership: Ownership,
    ) -> Self {
        let clock = book.map_or_else(|| Clock::Own(Mutex::default()), Clock::Store);
        Self { snapshots, ledger, clock, kept: Kept::new(folder), ownership }
    }

    /// Moves the release of whatever snapshot is current on, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        loop {
            self.go_on().await;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn go_on(&self) {
        let Ok(owned) = self.own_clock_held().await else { return };
        let snapshot = self.snapshots.load_full();
        let Some(wave) = &snapshot.wave else { return };
        if !wave.is_over()
            && let Err(error) = self.look(&snapshot, wave).await
        {
            tracing::debug!(%error, "the store does not say how far the release is: no slot moves");
        }
        if wave.is_over() {
            self.conclude(&snapshot, wave, owned).await;
        }
    }

    /// Held fast where this router's own clock counts, unless that is another process's affair. The store's is everybody's.
    async fn own_clock_held(&self) -> Result<Option<Owned>, HandedOn> {
        match self.clock {
            Clock::Store(_) => Ok(None),
            Clock::Own(_) => self.ownership.hold().await.map(Some),
        }
    }

    /// How the release stands; none where none is under way.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let snapshot = self.snapshots.load();
        let wave = snapshot.wave.as_ref().filter(|wave| !wave.is_over())?;
        let (n_slots, n_loose, stopped) = (wave.n_slots(), wave.n_loose(), wave.is_stopped());
        let per_minute = per_minute(&snapshot);
        let left_s = u64::from(n_slots - n_loose) * 60 / u64::from(per_minute.max(1));
        Some(Standing {
            revision: snapshot.fleet.revision.0,
            digest: snapshot.placement.digest().to_string(),
            from: wave.from.table.digest.clone(),
            n_slots,
            n_loose,
            per_minute,
            stopped,
            ends_in_s: (!stopped).then_some(left_s),
        })
    }

    /// Stops the release, or lets it go on, at every router. Who asked may leave before it is done.
    pub(crate) async fn order(self: Arc<Self>, order: Order) -> Result<(), ReleaseError> {
        let done = tokio::spawn(async move {
            // Whoever takes this process's place reads the disk only once that has what was ordered.
            let _owned = self.own_clock_held().await?;
            self.carry_out(order).await
        });
        done.await.unwrap_or_else(|panicked| panic::resume_unwind(panicked.into_panic()))
    }

    async fn carry_out(&self, order: Order) -> Result<(), ReleaseError> {
        let snapshot = self.snapshots.load_full();
        let wave = snapshot.wave.as_ref().filter(|wave| !wave.is_over()).ok_or(ReleaseError::None)?;
        // So that there is one to stop.
        self.look(&snapshot, wave).await.map_err(ReleaseError::NotDone)?;
        let progress = match &self.clock {
            Clock::Store(book) => {
                let state = match order {
                    Order::Stop => book.stop(&wave.name).await?,
                    Order::Go => book.go(&wave.name).await?,
                };
                match state {
                    Some(state) if state.terms.name.is_or_follows(&wave.name) => state.progress,
                    Some(state) => return Err(ReleaseError::Other(state.terms.name.began)),
                    None => return Err(ReleaseError::None),
                }
            }
            Clock::Own(alone) => count(alone, wave, per_minute(&snapshot), Some(order)),
        };
        self.kept.note(wave, progress).await;
        tracing::info!(?order, n_loose = wave.n_loose(), "a release was given an order");
        Ok(())
    }

    async fn look(&self, snapshot: &Snapshot, wave: &Arc<Wave>) -> Result<(), LinkError> {
        let per_minute = per_minute(snapshot);
        let progress = match &self.clock {
            Clock::Store(book) => {
                let terms = ReleaseTerms { name: wave.name.clone(), total: wave.n_slots(), per_minute };
                // Each time, so that a store which has forgotten is told again.
                match book.begin(&terms, wave.progress()).await? {
                    Some(state) if state.terms.name.is_or_follows(&wave.name) => state.progress,
                    other => {
                        tracing::debug!(?other, "the store has another release: no slot moves here");
                        return Ok(());
                    }
                }
            }
            Clock::Own(alone) => count(alone, wave, per_minute, None),
        };
        self.kept.note(wave, progress).await;
        Ok(())
    }

    /// Takes note that nothing is left to release, so that no start begins it anew. Where that is another process's affair, it does.
    async fn conclude(&self, snapshot: &Snapshot, wave: &Wave, owned: Option<Owned>) {
        let _owned = match owned {
            Some(owned) => owned,
            None => match self.ownership.hold().await {
                Ok(owned) => owned,
                Err(HandedOn) => return,
            },
        };
        if wave.close() {
            tracing::info!(revision = %snapshot.fleet.revision, "every changed slot is released");
            let accepted = Accepted { from: None, ..snapshot.accepted() };
            self.ledger.keep(accepted, Telling::Amend).await;
        }
    }
}

/// How far a wave is by this router's own clock, once it was given the order.
fn count(
    alone: &Mutex<Option<Alone>>,
    wave: &Wave,
    per_minute: u32,
    order: Option<Order>,
) -> ReleaseProgress {
    let (mut alone, now) = (alone.lock(), Instant::now());
    if alone.as_ref().is_some_and(|alone| alone.name != wave.name) {
        *alone = None;
    }
    let begin = || Alone::begin(wave.name.clone(), wave.progress(), per_minute, now);
    let alone = alone.get_or_insert_with(begin);
    alone.take_rate(per_minute, now);
    match order {
        Some(Order::Stop) => alone.stop(now),
        Some(Order::Go) => alone.go(now),
        None => {}
    }
    alone.progress(now)
}

/// The budget of the file that runs, which has one where slots wait.
fn per_minute(snapshot: &Snapshot) -> u32 {
    snapshot.fleet.placement.movement_budget.unwrap_or(u32::MAX)
}
