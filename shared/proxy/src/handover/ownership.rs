//! Whose affair it is to change what outlives both processes of a handover, such as a file: the running process's until a
//! successor comes for the sockets, and the successor's once it has followed. In between it is nobody's, so that no change is lost.

use std::sync::Arc;

use tokio::sync::{OwnedRwLockReadGuard, RwLock};

/// Whether it is this process's, as it is by default. Clones share it.
#[derive(Debug, Clone)]
pub struct Ownership(Arc<RwLock<bool>>);

/// While this is there, it stays this process's. Whoever holds it asks for no second one: to give it away may wait in between.
#[derive(Debug)]
pub struct Owned {
    _held: OwnedRwLockReadGuard<bool>,
}

/// It is not this process's, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another process takes this one's place at this moment: nothing was changed, ask again")]
pub struct HandedOn;

impl Ownership {
    /// That of a process which has yet to follow another one.
    pub fn awaited() -> Self {
        Self(Arc::new(RwLock::new(false)))
    }

    /// Holds it fast.
    ///
    /// # Errors
    /// It is not this process's.
    pub async fn hold(&self) -> Result<Owned, HandedOn> {
        let held = Arc::clone(&self.0).read_owned().await;
        if *held { Ok(Owned { _held: held }) } else { Err(HandedOn) }
    }

    /// Whether it is this process's.
    pub async fn is_ours(&self) -> bool {
        *self.0.read().await
    }

    /// Gives it away once nobody holds it fast.
    pub async fn give(&self) {
        *self.0.write().await = false;
    }

    /// Takes it, or takes it back.
    pub async fn take(&self) {
        *self.0.write().await = true;
    }
}

impl Default for Ownership {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(true)))
    }
}
