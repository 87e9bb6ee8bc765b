//! A snapshot: everything that one request needs of one fleet file, made once and swapped atomically.
//!
//! fleet file -> as written -> as checked -> snapshot. A file that makes no snapshot changes nothing.

use std::sync::Arc;

use cofferdam_fleet::{self as fleet, Class, Fleet, Pin, SuccessionError};
use cofferdam_model::{CellId, Digest, FleetName, Revision, Saturation, Shard, TenantId, headers};
use cofferdam_placement::gate::Refusal;
use cofferdam_placement::{CellSpec, Inclusion, Placed, Placement, PlacementError, Reason, Slots, Spec};
use cofferdam_proxy::lines::FieldLines;
use cofferdam_proxy::via::Via;
use http::header::InvalidHeaderValue;

use crate::accepted::{Accepted, Recorded};
use crate::cells::{Cell, Directory, Losses, RetryBudget, shed_bounds};
use crate::drains::Drains;
use crate::edge::Edge;
use crate::gate::{self, Judged, Refusals};
use crate::limits::{LimitsError, PlanLimits, RouteLimits};
use crate::waves::Wave;

/// One fleet file, ready for requests.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) fleet: Fleet,
    pub(crate) placement: Placement,
    /// Where changed slots are released in waves: which still wait.
    pub(crate) wave: Option<Arc<Wave>>,
    /// Where cells drain: who still belongs to them.
    pub(crate) drains: Option<Drains>,
    /// What is done with fields of requests.
    pub(crate) edge: Edge,
    /// By `PlanIndex`.
    pub(crate) plans: Vec<PlanLimits>,
    /// By `RouteIndex`.
    pub(crate) routes: Vec<RouteLimits>,
    /// By `CellIndex`.
    pub(crate) cells: Vec<Arc<Cell>>,
    /// Who was there when cells were lost, kept over snapshots.
    pub(crate) losses: Arc<Losses>,
    /// How much may be tried again, kept over snapshots.
    pub(crate) retries: Arc<RetryBudget>,
    /// By `ClassIndex`: from how full on it is shed.
    pub(crate) shed_bounds: Vec<Option<Saturation>>,
    /// By `ClassIndex`: what every hop to an agent says of its class and of this snapshot.
    pub(crate) hops: Vec<FieldLines>,
    /// The name by which this fleet's routers know their own Via: two fleets in a row are no loop.
    pub(crate) via: Via,
    /// Set where this revision's change was refused, and the file forced it.
    pub(crate) forced: Option<Forced>,
}

/// How a change that was refused came to run.
#[derive(Debug, Clone)]
pub(crate) struct Forced {
    /// The file's own words.
    pub(crate) reason: Box<str>,
    pub(crate) refused: Refusals,
}

/// Why a fleet file does not replace the one that runs.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is another fleet's, or older.
    #[error(transparent)]
    Succession(#[from] SuccessionError),
    /// The revision stayed, and the placement did not.
    #[error(
        "revision {revision} runs with digest {running} already, and this file has {new}: raise the revision"
    )]
    SameRevision {
        /// Both files'.
        revision: Revision,
        /// The new table's digest.
        new: Digest,
        /// The running table's digest.
        running: Digest,
    },
    /// The publish gate refuses the change.
    #[error("the change is refused: {0}; `placement.force` with a reason takes it all the same")]
    Gate(Refusals),
    /// What was accepted before is another fleet's.
    #[error("fleet {new} is not {accepted}, of which this router keeps what was accepted last")]
    OtherFleetAccepted {
        /// The file's.
        new: FleetName,
        /// What is kept.
        accepted: String,
    },
    /// A higher revision was accepted, here before or by another router.
    #[error("revision {new} is below {accepted}, which was accepted already")]
    NewerAccepted {
        /// The file's.
        new: Revision,
        /// The highest that was accepted.
        accepted: u64,
    },
    /// Another router has accepted the revision with another placement.
    #[error(
        "revision {revision} was accepted with digest {accepted} by another router, and this file has {new}: raise the revision"
    )]
    AcceptedOtherwise {
        /// Both files'.
        revision: Revision,
        /// The new table's digest.
        new: Digest,
        /// The accepted table's.
        accepted: String,
    },
    /// Slots still wait for their turn.
    #[error(
        "the change before is still being released ({n_loose} of {n_slots} slots so far): wait for it, go back to the file before, \
         or force this one, which takes all at once"
    )]
    Releasing {
        /// How many have had their turn.
        n_loose: u32,
        /// How many change.
        n_slots: u32,
    },
    /// Nobody counts how far a release is.
    #[error("placement.movement_budget needs a store that all routers share, or limits.routers: 1")]
    BudgetNeedsStore,
    /// No table can be made.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The fleet's name cannot stand in a header.
    #[error("fleet name cannot stand in a header")]
    Name(#[from] InvalidHeaderValue),
    /// A plan, a route or the ceiling is not exact.
    #[error("{0}")]
    Limits(String),
}

impl From<LimitsError> for ReloadError {
    fn from(error: LimitsError) -> Self {
        Self::Limits(error.to_string())
    }
}

impl Snapshot {
    /// Makes a snapshot. Cells that `directory` knows keep what is known about them.
    pub(crate) fn build(fleet: Fleet, directory: &Directory) -> Result<Self, ReloadError> {
        let placement = Placement::build(&placement_spec(&fleet))?;
        Self::of(fleet, placement, directory)
    }

    /// The same, out of the placement that runs: a table in which little changes is made in little time.
    pub(crate) fn build_after(
        fleet: Fleet,
        directory: &Directory,
        running: &Placement,
    ) -> Result<Self, ReloadError> {
        let placement = Placement::build_after(&placement_spec(&fleet), running)?;
        Self::of(fleet, placement, directory)
    }

    fn of(fleet: Fleet, placement: Placement, directory: &Directory) -> Result<Self, ReloadError> {
        let plans = fleet.plans.iter().map(|plan| PlanLimits::new(plan, &fleet)).collect::<Result<_, _>>()?;
        let routes = fleet.routes.as_slice().iter();
        let routes = routes.map(|route| RouteLimits::new(route, &fleet)).collect::<Result<_, _>>()?;
        let cells = directory.adopt(&fleet.cells);
        let via = Via::new(&format!("cofferdam-{}", fleet.name))?;
        let hop = |class: &Class| hop(class, fleet.revision, placement.digest());
        let hops = fleet.cell.classes.iter().map(hop).collect();
        let (drains, edge) = (Drains::of(&fleet), Edge::of(&fleet));
        let shed_bounds = shed_bounds(&fleet.cell.classes);
        let (losses, retries) = (Arc::clone(&directory.losses), Arc::clone(&directory.retries));
        Ok(Self {
            fleet,
            placement,
            wave: None,
            drains,
            edge,
            plans,
            routes,
            cells,
            losses,
            retries,
            shed_bounds,
            hops,
            via,
            forced: None,
        })
    }

    /// Whether this snapshot may follow `running`, and whether only because its file says so.
    pub(crate) fn may_follow(&self, running: &Self) -> Result<Option<Forced>, ReloadError> {
        self.fleet.may_follow(&running.fleet)?;
        self.follows_table(
            running.fleet.revision,
            running.placement.digest(),
            Some(&running.placement),
            running.fleet.placement.force.as_deref(),
        )
    }

    /// The same for what was accepted before this process began; `old` is its placement, where the map has the same seed.
    pub(crate) fn may_follow_accepted(
        &self,
        before: &Accepted,
        old: Option<&Placement>,
    ) -> Result<Option<Forced>, ReloadError> {
        let revision = Revision(before.revision);
        if before.fleet != self.fleet.name.as_str() {
            let (new, accepted) = (self.fleet.name.clone(), before.fleet.clone());
            return Err(ReloadError::OtherFleetAccepted { new, accepted });
        }
        if self.fleet.revision < revision {
            return Err(ReloadError::NewerAccepted { new: self.fleet.revision, accepted: before.revision });
        }
        let digest = Digest(u64::from_str_radix(&before.placement.digest, 16).unwrap_or_default());
        self.follows_table(revision, digest, old, before.force.as_deref())
    }

    /// Whether the table may follow another one, at whose revision it had a digest.
    fn follows_table(
        &self,
        revision: Revision,
        running: Digest,
        old: Option<&Placement>,
        forced_before: Option<&str>,
    ) -> Result<Option<Forced>, ReloadError> {
        let new = self.placement.digest();
        if self.fleet.revision == revision && new != running {
            return Err(ReloadError::SameRevision { revision, new, running });
        }
        let (refused, force) = match old {
            _ if new == running => return Ok(None),
            Some(old) => {
                let judged = Judged::new(old, forced_before, &self.fleet, &self.placement);
                (judged.refused, judged.force)
            }
            None => (Refusals(vec![Refusal::Seed]), gate::force(&self.fleet, forced_before)),
        };
        match force {
            _ if refused.0.is_empty() => Ok(None),
            Some(reason) => Ok(Some(Forced { reason, refused })),
            None => Err(ReloadError::Gate(refused)),
        }
    }

    /// The names of a shard's cells, home first.
    pub(crate) fn ids(&self, shard: Shard<'_>) -> impl Iterator<Item = &CellId> {
        shard.cells().iter().map(|cell| &self.cells[cell.get()].id)
    }

    /// What is kept of its placement.
    pub(crate) fn recorded(&self) -> Recorded {
        Recorded::new(&placement_spec(&self.fleet), self.placement.digest())
    }

    /// What is kept of it once it is accepted.
    pub(crate) fn accepted(&self) -> Accepted {
        Accepted {
            fleet: self.fleet.name.to_string(),
            revision: self.fleet.revision.0,
            placement: self.recorded(),
            force: self.fleet.placement.force.clone(),
            from: self.wave.as_ref().map(|wave| wave.from.clone()),
        }
    }

    /// Which cells the tenant has: those of its slot before, while that waits for its turn.
    #[inline]
    pub(crate) fn place(&self, tenant: &TenantId) -> Placed<'_> {
        let placed = self.placement.place(tenant);
        match &self.wave {
            Some(wave) if placed.reason == Reason::Slot => {
                let shard = wave.before(placed.slot, placed.shard.cells().len()).unwrap_or(placed.shard);
                Placed { shard, ..placed }
            }
            _ => placed,
        }
    }

    /// Whether the tenant was `placed` where its slot was before, which waits for its turn. A pin or a quarantine waits for nothing,
    /// and nor does who has the same cells before and after.
    pub(crate) fn waits(&self, tenant: &TenantId, placed: &Placed<'_>) -> bool {
        let may_wait = self.wave.is_some() && placed.reason == Reason::Slot;
        may_wait && placed.shard != self.placement.place(tenant).shard
    }
}

fn hop(class: &Class, revision: Revision, digest: Digest) -> FieldLines {
    let mut lines = FieldLines::default();
    lines.push_text(&headers::CLASS, class.name.as_str());
    lines.push_number(&headers::REVISION, revision.0);
    lines.push_text(&headers::DIGEST, digest.to_string());
    lines
}

/// What placement needs of a fleet.
pub fn placement_spec(fleet: &Fleet) -> Spec {
    let cells = fleet.cells.iter().map(|cell| CellSpec {
        id: cell.id.clone(),
        zone: cell.zone.clone(),
        weight: cell.weight,
        state: cell.state,
    });
    let (rules, tenant) = (&fleet.placement, &fleet.tenant);
    let named = |pins: &[Pin]| {
        let cells = |pin: &Pin| pin.cells.iter().map(|cell| fleet.cells[cell.get()].id.clone()).collect();
        pins.iter().map(|pin| (pin.tenant, cells(pin))).collect()
    };
    let size = |plan| usize::from(fleet.shard_size(plan));
    Spec {
        seed: rules.seed,
        // The fleet file has only the counts that exist.
        slots: Slots::from_count(u64::from(rules.slots)).unwrap_or_default(),
        cells: cells.collect(),
        inclusion: match rules.inclusion {
            fleet::Inclusion::Weight => Inclusion::Weight,
            fleet::Inclusion::Proportional => Inclusion::Proportional,
        },
        shard_size: size(tenant.unknown),
        sizes: tenant.plan_of.iter().map(|(tenant, plan)| (*tenant, size(Some(*plan)))).collect(),
        pins: named(&rules.pins),
        quarantine: named(&rules.quarantine),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn snapshot(revision: u64, seed: u64, sustained: &str) -> Snapshot {
        let text = format!(
            "fleet: f\nrevision: {revision}\nplacement: {{ seed: {seed} }}\n\
             plans: {{ only: {{ sustained: {sustained}, burst: 100, max_in_flight: 10 }} }}\n\
             tenant: {{ unknown: only }}\n\
             cells:\n  - {{ id: a, url: \"http://127.0.0.1:1\" }}\n  - {{ id: b, url: \"http://127.0.0.1:2\" }}\n"
        );
        let fleet = Fleet::parse(&text, Path::new(".")).unwrap().fleet;
        Snapshot::build(fleet, &Directory::default()).unwrap()
    }

    #[test]
    fn a_revision_never_goes_back_and_never_stands_for_two_tables() {
        let running = snapshot(5, 0, "20/s");
        assert!(snapshot(6, 0, "40/s").may_follow(&running).is_ok());
        assert!(matches!(snapshot(6, 1, "20/s").may_follow(&running), Err(ReloadError::Gate(_))));
        assert!(snapshot(5, 0, "40/s").may_follow(&running).is_ok(), "the table is the same");
        assert!(matches!(
            snapshot(4, 0, "20/s").may_follow(&running),
            Err(ReloadError::Succession(SuccessionError::OlderRevision { .. }))
        ));
        assert!(matches!(snapshot(5, 1, "20/s").may_follow(&running), Err(ReloadError::SameRevision { .. })));
    }
}
