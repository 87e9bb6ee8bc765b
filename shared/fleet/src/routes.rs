//! `routes`: which class a request belongs to, what it costs, and how long it may take. The first match wins.

use std::time::Duration;

use cofferdam_model::OnStoreFailure;
use http::Method;

use crate::class::read_timeout;
use crate::dependency::read_cap;
use crate::node::{Fields, Node};
use crate::path;
use crate::patterns;
use crate::plans::read_bucket;
use crate::{Bucket, CellRules, ClassIndex, Dependency, DependencyIndex, Fallback, Plan, Shape};

/// The most routes that a fleet may have. They are tried in turn for each request.
const MAX_ROUTES: usize = 1000;

/// A route's place in [`Routes`]. It is meaningful within one snapshot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteIndex(pub u16);

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The path that it matches, with everything below it, by whole segments; no slash at its end unless it is `/`.
    pub path: Box<str>,
    /// The method, or any.
    pub method: Option<Method>,
    /// Pairs of the query that must all be there, decoded.
    pub query: Vec<(Box<str>, Box<str>)>,
    /// The class; `default` unless the file says otherwise.
    pub class: ClassIndex,
    /// What the tenant's and the fleet's buckets pay; 1 by default.
    pub cost: u32,
    /// The longest that the answer may take; what the class says for its routes unless the route says otherwise, else 15 s.
    pub timeout: Duration,
    /// The most requests of this route within a cell, waiting or not; no limit by default.
    pub max_in_flight: Option<u32>,
    /// What the backend needs for it.
    pub dependency: Option<DependencyIndex>,
    /// How fast one tenant may send here, whatever it costs: requests are counted.
    pub limit: Option<Bucket>,
    /// How evenly all tenants together are let through.
    pub shape: Option<Shape>,
    /// Whether the backend's own word on what a request cost is taken.
    pub settle: bool,
    /// What decides where the store is away; what the plan says unless the route says otherwise.
    pub on_store_failure: Option<OnStoreFailure>,
    /// What stands in where the cell has no room for it, or leaves alone what it needs; what the class says for its routes unless
    /// the route says otherwise.
    pub fallback: Option<Fallback>,
}

/// The routes in the file's order. One of them matches everything, so every request has a route: where the file has
/// none such, the last is `/` with the class `default` and a cost of 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes(Vec<Route>);

impl RouteIndex {
    /// The index as a `usize`, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Route {
    /// How long an answer may take where neither the route nor its class says so.
    const TIMEOUT: Duration = Duration::from_secs(15);

    /// A route for everything.
    fn catch_all(cell: &CellRules) -> Self {
        Self::of(cell.default_class(), cell)
    }

    /// A route for everything of a class, which has whatever the class says for its routes.
    fn of(class: ClassIndex, cell: &CellRules) -> Self {
        let said = cell.classes.get(class.get());
        Self {
            path: "/".into(),
            method: None,
            query: Vec::new(),
            class,
            cost: 1,
            timeout: said.and_then(|class| class.timeout).unwrap_or(Self::TIMEOUT),
            max_in_flight: None,
            dependency: None,
            limit: None,
            shape: None,
            settle: false,
            on_store_failure: None,
            fallback: said.and_then(|class| class.fallback.clone()),
        }
    }

    /// What the route matches, as one line that is the same however the file is ordered: by it a store knows the route.
    pub fn matches_text(&self) -> String {
        let mut pairs: Vec<_> =
            self.query.iter().map(|(name, value)| format!("{name:?}={value:?}")).collect();
        pairs.sort();
        let method = self.method.as_ref().map_or("*", Method::as_str);
        format!("{method} {} {}", self.path, pairs.join("&"))
    }

    fn catches_all(&self) -> bool {
        &*self.path == "/" && self.method.is_none() && self.query.is_empty()
    }

    /// `path` is normal.
    fn matches(&self, method: &Method, path: &str, query: Option<&str>) -> bool {
        path::covers(&self.path, path)
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self
                .query
                .iter()
                .all(|(name, value)| query.is_some_and(|query| path::query_has(query, name, value)))
    }

    /// Whether whatever `other` matches, this matches too.
    fn shadows(&self, other: &Self) -> bool {
        path::covers(&self.path, &other.path)
            && (self.method.is_none() || self.method == other.method)
            && self.query.iter().all(|pair| other.query.contains(pair))
    }

    fn read(node: &Node<'_>, cell: &CellRules) -> Self {
        let fields = node.fields(&[
            "match",
            "class",
            "cost",
            "timeout",
            "max_in_flight",
            "dependency",
            "limit",
            "shape",
            "settle",
            "on_store_failure",
            "fallback",
        ]);
        let class = fields.get("class").and_then(|class| cell.resolve(class));
        let mut route = class.map_or_else(|| Self::catch_all(cell), |class| Self::of(class, cell));
        if let Some(node) = fields.required("match", "what a request must have, such as { path: /v1/search }")
        {
            route.read_match(&node.fields(&["path", "method", "query"]));
        }
        route.cost = fields.whole_u32_or("cost", 0..=1_000_000, route.cost);
        route.timeout = fields.get("timeout").and_then(read_timeout).unwrap_or(route.timeout);
        route.read_caps(&fields, cell);
        route.limit = fields.get("limit").and_then(read_limit);
        route.shape = fields.get("shape").and_then(|node| Shape::read(node, route.timeout));
        route.settle = fields.scalar("settle").unwrap_or_default();
        route.on_store_failure = fields.scalar("on_store_failure");
        if let Some(fallback) = fields.get("fallback") {
            route.fallback = Fallback::read(fallback);
        }
        route
    }

    /// A cap of at least the class's ceiling stops nobody that the class does not.
    fn read_caps(&mut self, fields: &Fields<'_>, cell: &CellRules) {
        self.max_in_flight = read_cap(fields, cell.max_in_flight);
        self.dependency =
            fields.get("dependency").and_then(|node| Dependency::resolve(&cell.dependencies, node));
        let class = cell.classes.get(self.class.get());
        if let Some((cap, class)) = self.max_in_flight.zip(class).filter(|(cap, class)| *cap >= class.ceiling)
        {
            let (name, ceiling) = (&class.name, class.ceiling);
            fields
                .mark_of("max_in_flight")
                .warn(format_args!("{cap} stops nobody: class {name} has a ceiling of {ceiling}"));
        }
    }

    fn read_match(&mut self, fields: &Fields<'_>) {
        const WANTED: &str = "a path such as /v1/search";
        if let Some(node) = fields.required("path", WANTED)
            && let Some(path) = node.read(WANTED, read_path)
        {
            patterns::warn_of_path(&path, &node.mark);
            self.path = path;
        }
        self.method = fields.get("method").and_then(|node| node.read("a method such as POST", read_method));
        let Some(query) = fields.get("query") else { return };
        for entry in query.entries("a map from names to values, such as { deep: \"1\" }") {
            let value = entry.value.read("a value such as \"1\"", |text| Ok::<Box<str>, &str>(text.into()));
            if let Some(value) = &value {
                patterns::warn_of_value(value, &entry.value.mark);
            }
            self.query.extend(value.map(|value| (entry.name.into(), value)));
        }
    }
}

impl Routes {
    /// The routes in order.
    pub fn as_slice(&self) -> &[Route] {
        &self.0
    }

    /// The first route that matches a request. The path may be spelled in any way; it costs an allocation only where
    /// it is not normal.
    pub fn classify(&self, method: &Method, path: &str, query: Option<&str>) -> RouteIndex {
        let path = path::normal_path(path);
        let found = self.0.iter().position(|route| route.matches(method, &path, query));
        // One matches everything, and there are at most 1,001.
        RouteIndex(found.unwrap_or(self.0.len() - 1) as u16)
    }

    pub(crate) fn read(
        root: &Fields<'_>,
        cell: &CellRules,
        plans: &[Plan],
        ceiling: Option<&Bucket>,
    ) -> Self {
        let nodes = root.get("routes").map_or_else(Vec::new, |node| node.list("a list of routes"));
        if nodes.len() > MAX_ROUTES {
            root.mark_of("routes").refuse(format_args!("{} routes exceed {MAX_ROUTES}", nodes.len()));
        }
        let mut routes: Vec<Route> = Vec::with_capacity(nodes.len() + 1);
        for node in nodes.iter().take(MAX_ROUTES) {
            let route = Route::read(node, cell);
            if let Some(earlier) = routes.iter().position(|earlier| earlier.shadows(&route)) {
                node.mark.warn(format_args!("no request comes here: routes[{earlier}] matches all of it"));
            }
            warn_of_cost(node, route.cost, plans, ceiling);
            routes.push(route);
        }
        let used: Vec<_> = routes.iter().filter_map(|route| route.dependency).collect();
        if let Some(section) = root.get("cell").filter(|cell| cell.is_map()) {
            let section = section.mark.absent("dependencies");
            Dependency::warn_of_unused(&cell.dependencies, &used, &section);
        }
        if !routes.iter().any(Route::catches_all) {
            routes.push(Route::catch_all(cell));
        }
        Self(routes)
    }
}

/// Half a bucket limits nothing.
fn read_limit(node: &Node<'_>) -> Option<Bucket> {
    let fields = node.fields(&["sustained", "burst"]);
    for key in ["sustained", "burst"] {
        fields.required(key, "both of sustained and burst");
    }
    read_bucket(&fields)
}

/// A cost above a bucket's capacity or a quota can never be paid.
fn warn_of_cost(node: &Node<'_>, cost: u32, plans: &[Plan], ceiling: Option<&Bucket>) {
    let warn = |what: String| node.mark.warn(format_args!("cost {cost} exceeds the {what}: always refused"));
    let beyond = |most: u64| most < u64::from(cost);
    if let Some(Plan { name, bucket, .. }) = plans.iter().find(|plan| beyond(plan.bucket.burst)) {
        warn(format!("burst {} of plan {name}", bucket.burst));
    }
    let quota = |plan: &Plan| plan.quotas.iter().map(|quota| quota.limit).find(|limit| beyond(*limit));
    if let Some((limit, plan)) = plans.iter().find_map(|plan| Some((quota(plan)?, plan))) {
        warn(format!("quota {limit} of plan {}", plan.name));
    }
    if let Some(Bucket { burst, .. }) = ceiling.filter(|bucket| beyond(bucket.burst)) {
        warn(format!("burst {burst} of the ceiling"));
    }
}

/// A path of the file is in normal form, so that what is read is what is matched; a slash at its end means nothing.
fn read_path(text: &str) -> Result<Box<str>, String> {
    if !text.starts_with('/') {
        return Err(format!("path {text:?} does not start with '/'"));
    }
    if let Some((path, query)) = text.split_once('?') {
        let pair = query.split('&').next().unwrap_or_default();
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        return Err(format!(
            "path {text:?} has a query: write {path} here, and query: {{ {name}: {value:?} }} beside it"
        ));
    }
    if text.contains('%') {
        return Err(format!("path {text:?} has an escape: expected the character itself"));
    }
    if text.contains(';') {
        return Err(format!(
            "path {text:?} has parameters, which are left out of a path before it is matched"
        ));
    }
    if !path::is_plain(text) {
        return Err(format!("path {text:?} is not a plain path such as /v1/search"));
    }
    let trimmed = text.strip_suffix('/').filter(|rest| !rest.is_empty());
    Ok(trimmed.unwrap_or(text).into())
}

/// The standard methods alone: `get` would never match.
fn read_method(text: &str) -> Result<Method, String> {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    known.into_iter().find(|method| method == text).ok_or_else(|| {
        format!("{text:?} is not a method: expected GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS")
    })
}
