//! Where the accepted file is kept: `accepted.json` in the router's folder, and one place in the store, where the highest revision
//! stays. What cannot be written is told, and written later; nothing waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cofferdam_limits::redis::link::LinkError;
use cofferdam_limits::redis::{AcceptedBook, AcceptedFile};
use parking_lot::Mutex;

use super::record::Accepted;
use crate::state_dir::StateDir;

const FILE: &str = "accepted.json";

/// How long the store is waited for before a file is taken without its word.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is tried to tell the store what it does not know.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// Where it is kept.
#[derive(Debug)]
pub(crate) struct Ledger {
    folder: Option<StateDir>,
    book: Option<AcceptedBook>,
    /// What the store has not been told, and how it is.
    untold: Mutex<Option<(Accepted, Telling)>>,
    is_disputed: AtomicBool,
    /// The revision that was kept last. Whoever keeps one holds it.
    kept: Arc<tokio::sync::Mutex<u64>>,
}

/// How the store is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Telling {
    /// It has been told.
    Done,
    /// Where it has nothing of this revision.
    Offer,
    /// In the place of what it has of this revision: nothing is left to release.
    Amend,
}

/// What the fleet's other routers have accepted, by the store's word on a file that was offered to it.
#[derive(Debug)]
pub(crate) enum Offered {
    /// No more than this file.
    New,
    /// This file, and they know what its slots are released from.
    Known(Box<Accepted>),
    /// Another table at this revision.
    OtherTable(String),
    /// A higher revision.
    Newer(u64),
    /// There is no store, or it does not answer.
    Unknown,
}

/// What is on disk. A damaged file is told, and counts as none.
pub(crate) fn read(folder: &StateDir) -> Option<Accepted> {
    let bytes = folder.read(FILE)?;
    let read = serde_json::from_slice(&bytes);
    read.inspect_err(|error| {
        tracing::error!(%error, file = FILE, "what was accepted last is damaged on disk, and counts as none");
    })
    .ok()
}

/// A disk that does not take it is told; what runs goes on.
fn write(folder: &StateDir, accepted: &Accepted) {
    let bytes = serde_json::to_vec_pretty(accepted).unwrap_or_default();
    if let Err(error) = folder.write(FILE, &bytes) {
        tracing::error!(%error, file = FILE, "what was accepted could not be kept on disk");
    }
}

/// What the store's text says.
pub(crate) fn understand(file: &AcceptedFile) -> Option<Accepted> {
    let read = serde_json::from_str(&file.text);
    read.inspect_err(|error| {
        tracing::error!(%error, revision = file.revision, "what the store has of the accepted file cannot be read");
    })
    .ok()
}

fn file(accepted: &Accepted) -> AcceptedFile {
    AcceptedFile {
        revision: accepted.revision,
        digest: accepted.placement.digest.clone(),
        // Numbers and text are always JSON.
        text: serde_json::to_string(accepted).unwrap_or_default(),
    }
}

impl Ledger {
    /// A ledger in these places.
    pub(crate) fn new(folder: Option<StateDir>, book: Option<AcceptedBook>) -> Self {
        let (untold, is_disputed, kept) = Default::default();
        Self { folder, book, untold, is_disputed, kept }
    }

    /// What the store has, where it says so in time.
    pub(crate) async fn look(&self) -> Option<Accepted> {
        let looked = tokio::time::timeout(PATIENCE, self.book.as_ref()?.look()).await;
        understand(&looked.ok()?.ok()??)
    }

    /// Asks the store whether a file may be accepted, before it is. There it counts as accepted from then on.
    pub(crate) async fn offer(&self, accepted: &Accepted) -> Offered {
        let Some(book) = &self.book else { return Offered::Unknown };
        let offered = file(accepted);
        match tokio::time::timeout(PATIENCE, book.offer(&offered)).await {
            Ok(Ok(stored)) => compare(&offered, stored),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the store does not say what other routers have accepted");
                Offered::Unknown
            }
            Err(_) => {
                tracing::warn!("the store is late to say what other routers have accepted");
                Offered::Unknown
            }
        }
    }

    /// Keeps what was accepted as the process starts: it is on disk when this returns.
    pub(crate) fn keep_first(&self, accepted: Accepted) {
        self.folder.iter().for_each(|folder| write(folder, &accepted));
        self.will_tell(accepted, Telling::Offer);
    }

    /// Keeps what was accepted, unless a later file is kept already: a release may end while the next file is taken.
    pub(crate) async fn keep(&self, accepted: Accepted, telling: Telling) {
        let mut kept = Arc::clone(&self.kept).lock_owned().await;
        if accepted.revision < *kept {
            return;
        }
        *kept = accepted.revision;
        self.will_tell(accepted.clone(), telling);
        if let Some(folder) = self.folder.clone() {
            // Who waits for it may leave meanwhile, and nobody writes beside it.
            let written = tokio::task::spawn_blocking(move || {
                write(&folder, &accepted);
                drop(kept);
            });
            let _ = written.await;
        }
    }

    /// Whether the store, when it was told late, had the revision with another table.
    pub(crate) fn is_disputed(&self) -> bool {
        self.is_disputed.load(Ordering::Relaxed)
    }

    fn will_tell(&self, accepted: Accepted, telling: Telling) {
        let is_untold = telling != Telling::Done && self.book.is_some();
        let mut untold = self.untold.lock();
        *untold = is_untold.then_some((accepted, telling));
        self.is_disputed.store(false, Ordering::Relaxed);
    }

    /// Tells the store what it has not been told, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let Some(book) = &self.book else { return };
        loop {
            tokio::time::sleep(TELL_EVERY).await;
            let Some(told) = self.untold.lock().clone() else { continue };
            match tell(book, &told.0, told.1).await {
                Ok(is_disputed) => {
                    let mut untold = self.untold.lock();
                    if untold.as_ref() == Some(&told) {
                        *untold = None;
                        self.is_disputed.store(is_disputed, Ordering::Relaxed);
                    }
                }
                Err(error) => tracing::debug!(%error, "could not tell the store what was accepted"),
            }
        }
    }
}

/// Tells the store, and says whether it has the revision with another table.
async fn tell(book: &AcceptedBook, accepted: &Accepted, telling: Telling) -> Result<bool, LinkError> {
    let offered = file(accepted);
    let stored = match telling {
        Telling::Amend => book.amend(&offered).await?,
        Telling::Offer | Telling::Done => book.offer(&offered).await?,
    };
    let answer = compare(&offered, stored);
    match &answer {
        Offered::OtherTable(digest) => {
            let (revision, ours) = (offered.revision, &offered.digest);
            tracing::error!(
                revision,
                ours,
                theirs = digest,
                "other routers run this revision with another table"
            );
        }
        Offered::Newer(revision) => {
            tracing::warn!(revision, ours = offered.revision, "other routers run a newer fleet file");
        }
        Offered::New | Offered::Known(_) | Offered::Unknown => {}
    }
    Ok(matches!(answer, Offered::OtherTable(_)))
}

fn compare(offered: &AcceptedFile, stored: Option<AcceptedFile>) -> Offered {
    match stored {
        Some(stored) if stored.revision > offered.revision => Offered::Newer(stored.revision),
        Some(stored) if stored.revision == offered.revision && stored.digest != offered.digest => {
            Offered::OtherTable(stored.digest)
        }
        Some(stored) if stored.text != offered.text => {
            understand(&stored).map_or(Offered::New, |known| Offered::Known(Box::new(known)))
        }
        _ => Offered::New,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures_util::FutureExt;
    use serde_json::json;

    use super::*;

    fn accepted(revision: u64, force: &str) -> Accepted {
        let placement = json!({ "digest": "aa", "slots": 65_536, "shard_size": 2, "cells": [] });
        let file = json!({ "fleet": "f", "revision": revision, "placement": placement, "force": force });
        serde_json::from_value(file).unwrap()
    }

    #[tokio::test]
    async fn the_end_of_a_release_never_brings_an_older_file_back() {
        let folder = tempfile::tempdir().unwrap();
        let folder = StateDir::open(folder.path()).unwrap();
        let ledger = Ledger::new(Some(folder.clone()), None);
        for (kept, stands) in [
            (accepted(2, "first"), accepted(2, "first")),
            (accepted(3, "next"), accepted(3, "next")),
            (accepted(2, "late"), accepted(3, "next")),
            (accepted(3, "amended"), accepted(3, "amended")),
        ] {
            ledger.keep(kept, Telling::Amend).await;
            assert_eq!(read(&folder), Some(stands));
        }
    }

    #[test]
    fn while_a_file_is_written_that_nobody_waits_for_any_more_no_other_one_is() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().max_blocking_threads(1).build();
        runtime.unwrap().block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let folder = StateDir::open(folder.path()).unwrap();
            let ledger = Ledger::new(Some(folder.clone()), None);
            let (free, is_free) = mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || is_free.recv());
            assert!(ledger.keep(accepted(2, "first"), Telling::Offer).now_or_never().is_none());
            assert!(ledger.kept.try_lock().is_err(), "another one may be written");
            free.send(()).unwrap();
            busy.await.unwrap().unwrap();
            let next = ledger.keep(accepted(3, "next"), Telling::Offer);
            tokio::time::timeout(Duration::from_secs(20), next).await.unwrap();
            assert_eq!(read(&folder), Some(accepted(3, "next")));
        });
    }
}
