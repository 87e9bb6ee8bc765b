//! For how long a server that forgot lets more be in use than the limit. It knows routers by what they may use and by what
//! they were told last.

use super::holder::Holder;
use super::world::{N_ROUTERS, World};

/// A wipe or a failover whose consequences are not over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forgetting {
    /// What a router was told before does not count.
    since: i128,
    /// Whether everybody has told a server that had learned what it uses.
    is_told: bool,
}

impl Forgetting {
    pub(super) fn at(now: i128) -> Self {
        Self { since: now, is_told: false }
    }

    /// It is over once every router was answered twice by a server that had learned, and what was admitted meanwhile has
    /// drained. After the first answers the server knows of each share that is in use, but a router that was answered early
    /// has a cap that leaves others' shares out; the second ones cut it. A router whose loan has ended is waited for as well:
    /// it may be told that the server learns, and then use its share.
    pub(super) fn after(self, world: &World<'_, Holder>) -> Option<Self> {
        if !world.routers.iter().all(|router| router.knows_since(self.since)) {
            return Some(self);
        }
        if !self.is_told {
            return Some(Self { since: world.now, is_told: true });
        }
        let may_use: u32 = world.routers.iter().map(Holder::may_use).sum();
        (may_use > world.terms.limit).then_some(self)
    }

    /// What all may use above `limit`: shares of all routers but one, however the remainder is shared out.
    pub(super) fn excess(limit: u32) -> u32 {
        (N_ROUTERS as u32 - 1) * limit.div_ceil(N_ROUTERS as u32)
    }
}
