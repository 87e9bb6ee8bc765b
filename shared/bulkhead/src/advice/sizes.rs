//! What was measured of a cell, and what is advised for it. It reckons nothing.

use std::time::Duration;

use cofferdam_model::ClassName;

/// The fewest holds of a class by which its sizes are advised: a high percentile of fewer says little.
pub const MIN_SAMPLES: u64 = 1000;

/// What was measured of a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct CellUse {
    /// The cell's places.
    pub max_in_flight: u32,
    /// For how long its classes were measured.
    pub observed: Duration,
    /// Each class.
    pub classes: Vec<ClassUse>,
    /// The names of those dependencies that have a cap of their own.
    pub dependencies: Vec<String>,
}

/// What was measured of a class, and how it is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassUse {
    /// The class.
    pub name: ClassName,
    /// Its priority, as it is set.
    pub priority: u8,
    /// Its floor, as it is set.
    pub floor: u32,
    /// Its ceiling, as it is set.
    pub ceiling: u32,
    /// Its queue, as it is set.
    pub queue: u32,
    /// How long a request may wait in it, as it is set.
    pub max_wait: Duration,
    /// Requests that came.
    pub arrivals: u64,
    /// Those that count as demand: refused ones too, since refusals hide demand, but none that came again after a refusal, and none
    /// beyond its tenant's share.
    pub demand: u64,
    /// The most of those within one second.
    pub peak_per_second: u64,
    /// Holds that were measured.
    pub holds: u64,
    /// How long a place was held, on average.
    pub mean_hold: Duration,
    /// How long at most, but for one hold in a hundred.
    pub p99_hold: Duration,
    /// How long in the slowest time that was seen, but for one hold in ten; zero where that is not known.
    pub slowest_hold: Duration,
    /// The most places that were ever held at once.
    pub peak_used: u32,
    /// Requests that were refused since their tenants had their share of the class.
    pub refused_by_share: u64,
    /// Requests that were refused since the class or the cell was full.
    pub refused_for_room: u64,
}

/// How a cell should be divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Advice {
    /// Each class, in the order of what was measured.
    pub classes: Vec<ClassAdvice>,
    /// What no size mends.
    pub warnings: Vec<Warning>,
}

/// What one class should be, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassAdvice {
    /// The class.
    pub name: ClassName,
    /// Places to keep for it: no fewer than are set.
    pub floor: u32,
    /// The most that it should hold: no fewer than are set.
    pub ceiling: u32,
    /// How many should wait at most: as many as are set, and where requests found no place half of the places, if so many get one
    /// within `max_wait`.
    pub queue: u32,
    /// How long, at most.
    pub max_wait: Duration,
    /// Places by Little's law: the peak rate by the high percentile of the hold time, and headroom.
    pub by_littles_law: u32,
    /// Places by Erlang's formula: the peak rate by the mean hold time, with a loss of one in a hundred.
    pub by_erlang: u32,
    /// One more than were ever held at once.
    pub by_peak: u32,
    /// Whether too few holds were measured, so that all is kept as it is.
    pub too_few: bool,
    /// Requests of those seen that would have found the class or the cell full with these sizes, about; all that did, where the sizes
    /// are what they were. Those beyond a tenant's share stay what they were, or less.
    pub refused_for_room: u64,
}

/// Something that the sizes alone do not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Too few holds were measured to advise anything.
    FewSamples {
        /// The class.
        class: ClassName,
        /// Holds that were measured.
        holds: u64,
    },
    /// So few places refuse in coarse steps: better a part of another class.
    TooSmall {
        /// The class.
        class: ClassName,
        /// The places that it needs.
        places: u32,
    },
    /// No dependency has a cap, and only this class has traffic: there is nothing to keep apart.
    OneClass {
        /// The class.
        class: ClassName,
    },
    /// Whatever has traffic, only this dependency has a cap: there is nothing to keep apart.
    OneDependency {
        /// Its name.
        dependency: String,
    },
    /// Most of the places that are kept for the class were never held.
    Idle {
        /// The class.
        class: ClassName,
        /// The places that are kept.
        floor: u32,
        /// The most that were ever held.
        peak_used: u32,
    },
    /// Nobody waits at a screen for so long: such work belongs in a queue of jobs.
    CanWait {
        /// The class.
        class: ClassName,
        /// The high percentile of its holds.
        p99_hold: Duration,
    },
    /// The places needed are more than the cell has. Floors have grown as far as no other class has needed the places.
    DoesNotFit {
        /// The places needed.
        needed: u64,
        /// The cell's.
        cell: u32,
    },
}
