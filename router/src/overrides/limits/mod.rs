//! Limits of a tenant, changed over what its plan says.

mod change;
mod fitted;
mod record;

use std::collections::HashMap;
use std::sync::Arc;

use cofferdam_model::TenantId;

pub(crate) use change::Asked;
pub(crate) use fitted::{Fitted, Overridden};
pub(crate) use record::Override;

use self::fitted::plan_of;
use super::clock::StoreClock;
use super::kept::{AlterError, Altered, Kept};
use super::said::Said;
use crate::limits::LimitsError;
use crate::snapshot::Snapshot;

/// Why limits are not overridden as was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("tenant {0} is not in this fleet")]
    UnknownTenant(TenantId),
    #[error("with the rest of the plan, {0}")]
    Limits(#[from] LimitsError),
    #[error("tenant {0} has no override")]
    Nothing(TenantId),
}

impl Said for Override {
    const KIND: &'static str = "limits";

    type Fitted = Fitted;

    fn until_ms(&self) -> u64 {
        self.until_ms
    }

    fn fit(said: &HashMap<String, Self>, snapshot: &Arc<Snapshot>, clock: &Arc<StoreClock>) -> Fitted {
        Fitted::new(said, &snapshot.fleet, clock)
    }
}

impl Kept<Override> {
    /// Puts what is asked for in the place of any override that `tenant` has. Returns it.
    pub(crate) async fn put(
        &self,
        tenant: &TenantId,
        asked: &Asked,
    ) -> Result<Override, AlterError<Refused>> {
        let snapshot = self.snapshot();
        let fleet = &snapshot.fleet;
        self.alter(tenant, |_, now_ms| {
            let said = asked.from(now_ms);
            let plan = plan_of(tenant, fleet).ok_or(Refused::UnknownTenant(*tenant))?;
            Overridden::new(&said, plan, fleet)?;
            Ok((Altered::to(Some(said.clone())), said))
        })
        .await
    }

    /// Takes the override of `tenant` away.
    pub(crate) async fn clear(&self, tenant: &TenantId) -> Result<(), AlterError<Refused>> {
        self.alter(tenant, |old, _| match old {
            Some(_) => Ok((Altered::to(None), ())),
            None => Err(Refused::Nothing(*tenant)),
        })
        .await
    }
}
