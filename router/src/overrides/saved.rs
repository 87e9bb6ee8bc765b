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
    /// Reads the file. One that is damaged is told, and counts as none.
    pub(super) fn read(folder: StateDir) -> Self {
        let parts = folder.read(FILE).and_then(|bytes| {
            let read = serde_json::from_slice(&bytes);
            read.inspect_err(|error| {
                tracing::error!(%error, file = FILE, "the overrides on disk are damaged, and none are taken");
            })
            .ok()
        });
        let parts = Parts { by_kind: parts.unwrap_or_default(), state: 0 };
        Self { folder, parts: Mutex::new(parts), written: Arc::default() }
    }

    /// What the file had of a kind.
    pub(super) fn part(&self, kind: &str) -> Option<Value> {
        self.parts.lock().by_kind.get(kind).cloned()
    }

    /// Writes what there is of a kind now, where that is not written yet. A disk that does not take it is told; what runs goes on.
    pub(super) async fn write(&self, kind: &str, said: Value) {
        {
            let mut parts = self.parts.lock();
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
