//! `cell.dependencies`: what the backend needs of others, each with a cap on the requests that are on their way to it.

use cofferdam_model::DependencyName;

use crate::BreakerRules;
use crate::nearest::did_you_mean;
use crate::node::{Fields, Mark, Node};

/// The most dependencies that a fleet may have.
const MAX_DEPENDENCIES: usize = 256;

/// A dependency's place in [`crate::CellRules::dependencies`]. It is meaningful within one snapshot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DependencyIndex(pub u16);

/// Something that requests of some routes need, such as a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// The dependency's name.
    pub name: DependencyName,
    /// The most requests within a cell whose routes name it, waiting or not; no limit by default.
    pub max_in_flight: Option<u32>,
    /// When it is left alone; never by default.
    pub breaker: Option<BreakerRules>,
}

impl DependencyIndex {
    /// The index as a `usize`, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Dependency {
    /// Reads the dependencies of a cell with so many places, sorted by name.
    pub(crate) fn read_all(node: &Node<'_>, places: u32) -> Vec<Self> {
        let entries = node.entries("a map from dependencies to their caps");
        if entries.len() > MAX_DEPENDENCIES {
            node.mark.refuse(format_args!("{} dependencies exceed {MAX_DEPENDENCIES}", entries.len()));
        }
        let mut dependencies = Vec::with_capacity(entries.len());
        for entry in &entries {
            let fields = entry.value.fields(&["max_in_flight", "breaker"]);
            let max_in_flight = read_cap(&fields, places);
            let breaker = fields.get("breaker").map(BreakerRules::read);
            dependencies.extend(entry.key().map(|name| Self { name, max_in_flight, breaker }));
        }
        dependencies.sort_by(|a, b| a.name.cmp(&b.name));
        dependencies
    }

    /// Finds a dependency by the name that a route gives it.
    pub(crate) fn resolve(dependencies: &[Self], node: &Node<'_>) -> Option<DependencyIndex> {
        node.read("a dependency", |name| {
            let found = dependencies.binary_search_by(|dependency| dependency.name.as_str().cmp(name)).ok();
            found.and_then(|at| u16::try_from(at).ok()).map(DependencyIndex).ok_or_else(|| {
                let names = dependencies.iter().map(|dependency| dependency.name.as_str());
                format!("dependency {name:?} is not defined{}", did_you_mean(name, names))
            })
        })
    }

    /// What no route names is capped in vain.
    pub(crate) fn warn_of_unused(dependencies: &[Self], used: &[DependencyIndex], section: &Mark<'_>) {
        for (at, dependency) in dependencies.iter().enumerate() {
            if !used.iter().any(|used| used.get() == at) {
                section.absent(dependency.name.as_str()).warn("no route names this dependency");
            }
        }
    }
}

/// Reads a cap of a route or a dependency. One that is more than the cell has places would never stop anybody.
pub(crate) fn read_cap(fields: &Fields<'_>, places: u32) -> Option<u32> {
    let cap = fields.get("max_in_flight")?.whole_u32(1..=u32::MAX)?;
    if cap > places {
        fields
            .mark_of("max_in_flight")
            .refuse(format_args!("max_in_flight {cap} exceeds the cell's {places} places"));
    }
    Some(cap)
}
