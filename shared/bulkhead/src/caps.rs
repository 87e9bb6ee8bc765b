//! Caps beside the levels: how many requests of a route, or towards a dependency, the cell has at once. They know no
//! class and no tenant.
//!
//! A cap has no queue. Whoever waits for a class counts in its caps already, so that who waits for a dependency that
//! hangs takes no more places of a queue than the cap has, and whoever's turn comes is never stopped by a cap.

use std::fmt;
use std::sync::Arc;

/// What a cap bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CapKind {
    /// The requests of one route.
    Route,
    /// The requests towards one dependency, by whatever route.
    Dependency,
}

/// A cap's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CapName {
    /// What it bounds.
    pub kind: CapKind,
    /// The route's or the dependency's name.
    pub name: Arc<str>,
}

/// A cap as the fleet file gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapLayout {
    /// The cap's name; no two are alike.
    pub name: CapName,
    /// The most requests at once, those among them that wait for a place. One of at least the cell's places stops
    /// nobody.
    pub limit: u32,
}

/// A cap's index in the compartments. The caps of the first layout have their positions in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CapIndex(u16);

/// The caps that a request is under: at most one of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapsOf([u16; 2]);

/// A cap's counts.
#[derive(Debug)]
pub(crate) struct Cap {
    pub(crate) name: CapName,
    pub(crate) limit: u32,
    /// Places held under it.
    pub(crate) used: u32,
    /// Requests under it that wait.
    pub(crate) queued: u32,
    pub(crate) refused: u64,
    pub(crate) peak_used: u32,
    /// The change that took it out of the layout; since then it stops nobody.
    pub(crate) retired: Option<u64>,
}

/// No cap.
const NONE: u16 = u16::MAX;

impl CapKind {
    /// The kind as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Route => "route",
            Self::Dependency => "dependency",
        }
    }
}

impl fmt::Display for CapName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

impl CapIndex {
    pub(crate) fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl CapsOf {
    /// Under no cap.
    pub const NONE: Self = Self([NONE; 2]);

    /// Under the caps with these indices (see [`Indices`](crate::Indices)).
    pub fn new(route: Option<usize>, dependency: Option<usize>) -> Self {
        // A layout has fewer caps than that.
        let index = |cap: Option<usize>| cap.and_then(|cap| u16::try_from(cap).ok()).unwrap_or(NONE);
        Self([index(route), index(dependency)])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = CapIndex> {
        self.0.into_iter().filter(|&cap| cap != NONE).map(CapIndex)
    }
}

impl Default for CapsOf {
    fn default() -> Self {
        Self::NONE
    }
}

impl Cap {
    pub(crate) fn new(layout: &CapLayout) -> Self {
        let CapLayout { name, limit } = layout.clone();
        Self { name, limit, used: 0, queued: 0, refused: 0, peak_used: 0, retired: None }
    }

    /// Whether it stops a newcomer in a cell of `max` places: one that is the whole cell is no limit beside it.
    pub(crate) fn is_full(&self, max: u32) -> bool {
        self.retired.is_none() && self.limit < max && self.used + self.queued >= self.limit
    }

    /// Whether it stops a waiter, which it counts already: it does where it was lowered since.
    pub(crate) fn stops_waiter(&self, max: u32) -> bool {
        self.retired.is_none() && self.limit < max && self.used >= self.limit
    }

    pub(crate) fn occupy(&mut self) {
        self.used += 1;
        self.peak_used = self.peak_used.max(self.used);
    }

    /// Takes on what a layout says.
    pub(crate) fn change(&mut self, layout: &CapLayout) {
        (self.limit, self.retired) = (layout.limit, None);
    }

    /// Whether the index can be used for another cap, after so many changes; see the class's.
    pub(crate) fn is_vacant(&self, changes: u64) -> bool {
        self.retired.is_some_and(|retired| retired < changes) && self.used == 0 && self.queued == 0
    }
}
