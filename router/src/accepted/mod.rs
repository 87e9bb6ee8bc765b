//! The fleet file that was accepted last, as far as placement is concerned: kept on disk and in the store, so that a router
//! which starts compares its file with it, and no restart is a way around the publish gate.

mod ledger;
mod record;

pub(crate) use ledger::{Ledger, Offered, Telling, read, understand};
pub(crate) use record::{Accepted, Origin, Recorded};
