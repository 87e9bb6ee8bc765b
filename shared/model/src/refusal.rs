//! Why a request is refused: closed sets, so that callers, metrics and tests can name every one.

use std::fmt;

/// The level of the fleet-wide limits that refused, from wide to narrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The whole fleet's ceiling.
    Fleet,
    /// The tenant's plan.
    Tenant,
    /// The tenant's own on one route, and the route's shape, which all tenants share.
    Route,
}

/// What a level refused by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limited {
    /// How fast: the token bucket.
    Rate,
    /// How many at once: the permits.
    Concurrency,
    /// How many in a day or a month: the sliding windows.
    Quota,
    /// The line of a route that is let through evenly has no room: the route's affair, not the tenant's.
    Shape,
    /// Nothing was exceeded: the store is away, and the policy is to refuse then.
    Store,
}

/// Why an agent refused. Only [`CellReason::Cell`] may move a request to the other cell of its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellReason {
    /// The tenant holds its share of the class: its own doing, 429.
    Tenant,
    /// The class is full, 503.
    Class,
    /// The whole cell is full, draining, or its backend is gone, 503.
    Cell,
}

/// What made an agent refuse. [`CellReason`] says how far a refusal reaches, and this says what to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum RefusalCause {
    /// No permit is free. Agents that say no cause mean this one.
    #[default]
    Full,
    /// The cap of a route or a dependency is reached.
    Cap,
    /// The backend takes no connection.
    BackendUnreachable,
    /// The breaker of the backend, or of a dependency, is open.
    BreakerOpen,
    /// The agent drains.
    Draining,
}

/// An agent's refusal: how far it reaches, and what made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellRefusal {
    /// How far it reaches.
    pub reason: CellReason,
    /// What made it.
    pub cause: RefusalCause,
}

impl Level {
    /// Every level, wide to narrow.
    pub const ALL: [Self; 3] = [Self::Fleet, Self::Tenant, Self::Route];

    /// The level's word in metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fleet => "fleet",
            Self::Tenant => "tenant",
            Self::Route => "route",
        }
    }
}

impl Limited {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Rate, Self::Concurrency, Self::Quota, Self::Shape, Self::Store];

    /// The limit's word in metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Concurrency => "concurrency",
            Self::Quota => "quota",
            Self::Shape => "shape",
            Self::Store => "store",
        }
    }
}

impl CellReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Tenant, Self::Class, Self::Cell];

    /// The reason's word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Class => "class",
            Self::Cell => "cell",
        }
    }

    /// Reads a reason off the wire; anything unknown is `None`.
    pub fn from_wire(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == bytes)
    }
}

impl RefusalCause {
    /// Every cause.
    pub const ALL: [Self; 5] =
        [Self::Full, Self::Cap, Self::BackendUnreachable, Self::BreakerOpen, Self::Draining];

    /// The cause's word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Cap => "cap",
            Self::BackendUnreachable => "backend_unreachable",
            Self::BreakerOpen => "breaker_open",
            Self::Draining => "draining",
        }
    }

    /// Reads a cause off the wire. A newer agent's unknown word counts as none.
    pub fn from_wire(bytes: &[u8]) -> Self {
        Self::ALL.into_iter().find(|cause| cause.as_str().as_bytes() == bytes).unwrap_or_default()
    }
}

impl CellRefusal {
    /// A refusal for want of a permit.
    pub const fn full(reason: CellReason) -> Self {
        Self { reason, cause: RefusalCause::Full }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for CellReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
