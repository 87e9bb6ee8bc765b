//! Overrides fitted to the plans of one snapshot: what requests look at. It is made anew when either changes, and never on the
//! way of a request.

use std::collections::HashMap;
use std::sync::Arc;

use cofferdam_fleet::{Fleet, Plan};
use cofferdam_model::TenantId;

use super::super::clock::StoreClock;
use super::super::said::{self, Said};
use super::record::Override;
use crate::limits::{LimitsError, PlanLimits};

/// Every tenant with an override that can be applied.
#[derive(Debug)]
pub(crate) struct Fitted {
    by_tenant: HashMap<TenantId, Overridden>,
    /// When those end that do not fit their tenants' plans, in milliseconds since 1970.
    left_out_until_ms: Vec<u64>,
    clock: Arc<StoreClock>,
}

/// A tenant's plan, with what is overridden in it.
#[derive(Debug)]
pub(crate) struct Overridden {
    pub(crate) said: Override,
    pub(crate) plan: Plan,
    pub(crate) limits: PlanLimits,
}

impl Fitted {
    /// Fits what is said, by tenant. Who has no plan here has no override; what a plan makes impossible is told and left out.
    pub(super) fn new(said: &HashMap<String, Override>, fleet: &Fleet, clock: &Arc<StoreClock>) -> Self {
        let now_ms = clock.now_ms();
        let (mut fitted, mut left_out_until_ms) = (HashMap::new(), Vec::new());
        for (tenant, said) in said.iter().filter(|(_, said)| !said.is_over(now_ms)) {
            let Ok(tenant) = TenantId::parse(tenant.as_bytes(), &fleet.tenant.alphabet) else { continue };
            let Some(plan) = plan_of(&tenant, fleet) else { continue };
            match Overridden::new(said, plan, fleet) {
                Ok(overridden) => drop(fitted.insert(tenant, overridden)),
                Err(error) => {
                    left_out_until_ms.push(said.until_ms);
                    tracing::warn!(%tenant, %error, "an override does not fit the plan: the plan binds");
                }
            }
        }
        Self { by_tenant: fitted, left_out_until_ms, clock: Arc::clone(clock) }
    }

    /// What binds `tenant` now instead of its plan.
    #[inline]
    pub(crate) fn get(&self, tenant: &TenantId) -> Option<&Overridden> {
        if self.by_tenant.is_empty() {
            return None;
        }
        // The end is looked at by whoever is bound, so that it is exact.
        self.by_tenant.get(tenant).filter(|overridden| !overridden.said.is_over(self.clock.now_ms()))
    }
}

impl Overridden {
    /// Fails where both together are not exact.
    pub(super) fn new(said: &Override, plan: &Plan, fleet: &Fleet) -> Result<Self, LimitsError> {
        let plan = said.over(plan);
        let limits = PlanLimits::new(&plan, fleet)?;
        Ok(Self { said: said.clone(), plan, limits })
    }
}

impl said::Fitted for Fitted {
    fn n_binding(&self) -> usize {
        let now_ms = self.clock.now_ms();
        self.by_tenant.values().filter(|overridden| !overridden.said.is_over(now_ms)).count()
    }

    fn n_left_out(&self) -> usize {
        let now_ms = self.clock.now_ms();
        self.left_out_until_ms.iter().filter(|until_ms| now_ms < **until_ms).count()
    }
}

/// The plan of `tenant`, as the file has it.
pub(super) fn plan_of<'f>(tenant: &TenantId, fleet: &'f Fleet) -> Option<&'f Plan> {
    fleet.tenant.plan_for(tenant).map(|plan| &fleet.plans[plan.get()])
}
