//! Whether a change of the fleet may be published: placement's gate, and the fleet file's own word against it. It
//! changes nothing.

use std::fmt;

use cofferdam_fleet::Fleet;
use cofferdam_placement::gate::{Refusal, judge};
use cofferdam_placement::{Comparison, Placement};

/// How many refusals are told in one message; a bound on inclusion may be beyond every cell of a fleet.
const MOST_TOLD: usize = 5;

/// What came of comparing a fleet with the one before.
#[derive(Debug, Clone)]
pub struct Judged {
    /// What moves.
    pub comparison: Comparison,
    /// Why the change is refused; empty where it is not.
    pub refused: Refusals,
    /// Why the new file is to be taken all the same, if it says so by itself.
    pub force: Option<Box<str>>,
}

/// All that is wrong with a change, as one message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals(pub Vec<Refusal>);

impl Judged {
    /// Compares a fleet and its placement with the placement before, and with what that one was forced by.
    pub fn new(old: &Placement, forced_before: Option<&str>, fleet: &Fleet, new: &Placement) -> Self {
        let comparison = Comparison::new(old, new);
        let most = fleet.placement.max_inclusion.map(|share| share.of(comparison.slots));
        let refused = Refusals(judge(&comparison, most));
        Self { comparison, refused, force: force(fleet, forced_before) }
    }
}

/// Why `fleet` forces its change, if it does. Where the same words were there before, they were meant for that change.
pub(crate) fn force(fleet: &Fleet, forced_before: Option<&str>) -> Option<Box<str>> {
    fleet.placement.force.clone().filter(|force| Some(&**force) != forced_before)
}

impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, refusal) in self.0.iter().take(MOST_TOLD).enumerate() {
            write!(f, "{}{refusal}", if at == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(MOST_TOLD) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
