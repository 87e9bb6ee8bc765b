//! `cell`: what one cell can do, and how its classes share it. Floors are guaranteed, ceilings are caps.

use cofferdam_model::Report;

use crate::nearest::did_you_mean;
use crate::node::{Fields, Mark, Node};
use crate::{BreakerRules, Class, ClassIndex, Dependency, Share};

/// The class of requests whose route names none. It always exists.
const DEFAULT: &str = "default";

/// The most places that a cell may have.
const MAX_PLACES: u32 = 1_000_000;

/// What one cell can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellRules {
    /// Requests that a cell works on at once; 200 by default.
    pub max_in_flight: u32,
    /// The share of a class's ceiling that one tenant may hold; 0.25 by default.
    pub tenant_share: Share,
    /// The bound of an agent's table of tenants; 10,000 by default.
    pub max_tenants: u32,
    /// The classes, sorted by name, at most 64. `default` is always among them: where the file does not define it, it
    /// has no floor, the cell's places as its ceiling, a queue of 20 and a wait of 100 ms.
    pub classes: Vec<Class>,
    /// The dependencies, sorted by name.
    pub dependencies: Vec<Dependency>,
    /// When the backend as a whole is left alone; never by default.
    pub breaker: Option<BreakerRules>,
}

impl Default for CellRules {
    fn default() -> Self {
        Self {
            max_in_flight: 200,
            tenant_share: Share::from_millionths(250_000),
            max_tenants: 10_000,
            classes: Vec::new(),
            dependencies: Vec::new(),
            breaker: None,
        }
    }
}

impl CellRules {
    /// Finds a class by its name.
    pub fn class_index(&self, name: &str) -> Option<ClassIndex> {
        let found = self.classes.binary_search_by(|class| class.name.as_str().cmp(name));
        found.ok().and_then(|at| u16::try_from(at).ok()).map(ClassIndex)
    }

    /// The class of requests whose route names none.
    pub(crate) fn default_class(&self) -> ClassIndex {
        self.class_index(DEFAULT).unwrap_or(ClassIndex(0))
    }

    /// Finds a class by the name that another section gives it.
    pub(crate) fn resolve(&self, node: &Node<'_>) -> Option<ClassIndex> {
        node.read("a class", |name| {
            self.class_index(name).ok_or_else(|| {
                let nearest = did_you_mean(name, self.classes.iter().map(|class| class.name.as_str()));
                format!("class {name:?} is not defined{nearest}")
            })
        })
    }

    pub(crate) fn read(root: &Fields<'_>) -> Self {
        let mut rules = Self::default();
        let Some(section) = root.get("cell") else {
            rules.classes.extend(Class::default_class(DEFAULT, rules.max_in_flight));
            return rules;
        };
        let fields = section.fields(&[
            "max_in_flight",
            "tenant_share",
            "max_tenants",
            "classes",
            "dependencies",
            "breaker",
        ]);
        if let Some(places) = fields.get("max_in_flight") {
            // Where the number cannot be read, no class is too large for it.
            rules.max_in_flight = places.whole_u32(1..=MAX_PLACES).unwrap_or(MAX_PLACES);
        }
        rules.tenant_share = fields.scalar("tenant_share").unwrap_or(rules.tenant_share);
        rules.max_tenants = fields.whole_u32_or("max_tenants", 1..=10_000_000, rules.max_tenants);
        let section = fields.mark_of("classes");
        let marks = rules.read_classes(fields.get("classes"), &section);
        rules.check_floors(&section);
        if let Some(node) = fields.get("dependencies") {
            rules.dependencies = Dependency::read_all(node, rules.max_in_flight);
        }
        rules.breaker = fields.get("breaker").map(BreakerRules::read);
        rules.check_ceilings(&section, &marks);
        rules.check_queues(&marks);
        rules
    }

    /// Reads the classes and adds `default`; gives each class's mark in the order of the classes.
    fn read_classes<'d>(&mut self, node: Option<&Node<'d>>, section: &Mark<'d>) -> Vec<Mark<'d>> {
        let entries = node.map_or_else(Vec::new, |node| node.entries("a map from classes to their places"));
        let mut classes: Vec<_> = entries
            .iter()
            .filter_map(|entry| Some((Class::read(entry, self.max_in_flight)?, entry.mark.clone())))
            .collect();
        if !classes.iter().any(|(class, _)| class.name.as_str() == DEFAULT) {
            let class = Class::default_class(DEFAULT, self.max_in_flight);
            classes.extend(class.map(|class| (class, section.absent(DEFAULT))));
        }
        if classes.len() > Report::MAX_CLASSES {
            let (n, most) = (classes.len(), Report::MAX_CLASSES);
            section.refuse(format_args!("{n} classes, `default` among them, exceed {most}"));
        }
        classes.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        let (classes, marks) = classes.into_iter().unzip();
        self.classes = classes;
        marks
    }

    /// What is guaranteed must exist.
    fn check_floors(&self, section: &Mark<'_>) {
        let floors: u64 = self.classes.iter().map(|class| u64::from(class.floor)).sum();
        if floors > u64::from(self.max_in_flight) {
            section.refuse(format_args!(
                "floors sum to {floors}, beyond the cell's {} places",
                self.max_in_flight
            ));
        }
    }

    /// Whoever is last in a longer queue waits for longer than it takes to serve half of the class: for steady traffic that is
    /// latency and no help.
    fn check_queues(&self, marks: &[Mark<'_>]) {
        for (class, mark) in self.classes.iter().zip(marks) {
            if class.queue > class.ceiling / 2 {
                mark.warn(format_args!(
                    "class {} has a queue of {} for {} places: for steady traffic half as many suffice",
                    class.name, class.queue, class.ceiling
                ));
            }
        }
    }

    /// A cap alone reserves nothing: a class without a floor has no place left once the others fill the cell.
    fn check_ceilings(&self, section: &Mark<'_>, marks: &[Mark<'_>]) {
        let places = u64::from(self.max_in_flight);
        let sum: u64 = self.classes.iter().map(|class| u64::from(class.ceiling)).sum();
        if self.classes.len() > 1 && sum >= places && self.classes.iter().all(|class| class.floor == 0) {
            section.warn(format_args!(
                "ceilings sum to {sum} of the cell's {places} places, and no class has a floor"
            ));
            return;
        }
        for (class, mark) in self.classes.iter().zip(marks) {
            let others = sum - u64::from(class.ceiling);
            if class.floor == 0 && others >= places {
                mark.warn(format_args!(
                    "class {} has no floor, and the ceilings of the others sum to {others} of the cell's {places} places",
                    class.name
                ));
            }
        }
    }
}
