//! What a request asks the compartments for. It knows no counts.

use cofferdam_model::TenantId;
use tokio::time::Instant;

use crate::caps::CapsOf;

/// A request for a place.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// The class's index (see [`Indices`](crate::Indices)).
    pub class: usize,
    /// Whose request it is.
    pub tenant: &'a TenantId,
    /// The tenant's part of what comes free while others wait too, beside theirs: 1 to [`MAX_WEIGHT`](Self::MAX_WEIGHT);
    /// what is outside counts as the nearest. The last claim's counts for all of the tenant's that wait in the class.
    pub weight: u32,
    /// The caps that the request is under.
    pub caps: CapsOf,
    /// When the request is of no use any more: it waits a quarter of the time until then at most.
    pub deadline: Option<Instant>,
}

impl<'a> Claim<'a> {
    /// The largest weight.
    pub const MAX_WEIGHT: u32 = 1000;

    /// A claim of weight 1, under no caps and without a deadline.
    pub fn new(class: usize, tenant: &'a TenantId) -> Self {
        Self { class, tenant, weight: 1, caps: CapsOf::NONE, deadline: None }
    }
}
