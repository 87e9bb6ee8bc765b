//! The end of a call: what becomes of an answer that never came, and when a subject's next call is due.

use std::time::Instant;

use super::exchange::{Exchange, Of};
use super::subject::Subject;
use super::terms::Terms;

/// When the store is to be called next for a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// When somebody has something to say.
    Whenever,
    /// In a moment: somebody waits for what others return.
    Soon,
    Now,
}

/// The answer never came, or says that it was not for this state: the next call heals what it may have changed. What the store
/// cannot have heard (it `was_sent` nothing) is told again; what it may have heard is not, since it would count twice.
pub(super) fn lose(exchange: Exchange, terms: &Terms, was_sent: bool) {
    let Exchange { subject, parts, wants, .. } = exchange;
    // Dropping the senders tells those who wait.
    drop(wants);
    for part in &parts {
        match &part.of {
            Of::Permits { .. } => subject.permit_ledger.lock().has_account = true,
            Of::Tokens { meter, measure, .. } => {
                let is_loan = !terms.is_exact(measure);
                meter.of(&subject).ledger.lock().unheard(was_sent, is_loan);
            }
            Of::Owed { meter, owed } if !was_sent => meter.of(&subject).ledger.lock().owe(*owed),
            Of::Owed { .. } => {}
        }
    }
    settle_desk(&subject, terms.clock.now_us());
}

/// The call is over; the result is when the next one is due.
pub(super) fn settle_desk(subject: &Subject, now_us: u64) -> Next {
    let mut desk = subject.desk.lock();
    desk.is_calling = false;
    desk.called_us = now_us;
    let (is_again, now) = (std::mem::take(&mut desk.is_again), Instant::now());
    match desk.wants.iter().any(|want| want.is_ready(now)) {
        is_ready if is_ready || is_again => Next::Now,
        _ if desk.wants.is_empty() => Next::Whenever,
        _ => Next::Soon,
    }
}
