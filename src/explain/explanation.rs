//! What is known of a tenant, wherever it comes from. It judges nothing.

use serde::Serialize;
use serde_json::Value;

/// Everything that is known of a tenant, as the admin listener says it; what is not known is null.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    /// `GET /tenants/{tenant}`.
    pub(super) placement: Value,
    /// `GET /tenants/{tenant}/limits`; null where it has no plan.
    pub(super) limits: Value,
    /// `GET /fleet`.
    pub(super) fleet: Value,
    /// `release` of `GET /placement/release`; null where the tenant waits for none.
    pub(super) release: Value,
    /// What is wrong with it, worst first.
    pub(super) findings: Vec<String>,
}
