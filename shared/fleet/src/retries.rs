//! `retry_budget`: how many requests routers may try again after those may have been executed.

use cofferdam_model::Rate;

use crate::Share;
use crate::node::Fields;

/// The budgets for retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// Of all tenants together, in each router; a fifth of the requests, and 10/s.
    pub all: RetryShare,
    /// Of each tenant; a fifth of its requests, and 2/s.
    pub tenant: RetryShare,
}

/// How many retries there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryShare {
    /// For each request of the last ten seconds.
    pub ratio: Share,
    /// However few requests there are; ten seconds' worth may be used at once.
    pub floor: Rate,
}

impl RetryBudget {
    /// What is not given has its default.
    pub(crate) fn read(root: &Fields<'_>) -> Option<Self> {
        let ratio = Share::from_millionths(200_000);
        let mut all = RetryShare { ratio, floor: Rate::per_second(10)? };
        let mut tenant = RetryShare { ratio, floor: Rate::per_second(2)? };
        if let Some(section) = root.get("retry_budget") {
            let fields = section.fields(&["ratio", "floor", "tenant_ratio", "tenant_floor"]);
            all.ratio = fields.scalar("ratio").unwrap_or(all.ratio);
            all.floor = fields.scalar("floor").unwrap_or(all.floor);
            tenant.ratio = fields.scalar("tenant_ratio").unwrap_or(tenant.ratio);
            tenant.floor = fields.scalar("tenant_floor").unwrap_or(tenant.floor);
        }
        Some(Self { all, tenant })
    }
}
