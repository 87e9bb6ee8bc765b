//! What the disk has of one kind of overrides. What cannot be read is told and counted, and the rest is taken.

use std::collections::HashMap;

use cofferdam_limits::redis::MAX_OVERRIDES;
use serde_json::Value;

use super::said::Said;
use super::shared::Shared;

/// What a router begins with.
#[derive(Debug)]
pub(super) struct FromDisk<S> {
    /// By tenant, without what has ended.
    pub(super) said: HashMap<String, S>,
    /// What cannot be read, or is more than there may be; a part that is damaged as a whole counts for one.
    pub(super) n_left_out: u64,
}

/// Reads what the disk has of a kind.
pub(super) fn from_disk<S: Said>(shared: &Shared) -> FromDisk<S> {
    let (mut said, kind) = (HashMap::new(), S::KIND);
    let Some(saved) = &shared.saved else { return FromDisk { said, n_left_out: 0 } };
    let mut n_left_out = u64::from(saved.is_damaged());
    let part = match saved.part(kind) {
        Some(Value::Object(part)) => part,
        Some(_) => {
            tracing::error!(kind, "the overrides of this kind on disk are damaged, and none are taken");
            return FromDisk { said, n_left_out: 1 };
        }
        None => serde_json::Map::new(),
    };
    let now_ms = shared.clock.now_ms();
    for (tenant, value) in part {
        match serde_json::from_value::<S>(value) {
            Ok(it) if it.is_over(now_ms) => {}
            Ok(_) if said.len() >= MAX_OVERRIDES => {
                n_left_out += 1;
                tracing::warn!(
                    tenant,
                    kind,
                    "an override on disk is more than there may be, and does not bind"
                );
            }
            Ok(it) => drop(said.insert(tenant, it)),
            Err(error) => {
                n_left_out += 1;
                tracing::warn!(tenant, %error, kind, "an override on disk cannot be read, and does not bind");
            }
        }
    }
    let n_overrides = said.len();
    tracing::info!(n_overrides, n_left_out, kind, "overrides taken from disk");
    FromDisk { said, n_left_out }
}
