//! One subject's part of a call that is on its way: what was asked, and for whom. It decides nothing.

use std::sync::Arc;

use super::measure::Measure;
use super::subject::{Meter, MeterKey, Subject};
use super::want::Want;

/// One subject's part of a call that is on its way.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) subject: Arc<Subject>,
    pub(super) sent_us: u64,
    /// One for each op, in their order.
    pub(super) parts: Vec<Part>,
    pub(super) wants: Vec<Want>,
}

/// What an op was for.
#[derive(Debug)]
pub(super) struct Part {
    /// The one who waits for it alone, by its place among the wants; else it is for everybody.
    pub(super) alone: Option<usize>,
    /// What was asked for.
    pub(super) want: u32,
    /// Whether less than that will do, since the level is a shadow.
    pub(super) shadow: bool,
    /// Whether it is asked for at intervals and in blocks, since each request would cost the store too much.
    pub(super) is_paced: bool,
    pub(super) of: Of,
}

#[derive(Debug)]
pub(super) enum Of {
    /// `held` is `None` where it is what the op before left.
    Permits {
        limit: u32,
        held: Option<u32>,
    },
    Tokens {
        meter: Metered,
        measure: Measure,
        min: u32,
    },
    /// What this router's share admitted while the store was away.
    Owed {
        meter: Metered,
        owed: i64,
    },
}

/// A meter, and how it is to be found.
#[derive(Debug, Clone)]
pub(super) struct Metered {
    pub(super) key: MeterKey,
    pub(super) meter: Option<Arc<Meter>>,
}

impl Metered {
    /// The plan's own meter, which lies in the subject.
    pub(super) const PLAN: Self = Self { key: MeterKey::Plan, meter: None };

    pub(super) fn of<'a>(&'a self, subject: &'a Subject) -> &'a Meter {
        self.meter.as_deref().unwrap_or(&subject.tokens)
    }
}
