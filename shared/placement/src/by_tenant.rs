//! What single tenants have of their own: looked up on each request, and free where nobody has any.

use cofferdam_model::TenantId;

/// Values by tenant. Sorted by slot, then tenant: the slot is known when one is looked for, and compares faster than an id.
pub(crate) struct ByTenant<T>(Box<[(u32, TenantId, T)]>);

impl<T> ByTenant<T> {
    /// Of slots, tenants and values in any order; each tenant is there once.
    pub(crate) fn new(mut entries: Vec<(u32, TenantId, T)>) -> Self {
        entries.sort_by_key(|(slot, tenant, _)| (*slot, *tenant));
        Self(entries.into())
    }

    /// What `tenant` has, whose slot is `slot`.
    pub(crate) fn get(&self, slot: u32, tenant: &TenantId) -> Option<&T> {
        if self.0.is_empty() {
            return None;
        }
        let found = self.0.binary_search_by(|(at, id, _)| (*at, id).cmp(&(slot, tenant)));
        found.ok().map(|at| &self.0[at].2)
    }

    /// Every tenant that has one.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&TenantId, &T)> {
        self.0.iter().map(|(_, tenant, value)| (tenant, value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
