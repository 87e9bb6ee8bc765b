//! The engine: one for a process, shared by all its workers. It asks the store, waits no longer than its budget, and has the
//! store fall back where it cannot be asked. It holds no state of any limit.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cofferdam_model::{Level, TenantId};

use crate::metrics::Counters;
use crate::{
    Answer, Asking, Decision, Demand, Embedded, LevelPolicy, LimitStore, Metrics, Permit, Refusal, RouteKey,
    Standing, Wait,
};

/// How long a request waits for the store, unless the engine is told otherwise.
pub const DEFAULT_BUDGET: Duration = Duration::from_millis(5);

/// The limits of one process. Clones share everything.
#[derive(Clone)]
pub struct Limits(Arc<Engine>);

struct Engine {
    store: Arc<dyn LimitStore>,
    budget: Duration,
    counters: Counters,
}

/// The engine's answer.
#[derive(Debug)]
pub enum Admission {
    /// Go on, and release the permit in the end.
    Admitted(Permit),
    /// Nothing was taken.
    Refused(Refusal),
    /// The store has to be asked: wait for it.
    Pending(PendingAdmission),
}

/// An admission that is not decided yet: a future, to be awaited on a tokio runtime with time. It ends within the
/// engine's budget. Dropping it leaves nothing taken.
#[must_use = "an admission that nobody awaits is never decided"]
pub struct PendingAdmission(Pin<Box<dyn Future<Output = Result<Permit, Refusal>> + Send>>);

impl Limits {
    /// An engine over `store`. A question that has no answer within `budget`, or an error for one, is decided by what the
    /// store falls back to.
    pub fn new(store: Arc<dyn LimitStore>, budget: Duration) -> Self {
        Self(Arc::new(Engine { store, budget, counters: Counters::default() }))
    }

    /// An engine whose whole truth is in this process: nothing is ever pending.
    pub fn embedded(store: Embedded) -> Self {
        Self::new(Arc::new(store), DEFAULT_BUDGET)
    }

    /// Takes all of `demand`'s levels, or none. It never waits: what cannot be decided from memory is pending.
    pub fn admit(&self, demand: &Demand<'_>) -> Admission {
        if let Some(refusal) = self.0.refuse_for_good(demand) {
            return Admission::Refused(self.0.counters.refused(refusal));
        }
        // The permit is filled where it is returned: moving it about would cost more than a lock.
        let mut admission = Admission::Admitted(Permit::empty());
        if let Admission::Admitted(permit) = &mut admission {
            match self.0.store.admit(demand, permit.grant_mut()) {
                Answer::Admitted => self.0.counters.passed(permit.grant_mut().shadowed()),
                Answer::Refused(refusal) => admission = Admission::Refused(self.0.counters.refused(refusal)),
                Answer::Ask(asking) => admission = Admission::Pending(self.pend(asking, demand)),
            }
        }
        admission
    }

    /// Where `policy`'s level stands for `tenant`, on `route` if it is the route level, as far as memory knows.
    pub fn look(&self, tenant: &TenantId, route: RouteKey, policy: &LevelPolicy) -> Standing {
        self.0.store.look(tenant, route, policy)
    }

    /// Where the tenant of `demand` stands before it, as far as memory knows; a demand without a tenant level has the
    /// default.
    pub fn standing(&self, demand: &Demand<'_>) -> Standing {
        self.0.standing(demand)
    }

    /// How many requests of `tenant` are in flight, as far as memory knows.
    pub fn in_flight(&self, tenant: &TenantId) -> u32 {
        self.look(tenant, RouteKey::default(), &LevelPolicy::unlimited(Level::Tenant)).in_flight
    }

    /// The counters as they are now.
    pub fn metrics(&self) -> Metrics {
        self.0.counters.snapshot(self.0.store.metrics())
    }

    fn pend(&self, asking: Asking, demand: &Demand<'_>) -> PendingAdmission {
        let engine = Arc::clone(&self.0);
        let demand = demand.owned();
        PendingAdmission(Box::pin(async move {
            let counters = &engine.counters;
            let begun = tokio::time::Instant::now();
            let answer = tokio::time::timeout(engine.budget, asking).await;
            counters.waits.add(begun.elapsed());
            match answer {
                Ok(Ok(Decision::Admitted(grant))) => {
                    counters.passed(grant.shadowed());
                    return Ok(Permit::new(grant));
                }
                Ok(Ok(Decision::Refused(refusal))) => return Err(counters.refused(refusal)),
                Ok(Err(_)) => counters.store_errors.add_one(),
                Err(_) => counters.store_timeouts.add_one(),
            }
            engine.fall_back(&demand.lend())
        }))
    }
}

impl Engine {
    /// A cost above a level's capacity can never pass; no state is touched, so that it leaves no key.
    fn refuse_for_good(&self, demand: &Demand<'_>) -> Option<Refusal> {
        let mut binding = demand.levels.as_slice().iter().rev().filter(|policy| !policy.shadow);
        let never = |policy: &LevelPolicy| Some((policy.level, demand.could_pass(policy).err()?));
        let (level, limited) = binding.find_map(never)?;
        Some(Refusal { level, limited, wait: Wait::Never, standing: self.standing(demand) })
    }

    fn standing(&self, demand: &Demand<'_>) -> Standing {
        let look = |policy| self.store.look(demand.tenant, demand.route, policy);
        let mut standing = demand.levels.get(Level::Tenant).map(look).unwrap_or_default();
        if let Some(bucket) = demand.levels.route().and_then(|policy| look(policy).bucket) {
            standing.beside_mut().route = Some(bucket);
        }
        standing
    }

    /// Decides a demand that the store could not decide.
    fn fall_back(&self, demand: &Demand<'_>) -> Result<Permit, Refusal> {
        let mut permit = Permit::empty();
        match self.store.fall_back(demand, permit.grant_mut()) {
            Ok(()) => {
                self.counters.passed(permit.grant_mut().shadowed());
                self.counters.fallback_admitted.add_one();
                Ok(permit)
            }
            Err(refusal) => Err(self.counters.refused(refusal)),
        }
    }
}

impl Future for PendingAdmission {
    type Output = Result<Permit, Refusal>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl fmt::Debug for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limits").field("budget", &self.0.budget).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingAdmission")
    }
}
