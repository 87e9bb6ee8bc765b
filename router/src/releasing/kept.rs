//! How far a release is, on disk: `release.json` in the router's folder. A router that starts while nobody can be asked goes on
//! from there.

use std::io;
use std::sync::Arc;

use cofferdam_limits::redis::{ReleaseName, ReleaseProgress};
use serde::{Deserialize, Serialize};

use crate::state_dir::StateDir;
use crate::waves::Wave;

const FILE: &str = "release.json";

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    digest: String,
    began: u64,
    n_loose: u32,
    n_orders: u32,
}

/// Where it is kept, if anywhere.
#[derive(Debug)]
pub(super) struct Kept {
    folder: Option<StateDir>,
    /// Whether the disk took nothing the last time. Whoever takes note holds it.
    is_failing: Arc<tokio::sync::Mutex<bool>>,
}

/// What is on disk. A damaged file is told, and counts as none.
pub(crate) fn read(folder: &StateDir) -> Option<(ReleaseName, ReleaseProgress)> {
    let read = serde_json::from_slice(&folder.read(FILE)?).inspect_err(|error| {
        tracing::error!(%error, file = FILE, "how far a release was is damaged on disk, and counts as unknown");
    });
    let Written { digest, began, n_loose, n_orders } = read.ok()?;
    Some((ReleaseName { digest, began }, ReleaseProgress { n_loose, n_orders }))
}

fn write(folder: &StateDir, name: &ReleaseName, progress: ReleaseProgress) -> io::Result<()> {
    let (ReleaseName { digest, began }, ReleaseProgress { n_loose, n_orders }) = (name.clone(), progress);
    // Numbers and text are always JSON.
    let bytes = serde_json::to_vec_pretty(&Written { digest, began, n_loose, n_orders }).unwrap_or_default();
    folder.write(FILE, &bytes)
}

impl Kept {
    pub(super) fn new(folder: Option<StateDir>) -> Self {
        Self { folder, is_failing: Arc::default() }
    }

    /// Takes note of how far a release is: on disk before any slot moves, so that none goes back with the process. A disk that does
    /// not take it is told once, and the release goes on.
    pub(super) async fn note(&self, wave: &Arc<Wave>, progress: ReleaseProgress) {
        let mut is_failing = Arc::clone(&self.is_failing).lock_owned().await;
        let progress = wave.after(progress);
        let changed = |_: &StateDir| progress != wave.progress();
        let Some(folder) = self.folder.clone().filter(changed) else { return wave.advance(progress) };
        let wave = Arc::clone(wave);
        // Who waits for it may leave meanwhile.
        let noted = tokio::task::spawn_blocking(move || {
            let error = write(&folder, &wave.name, progress).err();
            if let Some(error) = error.as_ref().filter(|_| !*is_failing) {
                tracing::error!(%error, file = FILE, "how far the release is could not be kept on disk");
            }
            *is_failing = error.is_some();
            wave.advance(progress);
        });
        let _ = noted.await;
    }
}
