//! How a cell is divided: its classes with floors, ceilings and queues, checked once. It knows no live counts.

use std::collections::HashSet;
use std::time::Duration;

use cofferdam_model::{ClassName, Report};

use crate::caps::{CapLayout, CapName};

/// One class's compartment, as the fleet file gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassLayout {
    /// The class.
    pub name: ClassName,
    /// Who gets a freed place first: lower numbers before higher ones.
    pub priority: u8,
    /// Places that are kept for the class, whatever the others do.
    pub floor: u32,
    /// The most places that the class may hold.
    pub ceiling: u32,
    /// The most requests that may wait; 0 is a hand-off: a place at once, or a refusal at once.
    pub queue: u32,
    /// The longest that a request may wait; without meaning where `queue` is 0.
    pub max_wait: Duration,
}

/// How much of a class one tenant may hold, in thousandths: 1 to 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TenantShare(u16);

/// A cell's checked division into compartments. In the first layout of compartments the
/// position of a class is its index everywhere; what follows is in [`Indices`](crate::Indices).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    max_in_flight: u32,
    tenant_share: TenantShare,
    max_tenants: usize,
    classes: Vec<ClassLayout>,
    caps: Vec<CapLayout>,
}

/// Why a cell cannot be divided so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// No classes at all.
    #[error("cell has no classes")]
    NoClasses,
    /// More classes than a load report may name.
    #[error("{0} classes exceed the {max} that a report may name", max = Report::MAX_CLASSES)]
    TooManyClasses(usize),
    /// Two classes of one name.
    #[error("class {0} is there twice")]
    Duplicate(ClassName),
    /// A class that could never be given a place.
    #[error("class {0} has a ceiling of 0")]
    NoCeiling(ClassName),
    /// A floor above its own ceiling.
    #[error("class {class} has a floor of {floor} above its ceiling of {ceiling}")]
    FloorAboveCeiling {
        /// The class.
        class: ClassName,
        /// Its floor.
        floor: u32,
        /// Its ceiling.
        ceiling: u32,
    },
    /// A ceiling that the cell could never fill.
    #[error("class {class} has a ceiling of {ceiling} in a cell of {cell}")]
    CeilingBeyondCell {
        /// The class.
        class: ClassName,
        /// Its ceiling.
        ceiling: u32,
        /// The cell's places.
        cell: u32,
    },
    /// A queue in which nobody may wait.
    #[error("class {0} has a queue but a max_wait of 0")]
    NoWait(ClassName),
    /// Two caps of one name.
    #[error("{0} is there twice")]
    DuplicateCap(CapName),
    /// A cap under which nobody could ever be given a place.
    #[error("{0} has a cap of 0")]
    NoCap(CapName),
    /// More caps than there can be.
    #[error("{0} caps exceed {max}", max = Layout::MAX_CAPS)]
    TooManyCaps(usize),
    /// Floors that cannot all be kept.
    #[error("floors of {floors} places exceed the cell's {cell}")]
    FloorsBeyondCell {
        /// The floors' sum.
        floors: u64,
        /// The cell's places.
        cell: u32,
    },
}

impl TenantShare {
    /// All of a class: no limit for a tenant.
    pub const WHOLE: Self = Self(1000);

    /// A share out of thousandths; `None` outside 1..=1000.
    pub fn from_thousandths(thousandths: u16) -> Option<Self> {
        (1..=1000).contains(&thousandths).then_some(Self(thousandths))
    }

    /// The share in thousandths.
    pub fn thousandths(self) -> u16 {
        self.0
    }

    /// The share of `places`: rounded down but at least 1, and 0 of 0.
    pub(crate) fn of(self, places: u32) -> u32 {
        let share = u64::from(places) * u64::from(self.0) / 1000;
        // A share of at most the whole fits where the whole did.
        (share as u32).max(1).min(places)
    }
}

impl Default for TenantShare {
    /// A quarter.
    fn default() -> Self {
        Self(250)
    }
}

impl Layout {
    /// The most caps beside the levels.
    pub const MAX_CAPS: usize = 4096;

    /// Checks that every class can have its floor and its ceiling in a cell of `max_in_flight` places. Tenants beyond
    /// `max_tenants` at once share hashed compartments (see [`SHARED_COMPARTMENTS`](crate::SHARED_COMPARTMENTS)).
    pub fn new(
        max_in_flight: u32,
        tenant_share: TenantShare,
        max_tenants: usize,
        classes: Vec<ClassLayout>,
    ) -> Result<Self, LayoutError> {
        if classes.is_empty() {
            return Err(LayoutError::NoClasses);
        }
        if classes.len() > Report::MAX_CLASSES {
            return Err(LayoutError::TooManyClasses(classes.len()));
        }
        for (index, class) in classes.iter().enumerate() {
            if classes[..index].iter().any(|earlier| earlier.name == class.name) {
                return Err(LayoutError::Duplicate(class.name.clone()));
            }
            class.check(max_in_flight)?;
        }
        let floors = classes.iter().map(|class| u64::from(class.floor)).sum();
        if floors > u64::from(max_in_flight) {
            return Err(LayoutError::FloorsBeyondCell { floors, cell: max_in_flight });
        }
        Ok(Self { max_in_flight, tenant_share, max_tenants, classes, caps: Vec::new() })
    }

    /// The same with caps beside the levels.
    ///
    /// # Errors
    /// Two caps of one name, a cap of 0, or more than [`MAX_CAPS`](Self::MAX_CAPS).
    pub fn with_caps(self, caps: Vec<CapLayout>) -> Result<Self, LayoutError> {
        if caps.len() > Self::MAX_CAPS {
            return Err(LayoutError::TooManyCaps(caps.len()));
        }
        let mut seen = HashSet::new();
        for CapLayout { name, limit } in &caps {
            if !seen.insert(name) {
                return Err(LayoutError::DuplicateCap(name.clone()));
            }
            if *limit == 0 {
                return Err(LayoutError::NoCap(name.clone()));
            }
        }
        Ok(Self { caps, ..self })
    }

    /// The cell's places.
    pub fn max_in_flight(&self) -> u32 {
        self.max_in_flight
    }

    /// How much of a class one tenant may hold.
    pub fn tenant_share(&self) -> TenantShare {
        self.tenant_share
    }

    /// How many tenants have a compartment of their own at once.
    pub fn max_tenants(&self) -> usize {
        self.max_tenants
    }

    /// The classes, in order.
    pub fn classes(&self) -> &[ClassLayout] {
        &self.classes
    }

    /// The caps beside the levels, in order.
    pub fn caps(&self) -> &[CapLayout] {
        &self.caps
    }
}

impl ClassLayout {
    fn check(&self, cell: u32) -> Result<(), LayoutError> {
        let class = || self.name.clone();
        if self.ceiling == 0 {
            return Err(LayoutError::NoCeiling(class()));
        }
        if self.floor > self.ceiling {
            let (floor, ceiling) = (self.floor, self.ceiling);
            return Err(LayoutError::FloorAboveCeiling { class: class(), floor, ceiling });
        }
        if self.ceiling > cell {
            return Err(LayoutError::CeilingBeyondCell { class: class(), ceiling: self.ceiling, cell });
        }
        if self.queue > 0 && self.max_wait.is_zero() {
            return Err(LayoutError::NoWait(class()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, floor: u32, ceiling: u32) -> ClassLayout {
        let name = ClassName::parse(name).unwrap();
        ClassLayout { name, priority: 0, floor, ceiling, queue: 0, max_wait: Duration::ZERO }
    }

    fn layout(classes: Vec<ClassLayout>) -> Result<Layout, LayoutError> {
        Layout::new(10, TenantShare::default(), 100, classes)
    }

    fn message(classes: Vec<ClassLayout>) -> String {
        layout(classes).unwrap_err().to_string()
    }

    #[test]
    fn a_layout_that_cannot_be_kept_is_refused() {
        assert!(layout(vec![class("a", 5, 10), class("b", 5, 5)]).is_ok());
        assert_eq!(message(vec![]), "cell has no classes");
        assert_eq!(message(vec![class("a", 0, 1), class("a", 0, 2)]), "class a is there twice");
        assert_eq!(message(vec![class("a", 0, 0)]), "class a has a ceiling of 0");
        assert_eq!(message(vec![class("a", 3, 2)]), "class a has a floor of 3 above its ceiling of 2");
        assert_eq!(message(vec![class("a", 0, 11)]), "class a has a ceiling of 11 in a cell of 10");
        assert_eq!(
            message(vec![class("a", 6, 6), class("b", 5, 5)]),
            "floors of 11 places exceed the cell's 10"
        );
        assert_eq!(
            message(vec![ClassLayout { queue: 1, ..class("a", 0, 1) }]),
            "class a has a queue but a max_wait of 0"
        );
        let many: Vec<_> = (0..65).map(|n| class(&format!("c{n}"), 0, 1)).collect();
        assert_eq!(message(many), "65 classes exceed the 64 that a report may name");
    }

    #[test]
    fn a_share_is_rounded_down_but_at_least_one() {
        assert_eq!(TenantShare::from_thousandths(0), None);
        assert_eq!(TenantShare::from_thousandths(1001), None);
        let quarter = TenantShare::default();
        for (places, share) in [(0, 0), (1, 1), (3, 1), (7, 1), (8, 2), (40, 10), (u32::MAX, 1_073_741_823)] {
            assert_eq!(quarter.of(places), share);
        }
        assert_eq!(TenantShare::WHOLE.of(u32::MAX), u32::MAX);
    }
}
