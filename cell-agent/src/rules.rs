//! One fleet file made ready for the requests of this cell: made once, swapped whole. A request keeps the rules by which
//! it was classified to its end.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cofferdam_bulkhead::{CapKind, CapLayout, CapName, CapsOf, ClassLayout, Compartments, Layout};
use cofferdam_bulkhead::{LayoutError, TenantShare};
use cofferdam_fleet::{CellRules, Class, ClassIndex, Fleet, Route, RouteIndex, SuccessionError};
use cofferdam_model::{CellId, ClassName, TenantId};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use crate::breakers::Breakers;
use crate::edge::Edge;
use crate::following::Following;
use crate::metrics::{ClassMetrics, Metrics};

/// The rules of a fleet file.
#[derive(Debug)]
pub(crate) struct Rules {
    pub(crate) fleet: Arc<Fleet>,
    /// By `ClassIndex`: the class's index in the compartments, and its counters.
    classes: Vec<(usize, Arc<ClassMetrics>)>,
    /// By `RouteIndex`.
    caps: Vec<CapsOf>,
    pub(crate) breakers: Breakers,
    pub(crate) following: Following,
    /// What is done with fields of requests.
    pub(crate) edge: Edge,
    /// Whether any plan weighs more than another.
    weighs: bool,
}

/// Why a fleet file does not replace the one that runs.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// It is another fleet's, or older.
    #[error(transparent)]
    Succession(#[from] SuccessionError),
    /// The file has no such cell any more.
    #[error("cell {0} is not in the file any more")]
    UnknownCell(CellId),
    /// The cell cannot be divided as the file says.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

impl Rules {
    /// The rules of a fleet whose layout the compartments have, after `before`.
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        compartments: &Compartments,
        metrics: &Metrics,
        before: Option<&Self>,
    ) -> Self {
        let indices = compartments.indices();
        let counters = fleet.cell.classes.iter().map(|class| {
            let counters = metrics.of(&class.name);
            // A share that is the whole class is no bound.
            let places = fleet.cell.tenant_share.of(class.ceiling).max(1);
            counters.bound_tenants(if places < class.ceiling { places } else { 0 });
            counters
        });
        let classes = indices.classes.iter().copied().zip(counters).collect();
        let placed: HashMap<_, _> =
            caps(&fleet).into_iter().map(|cap| cap.name).zip(indices.caps.iter().copied()).collect();
        let caps_of = |route: &Route| {
            let own = route.max_in_flight.and_then(|_| placed.get(&route_name(route)));
            let needed = route.dependency.map(|at| dependency_name(&fleet.cell, at.get()));
            CapsOf::new(own.copied(), needed.and_then(|name| placed.get(&name)).copied())
        };
        let caps = fleet.routes.as_slice().iter().map(caps_of).collect();
        let weighs = fleet.plans.iter().any(|plan| plan.weight != 1);
        let breakers = Breakers::new(&fleet.cell, before.map(|before| &before.breakers));
        let following = before.map(|before| &before.following);
        let following =
            Following::new(&fleet.cell.classes, &indices.classes, compartments.clone(), following);
        let edge = Edge::of(&fleet);
        Self { classes, caps, breakers, following, edge, weighs, fleet }
    }

    /// Divides the compartments anew by `fleet`, for the rules that follow these.
    pub(crate) fn follow(
        &self,
        fleet: Fleet,
        cell: &CellId,
        compartments: &Compartments,
        metrics: &Metrics,
    ) -> Result<Self, ReloadError> {
        let running = &self.fleet;
        fleet.may_follow(running)?;
        if !fleet.cells.iter().any(|each| each.id == *cell) {
            return Err(ReloadError::UnknownCell(cell.clone()));
        }
        compartments.change(layout(&fleet)?);
        Ok(Self::new(Arc::new(fleet), compartments, metrics, Some(self)))
    }

    /// The name of a class.
    pub(crate) fn class_name(&self, class: ClassIndex) -> &ClassName {
        &self.fleet.cell.classes[class.get()].name
    }

    /// A class's index in the compartments.
    pub(crate) fn compartment(&self, class: ClassIndex) -> usize {
        self.classes[class.get()].0
    }

    /// A class's counters.
    pub(crate) fn metrics(&self, class: ClassIndex) -> &Arc<ClassMetrics> {
        &self.classes[class.get()].1
    }

    /// The caps of a route's requests.
    pub(crate) fn caps(&self, route: RouteIndex) -> CapsOf {
        self.caps[route.get()]
    }

    /// What the file says of a route.
    pub(crate) fn route(&self, route: RouteIndex) -> &Route {
        &self.fleet.routes.as_slice()[route.get()]
    }

    /// What a route's requests need.
    pub(crate) fn dependency(&self, route: RouteIndex) -> Option<&str> {
        let dependency = self.route(route).dependency?;
        Some(self.fleet.cell.dependencies[dependency.get()].name.as_str())
    }

    /// A tenant's weight, by its plan; 1 for one that the file refuses, since that is for the router to do.
    pub(crate) fn weight(&self, tenant: &TenantId) -> u32 {
        let plan = if self.weighs { self.fleet.tenant.plan_for(tenant) } else { None };
        plan.map_or(1, |plan| self.fleet.plans[plan.get()].weight)
    }
}

/// Shows what the rules that hold now guard and follow.
#[derive(Debug)]
pub(crate) struct RulesCollector(pub(crate) Arc<ArcSwap<Rules>>);

impl Collector for RulesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let rules = self.0.load();
        rules.breakers.encode(&mut encoder)?;
        rules.following.encode(&mut encoder)
    }
}

/// Divides a cell as the fleet file says. Classes keep their order.
pub(crate) fn layout(fleet: &Fleet) -> Result<Layout, LayoutError> {
    let rules = &fleet.cell;
    let classes = rules.classes.iter().map(class_layout).collect();
    // A share above 0 and below a thousandth still gives a tenant its one place.
    let thousandths = rules.tenant_share.of(1000).max(1);
    let share = TenantShare::from_thousandths(thousandths as u16).unwrap_or(TenantShare::WHOLE);
    Layout::new(rules.max_in_flight, share, rules.max_tenants as usize, classes)?.with_caps(caps(fleet))
}

fn class_layout(class: &Class) -> ClassLayout {
    ClassLayout {
        name: class.name.clone(),
        priority: class.priority,
        floor: class.floor,
        ceiling: class.ceiling,
        queue: class.queue,
        max_wait: class.max_wait,
    }
}

/// The caps of routes and of dependencies. Of routes that match the same the first has all the requests.
fn caps(fleet: &Fleet) -> Vec<CapLayout> {
    let cap = |name: CapName, limit: Option<u32>| limit.map(|limit| CapLayout { name, limit });
    let of_route = |route: &Route| cap(route_name(route), route.max_in_flight);
    let mut caps: Vec<CapLayout> = Vec::new();
    for route in fleet.routes.as_slice().iter().filter_map(of_route) {
        if caps.iter().all(|cap| cap.name != route.name) {
            caps.push(route);
        }
    }
    let dependencies = fleet.cell.dependencies.iter().enumerate();
    caps.extend(
        dependencies.filter_map(|(at, each)| cap(dependency_name(&fleet.cell, at), each.max_in_flight)),
    );
    caps
}

fn route_name(route: &Route) -> CapName {
    CapName { kind: CapKind::Route, name: route.matches_text().trim_end().into() }
}

fn dependency_name(cell: &CellRules, at: usize) -> CapName {
    CapName { kind: CapKind::Dependency, name: cell.dependencies[at].name.as_str().into() }
}

#[cfg(test)]
use prometheus_client::registry::Registry;

#[cfg(test)]
impl Rules {
    /// The rules of a fleet whose compartments are new.
    pub(crate) fn of(fleet: Fleet) -> Arc<Self> {
        let compartments = Compartments::new(layout(&fleet).unwrap());
        let metrics = Metrics::register(&mut Registry::default());
        Arc::new(Self::new(Arc::new(fleet), &compartments, &metrics, None))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use cofferdam_model::Alphabet;

    use super::*;

    fn fleet(sections: &str) -> Fleet {
        let cells = "[{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]";
        let text = format!("fleet: test\ncells: {cells}\n{sections}\n");
        Fleet::parse(&text, Path::new(".")).unwrap().fleet
    }

    #[test]
    fn a_cell_is_divided_as_the_file_says_and_classes_keep_their_order() {
        let fleet = fleet(
            "cell: { max_in_flight: 40, tenant_share: 0.25, max_tenants: 7,
               classes: { search: { priority: 3, floor: 2, ceiling: 9, queue: 4, max_wait: 70ms }, checkout: {} } }",
        );
        let layout = layout(&fleet).unwrap();
        assert_eq!((layout.max_in_flight(), layout.max_tenants()), (40, 7));
        assert_eq!(layout.tenant_share().thousandths(), 250);
        let names: Vec<_> = layout.classes().iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["checkout", "default", "search"]);
        let search = &layout.classes()[2];
        assert_eq!((search.priority, search.floor, search.ceiling, search.queue), (3, 2, 9, 4));
        assert_eq!(search.max_wait, Duration::from_millis(70));
    }

    #[test]
    fn routes_are_under_their_own_cap_and_their_dependencys() {
        let fleet = fleet(
            "routes:
  - { match: { path: /pay, method: POST }, max_in_flight: 3, dependency: bank }
  - { match: { path: /refund }, dependency: bank }
  - { match: { path: /mail }, dependency: mail }
cell: { dependencies: { bank: { max_in_flight: 5 }, mail: {} } }",
        );
        let layout = layout(&fleet).unwrap();
        let caps: Vec<_> = layout.caps().iter().map(|cap| (cap.name.to_string(), cap.limit)).collect();
        assert_eq!(caps, [("route POST /pay".to_owned(), 3), ("dependency bank".to_owned(), 5)]);
        let rules = Rules::of(fleet);
        let of = |route| rules.caps(RouteIndex(route));
        assert_eq!([of(0), of(1)], [CapsOf::new(Some(0), Some(1)), CapsOf::new(None, Some(1))]);
        assert_eq!([of(2), of(3)], [CapsOf::NONE; 2]);
        let needs = |route| rules.dependency(RouteIndex(route));
        assert_eq!([needs(0), needs(2), needs(3)], [Some("bank"), Some("mail"), None]);
    }

    #[test]
    fn a_tenants_weight_is_its_plans() {
        let plan = |weight| format!("{{ sustained: 1/s, burst: 1, max_in_flight: 1, weight: {weight} }}");
        let rules = Rules::of(fleet(&format!(
            "plans: {{ large: {}, small: {} }}\ntenant: {{ plan_of: {{ big: large, tiny: small }} }}",
            plan(4),
            plan(1)
        )));
        let weight = |name: &[u8]| rules.weight(&TenantId::parse(name, &Alphabet::default()).unwrap());
        assert_eq!([weight(b"big"), weight(b"tiny"), weight(b"nobody")], [4, 1, 1]);
    }
}
