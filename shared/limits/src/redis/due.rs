//! When a subject has something to say to the store of its own accord: more is needed, something lies idle, a loan has to be
//! renewed, or nothing is left to say at all.

use super::subject::{Meter, Subject};
use super::terms::Terms;

/// When to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// Nothing is held here or in the store: the subject is the same as none.
    Never,
    Later,
    Now,
}

/// When to call for `subject`.
pub(super) fn due(subject: &Subject, terms: &Terms, now_us: u64) -> Due {
    let desk = subject.desk.lock();
    let (is_waited_for, called_us, is_calling) = (!desk.wants.is_empty(), desk.called_us, desk.is_calling);
    drop(desk);
    let tokens = subject.more().iter().map(|meter| tokens_due(meter, terms, now_us)).max();
    let tokens = tokens_due(&subject.tokens, terms, now_us).max(tokens.unwrap_or(Due::Never));
    let all = permits_due(subject, terms, now_us, called_us).max(tokens);
    match all {
        _ if is_calling => Due::Later,
        _ if is_waited_for => Due::Now,
        // The store may know a subject for a while after it has nothing any more: until then its account goes on.
        Due::Never if now_us.saturating_sub(called_us) < 2 * terms.ttl_us => Due::Later,
        other => other,
    }
}

fn permits_due(subject: &Subject, terms: &Terms, now_us: u64, called_us: u64) -> Due {
    let seen = subject.permits.read();
    let mut ledger = subject.permit_ledger.lock();
    let spare = terms.spare(ledger.limit.unwrap_or(0).into());
    let is_moving = subject.tokens.ledger.lock().is_moving(spare.idle_us(1), now_us);
    let keep = ledger.keep(seen.used, is_moving, spare, now_us);
    let held = seen.cap.max(seen.used);
    if held == 0 && !ledger.has_account {
        return Due::Never;
    }
    let is_surplus = seen.cap > keep && seen.cap > seen.used;
    // Taken beside the loan while the store was away: it has to know.
    let is_untold = seen.used > seen.cap && !subject.permits.has_ended(now_us);
    let is_old = now_us.saturating_sub(called_us) >= terms.heartbeat_us();
    if ledger.limit.is_some() && (is_surplus || is_untold || is_old || held == 0) {
        Due::Now
    } else {
        Due::Later
    }
}

fn tokens_due(meter: &Meter, terms: &Terms, now_us: u64) -> Due {
    let mut ledger = meter.ledger.lock();
    let (count, capacity) = (meter.lease.count(), ledger.measure.map_or(0, |measure| measure.capacity()));
    let spare = terms.spare(capacity);
    let is_idle = ledger.look(count, spare, now_us);
    if ledger.is_charged() {
        return Due::Now;
    }
    if !meter.alone.lock().is_full(now_us) {
        return Due::Later;
    }
    let Some(measure) = ledger.measure else { return Due::Never };
    if terms.is_exact(&measure) {
        return if ledger.owes() { Due::Now } else { Due::Never };
    }
    if !ledger.has_account && count == 0 {
        return if ledger.owes() { Due::Now } else { Due::Never };
    }
    let early = ledger.early(spare);
    let is_low = !is_idle && early > 0 && count <= early && !meter.lease.is_refused(now_us);
    if is_idle || is_low { Due::Now } else { Due::Later }
}
