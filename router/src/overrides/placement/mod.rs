//! Cells of a tenant, changed over what the fleet file says: a pin, a quarantine, a move to other cells, and a bound on how far a
//! tenant may get about.

mod advance;
mod asked;
mod changes;
mod changing;
mod fit;
mod fitted;
mod moves;
mod moving;
mod record;
mod standing;
mod wards;
mod word;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use asked::{Asked, Ended, Stopped};
pub(crate) use changes::Changes;
pub(crate) use changing::Refused;
pub(crate) use fitted::Fitted;
pub(crate) use moves::News;
pub(crate) use moving::{Ended as MoveEnded, Heard, Move, Phase};
pub(crate) use record::Record;
pub(crate) use word::{Touched, Word};

use super::clock::StoreClock;
use super::said::Said;
use crate::snapshot::Snapshot;

impl Said for Record {
    const KIND: &'static str = "placement";

    type Fitted = Fitted;

    fn until_ms(&self) -> u64 {
        self.until_ms()
    }

    fn fit(said: &HashMap<String, Self>, snapshot: &Arc<Snapshot>, clock: &Arc<StoreClock>) -> Fitted {
        Fitted::new(said, snapshot, clock)
    }
}

#[cfg(test)]
mod tests;
