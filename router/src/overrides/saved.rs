//! Overrides on disk: one file, `overrides.json`, with what is said of each kind, by tenant. A router that starts while the store
//! is away has those that it last knew.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use crate::state_dir::StateDir;

const FILE: &str = "overrides.json";

/// What the file has, or will have.
#[derive(Debug)]
pub(super) struct Saved {
    folder: StateDir,
    /// By kind.
    parts: Mutex<BTreeMap<String, Value>>,
    /// Whoever writes holds it, so that the last to write has the last word of all kinds.
    writing: Arc<tokio::sync::Mutex<()>>,
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
        Self { folder, parts: Mutex::new(parts.unwrap_or_default()), writing: Arc::default() }
    }

    /// What the file had of a kind.
    pub(super) fn part(&self, kind: &str) -> Option<Value> {
        self.parts.lock().get(kind).cloned()
    }

    /// Writes what there is of a kind now. A disk that does not take it is told; what runs goes on.
    pub(super) async fn write(&self, kind: &str, said: Value) {
        self.parts.lock().insert(kind.to_owned(), said);
        let writing = Arc::clone(&self.writing).lock_owned().await;
        let bytes = serde_json::to_vec(&*self.parts.lock()).unwrap_or_default();
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _writing = writing;
            folder.write(FILE, &bytes)
        });
        if let Ok(Err(error)) = done.await {
            tracing::error!(%error, file = FILE, "the overrides could not be kept on disk");
        }
    }
}
