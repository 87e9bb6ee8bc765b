//! Who waits for a server's answer: that it was late is known only by those who gave up waiting for it.

use std::sync::Arc;

use super::breaker::Breaker;
use super::terms::Terms;

/// Somebody who waits for a server. Dropped after as long as a request may wait, it says that the server is late.
pub(super) struct Waiting<'a> {
    terms: &'a Terms,
    breaker: Option<Arc<Breaker>>,
    begun_us: u64,
}

impl<'a> Waiting<'a> {
    pub(super) fn new(terms: &'a Terms, breaker: Arc<Breaker>) -> Self {
        Self { terms, breaker: Some(breaker), begun_us: terms.clock.now_us() }
    }

    /// The answer has come, or it is known already that none will.
    pub(super) fn ends(mut self) {
        self.breaker = None;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let (now_us, budget_us) = (self.terms.clock.now_us(), self.terms.budget_us);
        // Whoever goes away earlier did not do so because of the server. The request's own clock began a little before this.
        let has_waited = now_us.saturating_sub(self.begun_us) >= budget_us - budget_us / 8;
        if let Some(breaker) = self.breaker.take().filter(|_| has_waited) {
            breaker.late(now_us, budget_us);
        }
    }
}
