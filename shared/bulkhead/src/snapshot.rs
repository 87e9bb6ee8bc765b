//! What the compartments say of themselves: everything, for the agent's own listener, and the saturations alone, for
//! every answer. It changes nothing and knows no wire format.

use std::time::Duration;

use cofferdam_model::{CellReason, ClassName, Report, Saturation, TenantId};
use tokio::time::Instant;

use crate::caps::{Cap, CapName};
use crate::core::{Core, Held, reason_index};

/// How many tenants a snapshot names.
pub const TOP_TENANTS: usize = 10;

/// The compartments at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// When these compartments were made, in microseconds of Unix time: another epoch is another process.
    pub epoch: u64,
    /// The number of this snapshot within the epoch, from 1.
    pub sequence: u64,
    /// Whether the compartments are closed.
    pub closed: bool,
    /// Places held in the cell.
    pub used: u32,
    /// The cell's places.
    pub max: u32,
    /// The cell's saturation: `used` of `max`.
    pub saturation: Saturation,
    /// Each class, in the layout's order.
    pub classes: Vec<ClassSnapshot>,
    /// Each cap beside the levels, in the layout's order.
    pub caps: Vec<CapSnapshot>,
    /// Tenants that hold or wait for something and have a compartment of their own.
    pub tenants: usize,
    /// Places held in the hashed compartments, by tenants beyond the table.
    pub shared_places: u32,
    /// Those of the table who hold the most places, at most [`TOP_TENANTS`], the most first.
    pub top_tenants: Vec<TenantPlaces>,
}

/// A class at one moment, and what it has counted since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassSnapshot {
    /// The class.
    pub class: ClassName,
    /// Who gets a freed place first: lower numbers before higher ones.
    pub priority: u8,
    /// Places held.
    pub used: u32,
    /// Places kept for it.
    pub floor: u32,
    /// The most places that it may hold.
    pub ceiling: u32,
    /// Requests waiting.
    pub queued: u32,
    /// The most that may wait.
    pub queue: u32,
    /// The longest that one may wait.
    pub max_wait: Duration,
    /// How long who has waited longest has; zero where nobody waits.
    pub oldest_wait: Duration,
    /// `used` of what the class could hold now: the smaller of its ceiling and `used` with all the room that it
    /// would be given. So a class that the full cell refuses is saturated, however little it uses, and so is one in
    /// which somebody waits for class or cell. Waiting for one's tenant's own share says nothing of the class.
    pub saturation: Saturation,
    /// Places given.
    pub granted: u64,
    /// Refusals, in the order of [`CellReason::ALL`]; those after a wait among them.
    pub refused: [u64; 3],
    /// Refusals after a wait.
    pub timeouts: u64,
    /// Refusals on entry, since the wait would have been longer than it may be.
    pub hopeless: u64,
    /// Waiters that went away by themselves.
    pub abandoned: u64,
    /// The most places ever held at once.
    pub peak_used: u32,
    /// How long a place is held, as a moving estimate; zero while nothing was measured.
    pub hold: Duration,
}

/// A cap beside the levels at one moment, and what it has counted since the start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapSnapshot {
    /// The cap.
    pub name: CapName,
    /// Places held under it.
    pub used: u32,
    /// Requests under it that wait for a place.
    pub queued: u32,
    /// The most of both.
    pub limit: u32,
    /// Refusals, which count among those of their classes too.
    pub refused: u64,
    /// The most places ever held at once.
    pub peak_used: u32,
}

/// What a tenant has in all classes together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantPlaces {
    /// The tenant.
    pub tenant: TenantId,
    /// Places held.
    pub used: u32,
    /// Requests waiting.
    pub queued: u32,
}

/// How saturated the cell and its classes are at one moment: numbers alone, copied and compared at next to no cost.
#[derive(Debug, Clone, Copy)]
pub struct Saturations {
    /// How often the layout was changed before.
    changes: u64,
    cell: Saturation,
    /// In the layout's order; nothing beyond `n_classes`.
    classes: [Saturation; Report::MAX_CLASSES],
    n_classes: usize,
}

impl Saturations {
    /// The cell's saturation.
    pub fn cell(&self) -> Saturation {
        self.cell
    }

    /// How often the layout was changed before: where it is another number, the classes may be others.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Each class's, in the layout's order.
    pub fn classes(&self) -> &[Saturation] {
        &self.classes[..self.n_classes]
    }
}

impl PartialEq for Saturations {
    /// Most cells have few classes: what there is room for beyond them is not looked at.
    fn eq(&self, other: &Self) -> bool {
        (self.changes, self.cell) == (other.changes, other.cell) && self.classes() == other.classes()
    }
}

impl Eq for Saturations {}

impl ClassSnapshot {
    /// Refusals for one reason.
    pub fn refused_for(&self, reason: CellReason) -> u64 {
        self.refused[reason_index(reason)]
    }
}

impl Core {
    /// A snapshot; the caller numbers it.
    pub(crate) fn snapshot(&self, now: Instant) -> Snapshot {
        let (classes, caps) = (self.indices.classes.iter(), self.indices.caps.iter());
        Snapshot {
            epoch: 0,
            sequence: 0,
            closed: self.closed,
            used: self.used,
            max: self.max,
            saturation: self.cell_saturation(),
            classes: classes.map(|&index| self.class_snapshot(index, now)).collect(),
            caps: caps.map(|&index| self.caps[index].snapshot()).collect(),
            tenants: self.tenants.len(),
            shared_places: self.tenants.shared_counts().used,
            top_tenants: self.top_tenants(),
        }
    }

    /// The saturations alone.
    pub(crate) fn saturations(&self) -> Saturations {
        let n_classes = self.indices.classes.len();
        let mut classes = [Saturation::default(); Report::MAX_CLASSES];
        for (saturation, &index) in classes.iter_mut().zip(&self.indices.classes) {
            *saturation = self.class_saturation(index);
        }
        Saturations { changes: self.changes, cell: self.cell_saturation(), classes, n_classes }
    }

    /// The same without a place that comes free next, unless somebody waits.
    pub(crate) fn saturations_without(&mut self, held: &Held) -> Saturations {
        if self.is_contended() {
            return self.saturations();
        }
        let (index, used, unused_floors) = (held.class as usize, self.used, self.unused_floors);
        self.count_down(index);
        let saturations = self.saturations();
        self.classes[index].used += 1;
        (self.used, self.unused_floors) = (used, unused_floors);
        saturations
    }

    fn cell_saturation(&self) -> Saturation {
        Saturation::ratio(u64::from(self.used), u64::from(self.max))
    }

    fn class_saturation(&self, index: usize) -> Saturation {
        let class = &self.classes[index];
        let free = self.free();
        // After a change there may be fewer free than all floors ask for; those that there are go to them.
        let own_floor = class.floor.saturating_sub(class.used).min(free);
        let room = free.saturating_sub(self.kept_from(index)).max(own_floor);
        let could_hold = (class.used + room).min(class.ceiling);
        Saturation::ratio(u64::from(class.used), u64::from(could_hold))
    }

    fn class_snapshot(&self, index: usize, now: Instant) -> ClassSnapshot {
        let class = &self.classes[index];
        let since = class.line.first().map(|first| self.waiters.wish_of(first).since);
        ClassSnapshot {
            class: class.name.clone(),
            priority: class.priority,
            used: class.used,
            floor: class.floor,
            ceiling: class.ceiling,
            queued: class.line.len(),
            queue: class.queue,
            max_wait: class.max_wait,
            oldest_wait: since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since)),
            saturation: self.class_saturation(index),
            granted: class.granted,
            refused: class.refused,
            timeouts: class.timeouts,
            hopeless: class.hopeless,
            abandoned: class.abandoned,
            peak_used: class.peak_used,
            hold: Duration::from_micros(class.hold.known().unwrap_or_default().into()),
        }
    }

    fn top_tenants(&self) -> Vec<TenantPlaces> {
        let own = self.tenants.own();
        let mut all: Vec<_> = own
            .map(|(tenant, has)| TenantPlaces { tenant, used: has.used, queued: has.queued })
            .filter(|places| places.used > 0)
            .collect();
        let rank = |a: &TenantPlaces, b: &TenantPlaces| b.used.cmp(&a.used).then(a.tenant.cmp(&b.tenant));
        if all.len() > TOP_TENANTS {
            all.select_nth_unstable_by(TOP_TENANTS, rank);
            all.truncate(TOP_TENANTS);
        }
        all.sort_unstable_by(rank);
        all
    }
}

impl Cap {
    fn snapshot(&self) -> CapSnapshot {
        let Self { used, queued, limit, refused, peak_used, .. } = *self;
        CapSnapshot { name: self.name.clone(), used, queued, limit, refused, peak_used }
    }
}
