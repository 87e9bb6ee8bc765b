//! Who waits for a server's answer: that it was late is known only by those who gave up waiting for it.

use std::sync::Arc;

use super::breaker::Breaker;
use super::terms::Terms;

/// Somebody who waits for a server. Dropped after about as long as a request may wait, it says that the server is late.
pub(super) struct Waiting<'a> {
    terms: &'a Terms,
    breaker: Option<Arc<Breaker>>,
    begun_us: u64,
    /// Whoever goes away before did not do so because of the server.
    least_us: u64,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(terms: &'a Terms, breaker: Arc<Breaker>) -> Self {
        // The request's own clock began a little before this.
        let least_us = terms.budget_us - terms.budget_us / 8;
        Self { terms, breaker: Some(breaker), begun_us: terms.clock.now_us(), least_us }
    }

    /// One whose request has waited for another answer before: the rest of its time says enough if that was half of it.
    pub(super) fn behind(terms: &'a Terms, breaker: Arc<Breaker>) -> Self {
        let mut waiting = Self::new(terms, breaker);
        waiting.least_us = terms.budget_us / 2;
        waiting
    }

    /// The answer has come, or it is known already that none will.
    pub(super) fn ends(mut self) {
        self.breaker = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let has_waited = self.terms.since_us(self.begun_us) >= self.least_us;
        if let Some(breaker) = self.breaker.take().filter(|_| has_waited) {
            breaker.late(self.terms.clock.now_us(), self.terms.budget_us);
        }
    }
}
