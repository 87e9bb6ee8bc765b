//! Overrides on disk: one file, `overrides.json`, with what is said of each kind, by tenant. A router that starts while the store
//! is away has those that it last knew.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::state_dir::StateDir;

const FILE: &str = "overrides.json";

/// What the file has, or will have.
#[derive(Debug)]
pub(super) struct Saved {
    folder: StateDir,
    parts: Mutex<Parts>,
    is_damaged: bool,
    /// The state that was last written. Whoever writes holds it, so that the last to write has the last word of all kinds.
    written: Arc<tokio::sync::Mutex<u64>>,
}

#[derive(Debug, Default)]
struct Parts {
    by_kind: BTreeMap<String, Value>,
    /// Grows with every change.
    state: u64,
}

impl Saved {
    /// Reads the file. One that is damaged is told, and counts as none; other kinds than these are told, and stay in the file.
    pub(super) fn read(folder: StateDir, kinds: &[&str]) -> Self {
        let read = folder.read(FILE).map(|bytes| serde_json::from_slice::<BTreeMap<String, Value>>(&bytes));
        let (by_kind, is_damaged) = match read {
            Some(Ok(by_kind)) => (by_kind, false),
            Some(Err(error)) => {
                tracing::error!(%error, file = FILE, "the overrides on disk are damaged, and none are taken");
                (BTreeMap::new(), true)
            }
            None => (BTreeMap::new(), false),
        };
        for (kind, part) in by_kind.iter().filter(|(kind, _)| !kinds.contains(&kind.as_str())) {
            let n_overrides = part.as_object().map_or(1, serde_json::Map::len);
            tracing::warn!(
                kind,
                n_overrides,
                file = FILE,
                "overrides of an unknown kind on disk do not bind"
            );
        }
        let parts = Mutex::new(Parts { by_kind, state: 0 });
        Self { folder, parts, is_damaged, written: Arc::default() }
    }

    /// Whether there was a file of which nothing could be read.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// What the file had of a kind.
    pub(super) fn part(&self, kind: &str) -> Option<Value> {
        self.parts.lock().by_kind.get(kind).cloned()
    }

    /// Writes what there is of a kind now, where that is not written yet. A disk that does not take it is told; what runs goes on.
    pub(super) async fn write(&self, kind: &str, said: impl FnOnce() -> Value) {
        {
            let mut parts = self.parts.lock();
            // Asked for under the lock, so that no older word takes the place of a newer one.
            let said = said();
            if parts.by_kind.get(kind) != Some(&said) {
                parts.by_kind.insert(kind.to_owned(), said);
                parts.state += 1;
            }
        }
        let mut written = Arc::clone(&self.written).lock_owned().await;
        let (state, bytes) = {
            let parts = self.parts.lock();
            if parts.state == *written {
                return;
            }
            (parts.state, serde_json::to_vec(&parts.by_kind).unwrap_or_default())
        };
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || {
            folder.write(FILE, &bytes)?;
            *written = state;
            io::Result::Ok(())
        });
        if let Ok(Err(error)) = done.await {
            tracing::error!(%error, file = FILE, "the overrides could not be kept on disk");
        }
    }
}
