//! Asks servers that are away whether they are there again, where nobody else has anything to say to them.

use std::sync::Arc;

use super::breaker::Breaker;
use super::call::Call;
use super::core::Core;
use super::keys::{BUCKETS, Key};

/// Calls on their way to a server that is away: enough to see that it is back.
pub(super) const MAX_PROBES: usize = 4;

/// Asks each of them, in the background.
pub(super) fn call_all(core: &Arc<Core>) {
    let mut away: Vec<Arc<Breaker>> = Vec::new();
    for bucket in 0..BUCKETS {
        let breaker = core.breaker_of(Some(bucket));
        if breaker.is_away() && !away.iter().any(|other| Arc::ptr_eq(other, &breaker)) {
            call(core, &breaker, core.fleet.epoch(bucket));
            away.push(breaker);
        }
    }
    let breaker = core.breaker_of(None);
    if breaker.is_away() && !away.iter().any(|other| Arc::ptr_eq(other, &breaker)) {
        call(core, &breaker, core.fleet.ceiling_epoch());
    }
}

/// Asks the one that has `epoch`, in the background: nothing but the time.
pub(super) fn call(core: &Arc<Core>, breaker: &Arc<Breaker>, epoch: Key) {
    if breaker.n_calls() >= MAX_PROBES {
        return;
    }
    let (core, breaker) = (Arc::clone(core), Arc::clone(breaker));
    breaker.call_begins();
    tokio::spawn(async move {
        let terms = &core.terms;
        let sent_us = terms.clock.now_us();
        if let Ok(call) = Call::builder(epoch, &terms.session, terms.ttl).build()
            && core.link.call(&call).await.is_ok()
        {
            breaker.answered_after(terms.since_us(sent_us), terms.budget_us);
        }
        breaker.call_ends();
    });
}
