//! The settings of `routes`. A route is named by what it matches, so that its place in the file does not matter.

use std::collections::HashMap;
use std::fmt::Write;

use super::cell_rules::list_fallback;
use super::setting::{Scope, Settings, time};
use crate::{Bucket, CellRules, Route, Routes, Shape};

pub(super) fn list(routes: &Routes, cell: &CellRules, settings: &mut Settings) {
    let mut seen: HashMap<String, u32> = HashMap::new();
    for route in routes.as_slice() {
        let name = name(route);
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        // Of two that match the same, the second one gets nothing; it is listed all the same.
        let nth = if *count > 1 { format!(" #{count}") } else { String::new() };
        list_route(route, format!("routes[{name}{nth}]"), cell, settings);
    }
}

/// What a route matches, such as `GET /v1/search?deep=1`.
fn name(route: &Route) -> String {
    let method = route.method.as_ref().map_or(String::new(), |method| format!("{method} "));
    let mut name = format!("{method}{}", route.path);
    for (at, (key, value)) in route.query.iter().enumerate() {
        let _ = write!(name, "{}{key}={value}", if at == 0 { '?' } else { '&' });
    }
    name
}

fn list_route(route: &Route, item: String, cell: &CellRules, settings: &mut Settings) {
    let Route {
        path: _,
        method: _,
        query: _,
        class,
        cost,
        timeout,
        max_in_flight,
        dependency,
        limit,
        shape,
        settle,
        on_store_failure,
        fallback,
    } = route;
    let mut item = settings.item(item, Scope::Everybody);
    item.set_if("class", cell.classes.get(class.get()).map(|class| &class.name));
    item.set("cost", cost);
    item.set("timeout", time(*timeout));
    item.set_if("max_in_flight", *max_in_flight);
    item.set_if("dependency", dependency.map(|dependency| &cell.dependencies[dependency.get()].name));
    if let Some(Bucket { sustained, burst }) = limit {
        item.set("limit.sustained", sustained);
        item.set("limit.burst", burst);
    }
    if let Some(Shape { rate, queue, max_wait }) = shape {
        item.set("shape.rate", rate);
        item.set("shape.queue", queue);
        item.set("shape.max_wait", time(*max_wait));
    }
    item.set("settle", settle);
    item.set_if("on_store_failure", *on_store_failure);
    if let Some(fallback) = fallback {
        list_fallback(fallback, &mut item);
    }
}
