//! What a process can say of its sharing: how often the store decided, what lies on loan, and whether the store is well.

use cofferdam_model::TenantId;

use super::core::Core;
use super::link::{LinkMetrics, LinkState};

/// How the sharing of limits goes, since the process began or as it is now.
#[derive(Debug, Clone)]
pub struct SharingMetrics {
    /// Demands that waited for the store's word.
    pub asked: u64,
    /// Demands that were decided by this router's share, because the store was away.
    pub alone: u64,
    /// Whether the store, or a server of it, is away now: nobody waits for that.
    pub is_away: bool,
    /// Times that a server of the store was given up.
    pub given_up: u64,
    /// Sessions that share the limits, this one included.
    pub sessions: u32,
    /// Permits on loan that nobody uses.
    pub idle_permits: u64,
    /// Tokens on loan that nobody has spent.
    pub idle_tokens: u64,
    /// The calls.
    pub link: LinkMetrics,
    /// The connection.
    pub state: LinkState,
}

/// What a process has on loan of one tenant's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loan {
    /// Permits, those in use included.
    pub permits: u32,
    /// Tokens of the plan's bucket that nobody has spent.
    pub tokens: u32,
}

impl Loan {
    /// The loan of `tenant` as it is now; nothing of one that was not here lately.
    pub(super) fn of(core: &Core, tenant: &TenantId) -> Self {
        let now_us = core.terms.clock.now_us();
        let Some(subject) = core.table.find(tenant) else { return Self { permits: 0, tokens: 0 } };
        let lease = &subject.tokens.lease;
        let tokens = if lease.has_ended(now_us) { 0 } else { lease.count() };
        Self { permits: subject.permits.worth(now_us), tokens }
    }
}

impl SharingMetrics {
    /// The figures of `core` as they are now. Everything on loan is looked at.
    pub(super) fn of(core: &Core) -> Self {
        let (mut idle_permits, mut idle_tokens) = (0, 0);
        let mut count = |subject: &super::subject::Subject| {
            let seen = subject.permits.read();
            idle_permits += u64::from(seen.cap.saturating_sub(seen.used));
            idle_tokens += u64::from(subject.tokens.lease.count());
        };
        count(&core.ceiling);
        core.table.each(count);
        Self {
            asked: core.counts.asked(),
            alone: core.counts.alone(),
            is_away: core.link.tally().n_away() > 0,
            given_up: core.link.tally().n_opened(),
            sessions: core.terms.sharers.count(),
            idle_permits,
            idle_tokens,
            link: core.link.metrics(),
            state: core.link.state(),
        }
    }
}
