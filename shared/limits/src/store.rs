//! `LimitStore`: where the state of the limits lives. The engine knows nothing else about a store, and a store knows
//! nothing of budgets.

use std::pin::Pin;

use cofferdam_model::TenantId;

use crate::{Demand, Grant, LevelPolicy, Refusal, RouteKey, Standing, StoreMetrics};

/// The state of every level and key. All levels of a demand are taken or none, and a denial changes nothing.
pub trait LimitStore: Send + Sync {
    /// Decides from memory, without waiting; or says that it has to be asked. What is taken is put into `grant`, which is
    /// empty, and stays so unless the demand is admitted.
    fn admit(&self, demand: &Demand<'_>, grant: &mut Grant) -> Answer;

    /// Decides without the store, which was late or answered with an error, as `demand.on_store_failure` says. It is
    /// never taken for "limit exceeded". What is taken is put into `grant`, as by [`LimitStore::admit`].
    fn fall_back(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal>;

    /// Where `policy`'s level stands for `tenant`, on `route` if it is the route level, as far as memory knows. Changes
    /// nothing and makes no key.
    fn look(&self, tenant: &TenantId, route: RouteKey, policy: &LevelPolicy) -> Standing;

    /// What it holds, and how full its table of tenants is.
    fn metrics(&self) -> StoreMetrics;
}

/// What a store says at once.
pub enum Answer {
    /// Everything was taken, and is in the grant.
    Admitted,
    /// Nothing was taken.
    Refused(Refusal),
    /// Memory does not know.
    Ask(Asking),
}

/// A question on its way. Whoever loses interest drops it; what is granted afterwards gives itself back, because nobody
/// makes a permit of the [`Grant`].
pub type Asking = Pin<Box<dyn Future<Output = Result<Decision, StoreError>> + Send>>;

/// What a store says in the end.
#[derive(Debug)]
pub enum Decision {
    /// Everything was taken.
    Admitted(Grant),
    /// Nothing was taken.
    Refused(Refusal),
}

/// The store could not decide. It is never taken for "limit exceeded".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store is gone, or closed the connection under the question.
    #[error("the limit store went away before it answered")]
    Gone,
}
