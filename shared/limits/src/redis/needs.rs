//! What memory lacks for a request: who has to be asked, and for what.

use cofferdam_model::{Level, Limited};

use crate::Refusal;
use crate::refusal::Refused;

/// Which subjects have to be asked, and for what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) tenant: bool,
    pub(super) ceiling: bool,
    /// The narrowest limit of which there was too little.
    pub(super) short: Option<(Level, Limited)>,
}

/// Why memory does not admit a demand.
#[derive(Debug)]
pub(super) enum Short {
    /// The store said no, and that still holds.
    Refused(Refusal),
    /// These have to be asked.
    Ask(Needs),
}

/// Why levels are not taken from memory.
#[derive(Debug)]
pub(super) enum Lack {
    /// The store said no, and that still holds.
    Refused(Refused),
    /// These have to be asked.
    Ask(Needs),
}

impl Needs {
    /// Adds a level that is short of something; levels come from narrow to wide.
    pub(super) fn add(&mut self, level: Level, limited: Limited) {
        self.short.get_or_insert((level, limited));
        match level {
            Level::Fleet => self.ceiling = true,
            Level::Tenant | Level::Route => self.tenant = true,
        }
    }

    pub(super) fn any(self) -> bool {
        self.tenant || self.ceiling
    }
}
