//! Simulated tenants on a table: what two of them share, how many bad ones hurt the others, and how load falls on cells.
//! Their ids are all the chance that there is, so a seed means the same tenants on every machine. Counts alone; what they
//! are estimates of is in [`Odds`](crate::Odds) and [`blast`](crate::blast).

use std::io::Write;

use cofferdam_model::{Alphabet, Shard, TenantId};

use crate::placement::Placement;

/// How many tenants go by before whoever watches hears of them: about a millisecond's.
const TOLD_EVERY: u64 = 1 << 14;

/// Trials of one kind. Each has tenants of its own, with as many cells as usual, placed by their slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simulation {
    /// Tenants of a trial, those that are bad included.
    pub tenants: u64,
    /// How many of them are bad.
    pub bad: u64,
    /// Chooses the tenants.
    pub seed: u64,
}

/// What one trial came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Of the trial's tenants taken two by two: how many twos share exactly 0, 1, ... cells.
    pub overlap: Vec<u64>,
    /// Tenants that are not bad, and have no cell that a bad one does not have too.
    pub fully_covered: u64,
    /// Those that share some of their cells with bad ones, and have others left.
    pub partly_covered: u64,
    /// Those that share none.
    pub untouched: u64,
    /// Tenants whose home it is, by [`CellIndex`](cofferdam_model::CellIndex).
    pub homes: Vec<u64>,
    /// Tenants that have it, by [`CellIndex`](cofferdam_model::CellIndex).
    pub inclusion: Vec<u64>,
}

impl Simulation {
    /// Runs the trial of this number. The first tenants are the bad ones: ids are hashed, so that no other choice is more
    /// of one.
    pub fn trial(&self, placement: &Placement, number: u64) -> Trial {
        self.watched_trial(placement, number, |_| {})
    }

    /// The same for who watches: `went_on` hears of so many tenants more, now and then, and in the end of all of them.
    pub fn watched_trial(&self, placement: &Placement, number: u64, mut went_on: impl FnMut(u64)) -> Trial {
        let (n_cells, size) = (placement.cells().len(), placement.shard_size());
        let mut trial = Trial {
            overlap: vec![0; size + 1],
            fully_covered: 0,
            partly_covered: 0,
            untouched: 0,
            homes: vec![0; n_cells],
            inclusion: vec![0; n_cells],
        };
        let mut is_hit = vec![false; n_cells];
        let mut names = Names::new(self.seed, number);
        let mut first_of_two: Option<Shard<'_>> = None;
        for tenant in 0..self.tenants {
            if tenant % TOLD_EVERY == TOLD_EVERY - 1 {
                went_on(TOLD_EVERY);
            }
            let shard = placement.shard_of_slot(placement.slot_of(&names.tenant(tenant)));
            trial.homes[shard.cells()[0].get()] += 1;
            shard.cells().iter().for_each(|cell| trial.inclusion[cell.get()] += 1);
            match first_of_two.take() {
                Some(first) => trial.overlap[first.n_shared(shard)] += 1,
                None => first_of_two = Some(shard),
            }
            if tenant < self.bad {
                shard.cells().iter().for_each(|cell| is_hit[cell.get()] = true);
                continue;
            }
            match shard.cells().iter().filter(|cell| is_hit[cell.get()]).count() {
                0 => trial.untouched += 1,
                hit if hit == size => trial.fully_covered += 1,
                _ => trial.partly_covered += 1,
            }
        }
        went_on(self.tenants % TOLD_EVERY);
        trial
    }
}

/// The ids of a trial's tenants: seed, trial and number.
struct Names {
    alphabet: Alphabet,
    text: Vec<u8>,
    /// How much of the text all have in common.
    prefix: usize,
}

impl Names {
    fn new(seed: u64, trial: u64) -> Self {
        let text = format!("{seed}-{trial}-").into_bytes();
        Self { alphabet: Alphabet::default(), prefix: text.len(), text }
    }

    /// Three numbers of at most 20 digits, with two dashes: never longer than an id may be.
    fn tenant(&mut self, number: u64) -> TenantId {
        self.text.truncate(self.prefix);
        let written = write!(self.text, "{number}");
        debug_assert!(written.is_ok(), "a vector takes all bytes");
        match TenantId::parse(&self.text, &self.alphabet) {
            Ok(tenant) => tenant,
            Err(error) => unreachable!("digits and dashes are no tenant: {error}"),
        }
    }
}
