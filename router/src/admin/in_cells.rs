//! What binds a tenant in each of its cells: places of the cell and of its classes, the tenant's share of them, the caps of
//! routes and dependencies. All cells have the same rules, those of the fleet file; how much is in use a cell's agent knows.

use cofferdam_fleet::{CellRules, Class, Dependency, Fleet, Route};
use serde::Serialize;

/// The rules of each of a tenant's cells.
#[derive(Debug, Serialize)]
pub(super) struct InCells {
    /// The tenant's cells, home first.
    cells: Vec<String>,
    /// Places of one cell.
    max_in_flight: u32,
    /// A tenant's share of a class, as a ratio.
    tenant_share: f64,
    classes: Vec<ClassView>,
    dependencies: Vec<DependencyView>,
    /// Whether a breaker guards the backend as a whole.
    has_breaker: bool,
    /// Routes with a cap, a shape or a dependency.
    routes: Vec<RouteView>,
}

#[derive(Debug, Serialize)]
struct ClassView {
    class: String,
    floor: u32,
    ceiling: u32,
    /// The places that one tenant may hold.
    tenant_places: u32,
    /// Whether the ceiling follows the latency, and the tenant's places with it.
    is_adaptive: bool,
    queue: u32,
    max_wait_ms: u64,
}

#[derive(Debug, Serialize)]
struct DependencyView {
    dependency: String,
    max_in_flight: Option<u32>,
    has_breaker: bool,
}

#[derive(Debug, Serialize)]
struct RouteView {
    route: String,
    class: String,
    /// The most requests within a cell.
    max_in_flight: Option<u32>,
    dependency: Option<String>,
    shape: Option<ShapeView>,
}

/// How evenly all tenants together are let through.
#[derive(Debug, Serialize)]
struct ShapeView {
    rate: String,
    queue: u32,
    max_wait_ms: u64,
}

impl InCells {
    pub(super) fn new(fleet: &Fleet, cells: Vec<String>) -> Self {
        let CellRules { max_in_flight, tenant_share, classes, dependencies, breaker, .. } = &fleet.cell;
        // As the agent reckons: in thousandths, and never less than one place.
        let thousandths = tenant_share.of(1000).max(1);
        let routes = fleet.routes.as_slice().iter();
        let is_bound = |route: &&Route| {
            route.max_in_flight.is_some() || route.shape.is_some() || route.dependency.is_some()
        };
        Self {
            cells,
            max_in_flight: *max_in_flight,
            tenant_share: tenant_share.as_f64(),
            classes: classes.iter().map(|class| ClassView::new(class, thousandths)).collect(),
            dependencies: dependencies.iter().map(DependencyView::new).collect(),
            has_breaker: breaker.is_some(),
            routes: routes.filter(is_bound).map(|route| RouteView::new(route, &fleet.cell)).collect(),
        }
    }
}

impl ClassView {
    fn new(class: &Class, thousandths: u32) -> Self {
        let share = u64::from(class.ceiling) * u64::from(thousandths) / 1000;
        Self {
            class: class.name.to_string(),
            floor: class.floor,
            ceiling: class.ceiling,
            tenant_places: (share as u32).max(1).min(class.ceiling),
            is_adaptive: class.adaptive.is_some(),
            queue: class.queue,
            max_wait_ms: class.max_wait.as_millis() as u64,
        }
    }
}

impl DependencyView {
    fn new(dependency: &Dependency) -> Self {
        Self {
            dependency: dependency.name.to_string(),
            max_in_flight: dependency.max_in_flight,
            has_breaker: dependency.breaker.is_some(),
        }
    }
}

impl RouteView {
    fn new(route: &Route, cell: &CellRules) -> Self {
        let dependency = route.dependency.map(|at| cell.dependencies[at.get()].name.to_string());
        Self {
            route: route.matches_text().trim_end().to_owned(),
            class: cell.classes[route.class.get()].name.to_string(),
            max_in_flight: route.max_in_flight,
            dependency,
            shape: route.shape.as_ref().map(|shape| ShapeView {
                rate: shape.rate.to_string(),
                queue: shape.queue,
                max_wait_ms: shape.max_wait.as_millis() as u64,
            }),
        }
    }
}
