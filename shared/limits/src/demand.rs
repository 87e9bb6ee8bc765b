//! What one request asks of the limits: whose it is, where it goes, and what it costs there.

use std::fmt;

use cofferdam_model::{Level, Limited, OnStoreFailure, TenantId};

use crate::{LevelPolicy, Levels};

/// A route as stores know it: a hash of what the route matches, so that it is the same after a reload and in every router.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RouteKey(pub u64);

/// One request's demand on the limits.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// Whose request it is: the key of the tenant level. The fleet level has one key for all.
    pub tenant: &'a TenantId,
    /// Where it goes: together with the tenant the key of the route level, and alone that of the route's shape.
    pub route: RouteKey,
    /// What the fleet's and the tenant's buckets and quotas are charged, in tokens.
    pub cost: u32,
    /// The levels to pass.
    pub levels: &'a Levels,
    /// What decides where the store is away.
    pub on_store_failure: OnStoreFailure,
}

/// A demand that outlives the request's own, for a store that has to be asked.
#[derive(Debug, Clone, Copy)]
pub struct OwnedDemand {
    tenant: TenantId,
    route: RouteKey,
    cost: u32,
    levels: Levels,
    on_store_failure: OnStoreFailure,
}

impl<'a> Demand<'a> {
    /// A demand on no route in particular.
    pub fn new(tenant: &'a TenantId, cost: u32, levels: &'a Levels) -> Self {
        let (route, on_store_failure) = (RouteKey::default(), OnStoreFailure::default());
        Self { tenant, route, cost, levels, on_store_failure }
    }

    /// What `level` is charged: a route counts requests, every other level the cost.
    #[inline]
    pub fn cost_at(&self, level: Level) -> u32 {
        if level == Level::Route { 1 } else { self.cost }
    }

    /// The same, to be kept.
    pub fn owned(&self) -> OwnedDemand {
        let Self { tenant, route, cost, levels, on_store_failure } = *self;
        OwnedDemand { tenant: *tenant, route, cost, levels: *levels, on_store_failure }
    }

    /// Whether `policy` could ever let this pass, and else what never will.
    #[inline]
    pub(crate) fn could_pass(&self, policy: &LevelPolicy) -> Result<(), Limited> {
        let cost = u64::from(self.cost_at(policy.level));
        if policy.bucket.is_some_and(|bucket| cost > bucket.capacity()) {
            return Err(Limited::Rate);
        }
        match !policy.windows.is_empty() && policy.windows.iter().any(|window| cost > window.limit()) {
            true => Err(Limited::Quota),
            false => Ok(()),
        }
    }
}

impl OwnedDemand {
    /// The demand.
    pub fn lend(&self) -> Demand<'_> {
        let Self { tenant, route, cost, levels, on_store_failure } = self;
        Demand { tenant, route: *route, cost: *cost, levels, on_store_failure: *on_store_failure }
    }
}

impl fmt::Display for RouteKey {
    /// 16 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
