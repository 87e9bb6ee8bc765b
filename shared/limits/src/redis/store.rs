//! `RedisStore`: the limits of a fleet, shared through Redis. It answers from what is on loan, asks where that does not
//! suffice, and falls back to this router's share while the store is away.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::TenantId;

use super::ask::ask;
use super::core::Core;
use super::figures::{Loan, LocalShare, SharingMetrics};
use super::keys::Fleet;
use super::link::{Link, LinkError};

use super::needs::{Needs, Short};
use super::op::Session;
use super::recall;
use super::roll;
use super::stand::{level_standing, standing_at};
use super::subject::Subject;
use super::syncer::Syncer;
use super::terms::{DEFAULT_TTL, Mode, Terms};
use crate::{
    Answer, Clock, DEFAULT_BUDGET, Demand, Grant, LevelPolicy, LimitStore, Refusal, RouteKey, Standing,
    StoreMetrics,
};

/// How a process shares limits with others.
#[derive(Debug, Clone)]
pub struct Sharing {
    /// Names the fleet in every key.
    pub fleet: Fleet,
    /// How limits are held to.
    pub mode: Mode,
    /// How many routers share them, at least, and until others were seen.
    pub routers: u32,
    /// How many tenants have a state in this process.
    pub max_tenants: usize,
    /// How long the store remembers a process that says nothing.
    pub ttl: Duration,
    /// An answer that takes longer is late.
    pub budget: Duration,
}

/// Limits that many processes share.
pub struct RedisStore(pub(super) Arc<Core>);

impl Sharing {
    /// The defaults for `fleet`.
    pub fn new(fleet: Fleet) -> Self {
        let (mode, max_tenants) = (Mode::default(), crate::DEFAULT_TENANTS);
        Self { fleet, mode, routers: 1, max_tenants, ttl: DEFAULT_TTL, budget: DEFAULT_BUDGET }
    }
}

impl RedisStore {
    /// A store over `link`, whose calls run on the current tokio runtime, as a session of its own.
    pub fn start(sharing: Sharing, link: Link, session: Session, clock: Clock) -> Self {
        let Sharing { fleet, mode, routers, max_tenants, ttl, budget } = sharing;
        let terms = Terms::new(session, ttl, budget, mode, routers, clock);
        let (core, queued) = Core::new(terms, max_tenants, fleet, link);
        let core = Arc::new(core);
        roll::call_first(&core);
        tokio::spawn(Syncer::new(Arc::clone(&core), queued).run());
        recall::listen(&core);
        Self(core)
    }
}

impl RedisStore {
    /// Decides a demand that memory does not: without those who are away, and by asking the others.
    fn admit_beside(
        &self,
        tenant: Arc<Subject>,
        demand: &Demand<'_>,
        grant: &mut Grant,
        mut needs: Needs,
    ) -> Answer {
        let core = &self.0;
        let away = core.away(&tenant, needs);
        if away.tenant {
            return match core.fall_back(&tenant, demand, grant) {
                Ok(()) => Answer::Admitted,
                Err(refusal) => Answer::Refused(refusal),
            };
        }
        if away.ceiling && demand.levels.route().is_none_or(|policy| policy.shape.is_none()) {
            match core.take_apart(&tenant, demand, grant) {
                Ok(()) => {
                    core.admitted();
                    return Answer::Admitted;
                }
                Err(Short::Refused(refusal)) => return Answer::Refused(refusal),
                Err(Short::Ask(others)) => needs = others,
            }
        }
        needs.ceiling &= !away.ceiling;
        let question = Arc::new(demand.owned());
        Answer::Ask(Box::pin(ask(Arc::clone(core), tenant, question, needs, away.ceiling)))
    }

    /// Takes these terms from now on: how limits are held to, and how many routers share them at least.
    pub fn change(&self, mode: Mode, routers: u32) {
        self.0.terms.change(mode, routers);
    }

    /// How the sharing goes.
    pub fn sharing(&self) -> SharingMetrics {
        SharingMetrics::of(&self.0)
    }

    /// This process's session.
    pub fn session(&self) -> &Session {
        &self.0.terms.session
    }

    /// Waits until the store has answered for the first time: then this process knows who else shares the limits, and the store
    /// knows of it.
    pub async fn first_answer(&self) {
        // The sender is this store's own.
        let _ = self.0.has_answered.subscribe().wait_for(|has_answered| *has_answered).await;
    }

    /// Every session that lives, at this time of the store's in milliseconds since 1970; nothing while the store has just begun
    /// to remember, and may not have heard of all.
    ///
    /// # Errors
    /// The store does not say.
    pub async fn live(&self, now_ms: u64) -> Result<Option<Vec<String>>, LinkError> {
        roll::known(&self.0, now_ms.saturating_mul(1_000)).await
    }

    /// What this process has on loan for `tenant`.
    pub fn loan(&self, tenant: &TenantId) -> Loan {
        Loan::of(&self.0, tenant)
    }

    /// The part of `tenant`'s limits that this process decides by itself while the store is away; of the ceiling, without a tenant.
    pub fn local_share(&self, tenant: Option<&TenantId>) -> LocalShare {
        LocalShare::of(&self.0, tenant)
    }

    /// Whether the store lost what it knew of `tenant`, and lends nothing yet.
    pub fn is_learning(&self, tenant: &TenantId) -> bool {
        let now_us = self.0.terms.clock.now_us();
        self.0.table.find(tenant).is_some_and(|subject| subject.is_learning(now_us))
    }

    /// Waits until the store was told of everything that was given back so far, or cannot be.
    pub async fn settled(&self) {
        // An error says that nobody calls the store any more.
        let _ = self.0.table.queue().settle().await;
    }

    /// Gives back what idles on loan, and waits until the store was told, or cannot be. Call it when nothing is in flight any
    /// more: what this process leaves behind is nobody's until its session ends.
    pub async fn leave(&self) {
        let _ = self.0.table.queue().leave().await;
    }
}

impl LimitStore for RedisStore {
    fn admit(&self, demand: &Demand<'_>, grant: &mut Grant) -> Answer {
        let core = &self.0;
        let Some(tenant) = core.table.subject(demand.tenant) else {
            return match core.overflow(demand, grant, false) {
                Ok(()) => Answer::Admitted,
                Err(refusal) => Answer::Refused(refusal),
            };
        };
        match core.take(&tenant, demand, grant) {
            Ok(()) => Answer::Admitted,
            Err(Short::Refused(refusal)) => Answer::Refused(refusal),
            Err(Short::Ask(needs)) => self.admit_beside(tenant, demand, grant, needs),
        }
    }

    fn fall_back(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        match self.0.table.subject(demand.tenant) {
            Some(tenant) => self.0.fall_back(&tenant, demand, grant),
            None => self.0.overflow(demand, grant, true),
        }
    }

    fn look(&self, tenant: &TenantId, route: RouteKey, policy: &LevelPolicy) -> Standing {
        let core = &self.0;
        let now_us = core.terms.clock.now_us();
        match (policy.level, core.table.find(tenant)) {
            (cofferdam_model::Level::Fleet, _) => level_standing(&core.ceiling, policy, now_us),
            (_, Some(subject)) => standing_at(&subject, route, policy, now_us),
            (_, None) => standing_at(&core.table.nobody(), route, policy, now_us),
        }
    }

    fn metrics(&self) -> StoreMetrics {
        self.0.metrics()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("terms", &self.0.terms).finish_non_exhaustive()
    }
}
