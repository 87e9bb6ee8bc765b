//! Cells that are named for a tenant, by a pin or a quarantine: whether the fleet has them for that.

use std::collections::BTreeMap;

use cofferdam_model::{CellId, CellIndex, CellState, TenantId};

use crate::by_tenant::ByTenant;
use crate::placement::Placement;
use crate::reason::Reason;
use crate::spec::{MAX_SHARD_SIZE, PlacementError};

impl Placement {
    /// The shard that a pin or a quarantine of `tenant` gives it by naming cells, home first.
    ///
    /// # Errors
    ///
    /// Refuses unknown cells, those that are there for something else, one that is named twice, and a number of cells
    /// that is not possible: a pin has as many as the tenant's shard has by its slot.
    pub fn named(
        &self,
        of: Reason,
        tenant: &TenantId,
        names: &[CellId],
    ) -> Result<Box<[CellIndex]>, PlacementError> {
        let (cells, size) = (names.len(), self.size_of(tenant));
        let is_quarantine = of == Reason::Quarantine;
        if is_quarantine && !(1..=MAX_SHARD_SIZE).contains(&cells) {
            return Err(PlacementError::QuarantineLength { tenant: *tenant, cells });
        }
        if !is_quarantine && cells != size {
            return Err(PlacementError::PinLength { tenant: *tenant, cells, size });
        }
        self.named_where(of, tenant, names, |_, state| of.may_name(state))
    }

    /// The same for any number of cells, of which those count that `may` be named, by what they are there for.
    ///
    /// # Errors
    ///
    /// Refuses unknown cells, those that may not be named, and one that is named twice.
    pub fn named_where(
        &self,
        of: Reason,
        tenant: &TenantId,
        names: &[CellId],
        mut may: impl FnMut(CellIndex, CellState) -> bool,
    ) -> Result<Box<[CellIndex]>, PlacementError> {
        let tenant = *tenant;
        let mut shard = Vec::with_capacity(names.len());
        for name in names {
            let cell = || name.clone();
            let Some(index) = self.index_of(name) else {
                return Err(PlacementError::NamesUnknownCell { of, tenant, cell: cell() });
            };
            let state = self.state_of(index);
            if !may(index, state) {
                return Err(PlacementError::NamesCellInState { of, tenant, cell: cell(), state });
            }
            if shard.contains(&index) {
                return Err(PlacementError::NamesCellTwice { of, tenant, cell: cell() });
            }
            shard.push(index);
        }
        Ok(shard.into())
    }

    /// Those that a spec names, by tenant.
    pub(crate) fn named_by_tenant(
        &self,
        of: Reason,
        named: &BTreeMap<TenantId, Vec<CellId>>,
    ) -> Result<ByTenant<Box<[CellIndex]>>, PlacementError> {
        let shard = |(tenant, names): (&TenantId, &Vec<CellId>)| {
            Ok((self.slot_of(tenant), *tenant, self.named(of, tenant, names)?))
        };
        named.iter().map(shard).collect::<Result<_, _>>().map(ByTenant::new)
    }
}
