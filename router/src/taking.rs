//! How a fleet file comes to run: made ready, compared with the one before, and agreed on with the other routers. What runs is not
//! touched here.

use std::sync::Arc;

use cofferdam_fleet::Fleet;
use cofferdam_placement::Placement;

use crate::accepted::{Accepted, Offered, Origin, Recorded};
use crate::before::Before;
use crate::cells::Directory;
use crate::snapshot::{Forced, ReloadError, Snapshot};
use crate::waves::Wave;

/// A fleet file that may run.
#[derive(Debug)]
pub(crate) struct Taking {
    pub(crate) snapshot: Snapshot,
    /// What is kept of it.
    pub(crate) accepted: Accepted,
    /// Set where its change was refused, and it forces it.
    pub(crate) forced: Option<Forced>,
    /// Whether its table runs here already.
    runs_already: bool,
}

/// What came before, as far as a release is concerned.
struct Old<'a> {
    placement: Option<&'a Placement>,
    recorded: Recorded,
    /// Of a release that is not over: what it leads away from, and how far it is.
    unfinished: Option<(&'a Origin, u32, u32)>,
}

/// The first file of a process, behind what was accepted before it, if anything was. `can_release`: whether there is somebody to
/// count how far a release is.
pub(crate) fn first(
    fleet: Fleet,
    directory: &Directory,
    before: Before,
    can_release: bool,
) -> Result<Taking, ReloadError> {
    let mut snapshot = Snapshot::build(fleet, directory)?;
    let Before { accepted: before, releases } = before;
    let Some(before) = before else {
        tracing::info!(revision = %snapshot.fleet.revision, "first fleet file: there is none to compare it with");
        return Ok(Taking::new(snapshot, None, false));
    };
    let seed = snapshot.fleet.placement.seed;
    let old = before.placement.build(seed);
    let forced = snapshot.may_follow_accepted(&before, old.as_ref())?;
    if before.placement.digest == snapshot.placement.digest().to_string() {
        let from = before.from.filter(|_| snapshot.fleet.placement.movement_budget.is_some());
        snapshot.wave = from.and_then(|from| wave_from(from, &snapshot));
        // What was let loose stays so from the first request on.
        if let Some(wave) = &snapshot.wave {
            let known = releases.iter().filter(|(name, _)| *name == wave.name);
            known.for_each(|(_, progress)| wave.advance(*progress));
        }
    } else {
        let unfinished = before.from.as_ref().map(|from| (from, 0, 0));
        let old = Old { placement: old.as_ref(), recorded: before.placement, unfinished };
        snapshot.wave = new_wave(&snapshot, old, forced.is_some(), can_release)?;
    }
    tracing::info!(revision = %snapshot.fleet.revision, before = before.revision, "the fleet file follows the one accepted before");
    Ok(Taking::new(snapshot, forced, false))
}

/// The next file of a process. `theirs` is what the fleet's routers have accepted before it.
pub(crate) fn next(
    fleet: Fleet,
    directory: &Directory,
    running: &Snapshot,
    theirs: Option<Accepted>,
    can_release: bool,
) -> Result<Taking, ReloadError> {
    let mut snapshot = Snapshot::build_after(fleet, directory, &running.placement)?;
    let forced = snapshot.may_follow(running)?;
    let wave = running.wave.as_ref().filter(|wave| !wave.is_over());
    let (digest, runs) = (snapshot.placement.digest(), running.fleet.revision.0);
    let runs_already = digest == running.placement.digest();
    if runs_already {
        // Without a budget everything is loose at once.
        snapshot.wave = wave.filter(|_| snapshot.fleet.placement.movement_budget.is_some()).cloned();
    } else {
        let unfinished = wave.map(|wave| (&wave.from, wave.n_loose(), wave.n_slots()));
        let old = Old { placement: Some(&running.placement), recorded: running.recorded(), unfinished };
        snapshot.wave = new_wave(&snapshot, old, forced.is_some(), can_release)?;
    }
    let taking = Taking::new(snapshot, forced, runs_already);
    // Who comes late to a table goes there as the others do. An older way to the same table says nothing of this one.
    let are_there = |theirs: &Accepted| {
        let is_of_now = theirs.revision > runs || (runs_already && theirs.revision == runs);
        theirs.placement.digest == digest.to_string() && is_of_now
    };
    Ok(match theirs.filter(are_there) {
        Some(theirs) => taking.join(theirs.from),
        None => taking,
    })
}

impl Taking {
    fn new(snapshot: Snapshot, forced: Option<Forced>, runs_already: bool) -> Self {
        Self { accepted: snapshot.accepted(), snapshot, forced, runs_already }
    }

    /// Takes what the other routers have accepted into account: all release from the same. It may have to build a table.
    pub(crate) fn agree(self, offered: Offered) -> Result<Self, ReloadError> {
        let revision = self.snapshot.fleet.revision;
        match offered {
            Offered::New | Offered::Unknown => Ok(self),
            Offered::Known(theirs) => Ok(self.join(theirs.from)),
            Offered::OtherTable(accepted) => {
                let new = self.snapshot.placement.digest();
                Err(ReloadError::AcceptedOtherwise { revision, new, accepted })
            }
            Offered::Newer(accepted) => Err(ReloadError::NewerAccepted { new: revision, accepted }),
        }
    }

    /// Releases from where the others do, and where they have begun it. No slot that is loose here goes back.
    fn join(mut self, theirs: Option<Origin>) -> Self {
        let beginning =
            |from: &Option<Origin>| from.as_ref().map(|from| (from.began, from.table.digest.clone()));
        if beginning(&theirs) == beginning(&self.accepted.from) {
            return self;
        }
        let theirs = theirs.filter(|_| self.snapshot.fleet.placement.movement_budget.is_some());
        self.snapshot.wave = match (theirs, self.snapshot.wave.clone()) {
            (Some(theirs), Some(ours)) if theirs.table.digest == ours.from.table.digest => {
                Some(ours.begun_by(theirs.began))
            }
            (Some(_), _) if self.runs_already => return self,
            (Some(theirs), _) => wave_from(theirs, &self.snapshot),
            (None, _) => None,
        };
        self.accepted.from = self.snapshot.wave.as_ref().map(|wave| wave.from.clone());
        self
    }
}

/// Where a file with another table goes on from.
fn new_wave(
    new: &Snapshot,
    old: Old<'_>,
    is_forced: bool,
    can_release: bool,
) -> Result<Option<Arc<Wave>>, ReloadError> {
    if let Some((from, n_loose, n_slots)) = old.unfinished {
        // Back to where it came from: what was let loose goes back at once. Else only by force, and at once as well: a slot would
        // otherwise have a third shard to be in.
        if from.table.digest == new.placement.digest().to_string() || is_forced {
            return Ok(None);
        }
        return Err(ReloadError::Releasing { n_loose, n_slots });
    }
    if new.fleet.placement.movement_budget.is_none() {
        return Ok(None);
    }
    if !can_release && new.fleet.limits.routers != Some(1) {
        return Err(ReloadError::BudgetNeedsStore);
    }
    let from = Origin { began: new.fleet.revision.0, table: old.recorded };
    let wave = old.placement.and_then(|placement| Wave::new(from, placement, &new.placement));
    if let Some(wave) = &wave {
        tracing::info!(n_slots = wave.n_slots(), "changed slots are released in waves");
    }
    Ok(wave)
}

fn wave_from(from: Origin, new: &Snapshot) -> Option<Arc<Wave>> {
    let old = from.table.build(new.fleet.placement.seed)?;
    Wave::new(from, &old, &new.placement)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fleet(revision: u64, cells: &str, budget: &str) -> Fleet {
        let cells: String = cells
            .chars()
            .map(|id| format!("{{ id: {id}, url: 'http://10.0.0.1:{}' }}, ", id as u32))
            .collect();
        let text = format!(
            "fleet: f\nrevision: {revision}\ncells: [{cells}]\nplacement: {{ movement_budget: {budget} }}\n\
             limits: {{ routers: 1 }}\n"
        );
        Fleet::parse(&text, Path::new(".")).unwrap().fleet
    }

    #[test]
    fn what_a_store_says_of_an_older_way_to_the_same_table_ends_no_release() {
        let directory = Directory::default();
        let running = Snapshot::build(fleet(5, "abc", "1/min"), &directory).unwrap();
        let releasing = next(fleet(6, "abcd", "1/min"), &directory, &running, None, true).unwrap();
        assert!(releasing.snapshot.wave.is_some());
        // Revision 4 had the same table, and all of its slots were loose.
        let theirs = |revision| Some(Accepted { revision, from: None, ..releasing.accepted.clone() });
        let taken =
            |theirs| next(fleet(7, "abcd", "2/min"), &directory, &releasing.snapshot, theirs, true).unwrap();
        for revision in [4, 5] {
            let taking = taken(theirs(revision));
            assert!(taking.snapshot.wave.is_some() && taking.accepted.from.is_some(), "revision {revision}");
        }
        assert!(taken(theirs(6)).snapshot.wave.is_none(), "of this one, the others say that it is over");
    }
}
