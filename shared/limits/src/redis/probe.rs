//! Asks servers that are away whether they are there again, where nobody else has anything to say to them.

use std::sync::Arc;

use super::call::Call;
use super::core::Core;
use super::health::Health;
use super::keys::{BUCKETS, Key};

/// Calls on their way to a server that is away: enough to see that it is back.
pub(super) const MAX_PROBES: usize = 4;

/// Asks each of them, in the background.
pub(super) fn call_all(core: &Arc<Core>) {
    let mut away: Vec<Arc<Health>> = Vec::new();
    for bucket in 0..BUCKETS {
        let health = core.health_of(Some(bucket));
        if health.is_away() && !away.iter().any(|other| Arc::ptr_eq(other, &health)) {
            call(core, &health, core.fleet.epoch(bucket));
            away.push(health);
        }
    }
    let health = core.health_of(None);
    if health.is_away() && !away.iter().any(|other| Arc::ptr_eq(other, &health)) {
        call(core, &health, core.fleet.ceiling_epoch());
    }
}

/// Asks the one that has `epoch`, in the background: nothing but the time.
pub(super) fn call(core: &Arc<Core>, health: &Arc<Health>, epoch: Key) {
    if health.n_calls() >= MAX_PROBES {
        return;
    }
    let (core, health) = (Arc::clone(core), Arc::clone(health));
    health.call_begins();
    tokio::spawn(async move {
        let terms = &core.terms;
        let sent_us = terms.clock.now_us();
        if let Ok(call) = Call::builder(epoch, &terms.session, terms.ttl).build()
            && core.link.call(&call).await.is_ok()
            && terms.clock.now_us().saturating_sub(sent_us) <= terms.budget_us
        {
            health.answered();
        }
        health.call_ends();
    });
}
