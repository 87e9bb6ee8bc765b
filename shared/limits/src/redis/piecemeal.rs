//! What was taken of one level where that is not as much of each of its limits: by a shadow, which takes what there is, or
//! without the store. It is given back as it was taken, and is not settled.

use std::sync::Arc;

use super::subject::{MeterKey, Subject};
use crate::{Grant, Held, Paid};

/// A permit, or none, and tokens meter by meter.
pub(super) struct Piecemeal {
    subject: Arc<Subject>,
    has_permit: bool,
    tokens: Vec<(MeterKey, Source, u32)>,
}

/// Where tokens came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// What is on loan from the store.
    Loan,
    /// This router's share, which stands in for the store.
    Share,
}

impl Piecemeal {
    /// No tokens yet of `subject`; and a permit, which was taken already, if `has_permit`.
    pub(super) fn new(subject: &Arc<Subject>, has_permit: bool) -> Self {
        Self { subject: Arc::clone(subject), has_permit, tokens: Vec::new() }
    }

    /// Adds `n` tokens that were taken.
    pub(super) fn add(&mut self, key: MeterKey, source: Source, n: u32) {
        if n > 0 {
            self.tokens.push((key, source, n));
        }
    }

    /// Whether there are no tokens.
    pub(super) fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Becomes a level of `grant`, unless nothing was taken.
    pub(super) fn hold(self, grant: &mut Grant) {
        let paid = if self.is_empty() { Paid::Nothing } else { Paid::Count(1) };
        if self.has_permit || !self.is_empty() {
            grant.hold(Arc::new(self), paid);
        }
    }
}

impl Held for Piecemeal {
    fn release(&self, returned: i64) {
        if self.has_permit {
            self.subject.release_permit();
        }
        if returned > 0 {
            for (key, source, n) in &self.tokens {
                self.subject.give_back(*key, *source == Source::Share, *n);
            }
        }
    }
}
