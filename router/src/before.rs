//! What had been accepted before a router started: the newest of what is on disk and in the store.

use std::io;
use std::time::Duration;

use cofferdam_fleet::Fleet;
use cofferdam_limits::redis::link::{Link, LinkError};
use cofferdam_limits::redis::{self, AcceptedBook, ReleaseBook, ReleaseName, ReleaseProgress, Script};

use crate::accepted::{self, Accepted};
use crate::releasing;
use crate::settings::Settings;
use crate::shared_limits::SharedStore;
use crate::state_dir::StateDir;

/// How long a router that starts waits for the store.
const PATIENCE: Duration = Duration::from_secs(2);

/// The file that the first one of this process is compared with; by default there is none.
#[derive(Debug, Default)]
pub struct Before {
    pub(crate) accepted: Option<Accepted>,
    /// How far a release is, by the word of the store and of the disk, which may mean another one.
    pub(crate) releases: Vec<Known>,
}

/// How far a release is.
type Known = (ReleaseName, ReleaseProgress);

impl Before {
    /// Looks on disk and in the store, as far as `settings` have them. A store that does not answer is told, and passed over.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be had.
    pub async fn look(fleet: &Fleet, settings: &Settings) -> io::Result<Self> {
        let folder = settings.state.as_deref().map(StateDir::open).transpose()?;
        let on_disk = folder.as_ref().and_then(accepted::read);
        let (in_store, release) = match &settings.store {
            Some(store) => look_in(store, fleet).await,
            None => (None, None),
        };
        let newest = match (on_disk, in_store) {
            // The store's may be amended meanwhile, so it counts where both are of one file.
            (Some(disk), Some(store)) => Some(if disk.revision > store.revision { disk } else { store }),
            (disk, store) => disk.or(store),
        };
        let kept = folder.as_ref().and_then(releasing::read);
        Ok(Self { accepted: newest, releases: release.into_iter().chain(kept).collect() })
    }
}

async fn look_in(store: &SharedStore, fleet: &Fleet) -> (Option<Accepted>, Option<Known>) {
    let name = redis::Fleet::new(&fleet.name);
    let link = Link::open(store.endpoint.clone(), Script::accepted());
    let looked = tokio::time::timeout(PATIENCE, async {
        link.connected().await;
        let accepted = AcceptedBook::new(link.clone(), &name).look().await?;
        Ok::<_, LinkError>((accepted, ReleaseBook::new(link, &name).look().await?))
    });
    match looked.await {
        Ok(Ok((file, release))) => {
            let known = release.map(|release| (release.terms.name, release.progress));
            (file.as_ref().and_then(accepted::understand), known)
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "the store does not say which fleet file was accepted last");
            (None, None)
        }
        Err(_) => {
            tracing::warn!("the store was not there to say which fleet file was accepted last");
            (None, None)
        }
    }
}
