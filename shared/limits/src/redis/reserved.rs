//! What the store granted to one who waits, and to nobody else: where that one does not come for it, because it gave up
//! waiting or was refused elsewhere, it goes back at once.

use std::sync::Arc;

use super::subject::{MeterKey, Subject};
use super::want::Reserved;

/// A permit, or none, and tokens of exact limits, which wait for one request.
#[derive(Debug)]
pub(super) struct ForOne {
    subject: Arc<Subject>,
    tokens: Vec<(MeterKey, u32)>,
    is_taken: bool,
}

impl ForOne {
    pub(super) fn new(subject: &Arc<Subject>, tokens: Vec<(MeterKey, u32)>) -> Self {
        subject.reservations.add();
        Self { subject: Arc::clone(subject), tokens, is_taken: false }
    }
}

impl Reserved for ForOne {
    fn taken(mut self: Box<Self>) {
        self.is_taken = true;
    }
}

impl Drop for ForOne {
    fn drop(&mut self) {
        self.subject.reservations.remove();
        if !self.is_taken {
            for (key, n) in self.tokens.drain(..) {
                self.subject.surrender(key, n);
            }
            // A permit is there for others of this process, and goes back with the next call.
            self.subject.permits.forget_refusal();
            self.subject.call_soon();
        }
    }
}
