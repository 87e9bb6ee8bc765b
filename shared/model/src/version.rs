//! Which fleet file a process runs on: the fleet's name, the file's revision, and a digest of the table made from it.

use std::fmt;

use crate::cell::name;

name! {
    /// The fleet's name: in store keys, metrics and headers.
    FleetName
}

/// The fleet file's revision, which only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

/// XXH3-64 over a placement table's bytes: equal digests mean equal tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
