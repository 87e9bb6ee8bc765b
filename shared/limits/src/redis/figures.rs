//! What a process can say of its sharing: how often the store decided, what lies on loan, and whether the store is well.

use cofferdam_model::TenantId;

use super::core::Core;
use super::link::{LinkMetrics, LinkState};
use super::share::Place;
use crate::BucketPolicy;

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
    /// Calls that were short of something, upon which others were asked to return what idles with them.
    pub recalls_sent: u64,
    /// Times that this process was asked so, and answered.
    pub recalls_answered: u64,
    /// Requests that were refused before all others had answered: there may have been room for them.
    pub false_refusals_possible: u64,
    /// Sessions that share the limits, this one included.
    pub sessions: u32,
    /// Permits on loan that nobody uses.
    pub idle_permits: u64,
    /// Tokens on loan that nobody has spent: of plans, of the ceiling, of routes and of quotas.
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

/// The part of a limit that this process decides by itself while the store is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalShare(Place);

impl LocalShare {
    /// The share of `tenant`'s limits, or of the ceiling.
    pub(super) fn of(core: &Core, tenant: Option<&TenantId>) -> Self {
        Self(core.terms.sharers.place(tenant))
    }

    /// How many routers share.
    pub fn routers(self) -> u32 {
        self.0.of
    }

    /// The permits of a limit of `limit`.
    pub fn permits(self, limit: u32) -> u32 {
        self.0.share(limit)
    }

    /// The bucket of a request that costs one token.
    pub fn bucket(self, policy: BucketPolicy) -> BucketPolicy {
        self.0.bucket(policy, 1)
    }
}

impl SharingMetrics {
    /// The figures of `core` as they are now. Everything on loan is looked at.
    pub(super) fn of(core: &Core) -> Self {
        let (mut idle_permits, mut idle_tokens) = (0, 0);
        let mut count = |subject: &super::subject::Subject| {
            let seen = subject.permits.read();
            idle_permits += u64::from(seen.cap.saturating_sub(seen.used));
            idle_tokens += subject.idle_tokens();
        };
        count(&core.ceiling);
        core.table.each(count);
        let state = core.link.state();
        let [recalls_sent, recalls_answered, false_refusals_possible] = core.terms.recalls.read();
        Self {
            asked: core.counts.asked(),
            alone: core.counts.alone(),
            // Nobody waits for a server that is not connected, or for keys that no server has.
            is_away: core.link.tally().n_away() > 0 || !state.is_connected() || state.trouble.is_some(),
            given_up: core.link.tally().n_opened(),
            recalls_sent,
            recalls_answered,
            false_refusals_possible,
            sessions: core.terms.sharers.count(),
            idle_permits,
            idle_tokens,
            link: core.link.metrics(),
            state,
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::super::keys::Fleet;
    use super::super::link::Link;
    use super::super::op::Session;
    use super::super::script::Script;
    use super::super::subject::MeterKey;
    use super::super::terms::{DEFAULT_TTL, Mode, Terms};
    use super::*;
    use crate::{ManualClock, RouteKey};

    #[tokio::test]
    async fn what_lies_idle_is_counted_of_routes_and_quotas_as_well() {
        let link = Link::open("redis://127.0.0.1:1".parse().unwrap(), Script::sync());
        let (session, clock) = (Session::parse("sessiona").unwrap(), ManualClock::at(1_000_000));
        let terms =
            Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 1, clock.clone().into());
        let (core, _queued) = Core::new(terms, 1, Fleet::parse("f").unwrap(), link);
        let acme = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let (subject, ends_us) = (core.table.subject(&acme).unwrap(), core.terms.ends_us(1_000_000));
        core.ceiling.tokens.lease.renew(1, 0, ends_us);
        subject.tokens.lease.renew(20, 0, ends_us);
        subject.meter(MeterKey::Route(RouteKey(7))).lease.renew(300, 0, ends_us);
        subject.meter(MeterKey::Window(3_600)).lease.renew(4_000, 0, ends_us);
        assert_eq!(SharingMetrics::of(&core).idle_tokens, 4_321);
    }
}
