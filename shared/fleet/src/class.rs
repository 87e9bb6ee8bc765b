//! A class of `cell.classes`: its places, its queue, and what it may not be.

use std::ops::RangeInclusive;
use std::time::Duration;

use cofferdam_model::{ClassName, Count};

use crate::node::{Entry, Fields, Node};
use crate::{AdaptiveRules, Fallback};

/// The longest queue: requests that wait hold memory and sockets.
const MAX_QUEUE: u32 = 100_000;

/// How long an answer may take.
const TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// How long a request may wait for a place.
const WAITS: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// A class's place in [`crate::CellRules::classes`]. It is meaningful within one snapshot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassIndex(pub u16);

/// A class of work with a compartment of its own in every cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The class's name.
    pub name: ClassName,
    /// Who is given a freed place first: a lower number before a higher one; 1 by default.
    pub priority: u8,
    /// Places that no other class can take; 0 by default. All floors together fit the cell.
    pub floor: u32,
    /// The most places that the class can take: at least 1 and the floor, at most the cell's places, which is the
    /// default.
    pub ceiling: u32,
    /// How many requests may wait for a place; 0 by default, which refuses at once.
    pub queue: u32,
    /// How long one may wait; 100 ms by default. The file gives it where there is a queue, and nowhere else.
    pub max_wait: Duration,
    /// How the ceiling follows the latency; by default it does not.
    pub adaptive: Option<AdaptiveRules>,
    /// The longest that an answer may take, on those of its routes that say nothing else; by default the routes' own, 15 s.
    pub timeout: Option<Duration>,
    /// What stands in for an answer, on those of its routes that say nothing else; by default nothing.
    pub fallback: Option<Fallback>,
}

impl ClassIndex {
    /// The index as a `usize`, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Class {
    /// A class of which the file gives the name alone.
    fn named(name: ClassName, places: u32) -> Self {
        Self {
            name,
            priority: 1,
            floor: 0,
            ceiling: places,
            queue: 0,
            max_wait: Duration::from_millis(100),
            adaptive: None,
            timeout: None,
            fallback: None,
        }
    }

    /// The class that exists where the file does not define it.
    pub(crate) fn default_class(name: &str, places: u32) -> Option<Self> {
        Some(Self { queue: 20, ..Self::named(ClassName::parse(name).ok()?, places) })
    }

    /// Reads a class of a cell with so many places.
    pub(crate) fn read(entry: &Entry<'_>, places: u32) -> Option<Self> {
        let mut class = Self::named(entry.key()?, places);
        let fields = entry.value.fields(&[
            "kind", "priority", "floor", "ceiling", "queue", "max_wait", "adaptive", "timeout", "fallback",
        ]);
        if let Some(kind) = fields.get("kind") {
            kind.read("a kind such as semaphore", check_kind);
        }
        class.adaptive = fields.get("adaptive").map(AdaptiveRules::read);
        class.timeout = fields.get("timeout").and_then(read_timeout);
        class.fallback = fields.get("fallback").and_then(Fallback::read);
        if let Some(priority) = fields.get("priority").and_then(|node| node.whole_u32(0..=u32::from(u8::MAX)))
        {
            class.priority = u8::try_from(priority).unwrap_or(u8::MAX);
        }
        class.floor = fields.whole_u32_or("floor", 0..=u32::MAX, class.floor);
        class.ceiling = fields.whole_u32_or("ceiling", 1..=u32::MAX, class.ceiling);
        class.check_places(&fields, places);
        if let Some(queue) = fields.get("queue") {
            // Where the number cannot be read, there is somebody to wait.
            class.queue = read_queue(queue).unwrap_or(MAX_QUEUE);
        }
        if let Some(max_wait) = fields.get("max_wait") {
            class.max_wait = max_wait.duration(WAITS).unwrap_or(class.max_wait);
            if class.queue == 0 {
                max_wait
                    .mark
                    .refuse("nobody waits in a class without a queue: give it one, or leave this out");
            }
        }
        Some(class)
    }

    /// A floor that the class's own ceiling or the cell cuts off guarantees nothing.
    fn check_places(&self, fields: &Fields<'_>, places: u32) {
        if self.ceiling > places {
            fields
                .mark_of("ceiling")
                .refuse(format_args!("ceiling {} exceeds the cell's {places} places", self.ceiling));
        }
        if self.floor > self.ceiling {
            fields
                .mark_of("floor")
                .refuse(format_args!("floor {} exceeds ceiling {}", self.floor, self.ceiling));
        }
    }
}

/// Every class is a semaphore: its places are counted, and nothing of the agent's is kept for them.
fn check_kind(text: &str) -> Result<(), String> {
    match text {
        "semaphore" => Ok(()),
        "pool" => Err("an agent has no threads to keep for a class, since the work is its backend's: \
                       give the class a floor as large as its ceiling, and a pool to the backend \
                       (cofferdam_bulkhead::Pool)"
            .to_owned()),
        _ => Err(format!("{text:?} is not a kind of class: expected semaphore")),
    }
}

/// How long an answer may take, of a class or of a route.
pub(crate) fn read_timeout(node: &Node<'_>) -> Option<Duration> {
    node.duration(TIMEOUTS)
}

/// A queue without a bound only moves a full cell's memory and everybody's latency out of sight.
pub(crate) fn read_queue(node: &Node<'_>) -> Option<u32> {
    node.read("a bounded queue such as 20", |text| {
        let bounded = text.parse().ok().and_then(|Count(places)| u32::try_from(places).ok());
        bounded.filter(|places| *places <= MAX_QUEUE).ok_or_else(|| {
            format!("queue {text} has no usable bound: expected a whole number from 0 to {MAX_QUEUE}")
        })
    })
}
