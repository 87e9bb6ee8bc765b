//! The settings of the file's outermost words, and of its small sections.

use super::setting::{Scope, Settings, time};
use super::{cell_rules, placement, routes, tenants};
use crate::{Ceiling, Edge, Fleet, HealthRules, LimitRules, RetryBudget};

/// The settings of a fleet, in the order of the file's sections.
pub(super) fn settings(fleet: &Fleet) -> Settings {
    let mut settings = Settings::default();
    list(fleet, &mut settings);
    settings
}

fn list(fleet: &Fleet, settings: &mut Settings) {
    let Fleet {
        name,
        revision,
        cells,
        placement,
        tenant,
        edge,
        plans,
        ceiling,
        limits,
        routes,
        retry_budget,
        poison_guard,
        health,
        cell,
    } = fleet;
    settings.item("", Scope::Everybody).set("fleet", name);
    settings.item("", Scope::Nobody).set("revision", revision);
    for cell in cells {
        placement::list_cell(cell, settings);
    }
    placement::list(placement, cells, settings);
    tenants::list(tenant, plans, settings);
    for plan in plans {
        tenants::list_plan(plan, settings);
    }
    list_edge(edge, settings);
    list_ceiling(ceiling, settings);
    list_limits(limits, settings);
    routes::list(routes, cell, settings);
    list_retries(retry_budget, settings);
    settings.item("", Scope::Everybody).set("poison_guard", poison_guard);
    list_health(health, settings);
    cell_rules::list(cell, settings);
}

fn list_edge(edge: &Edge, settings: &mut Settings) {
    let Edge { underscores, forwarded } = edge;
    let mut item = settings.item("edge", Scope::Everybody);
    item.set("underscores", underscores.as_str());
    item.set_if("forwarded", forwarded.as_ref().map(|names| names.join(", ")));
}

fn list_health(health: &HealthRules, settings: &mut Settings) {
    let HealthRules { fall, rise, slow_start } = health;
    let mut item = settings.item("health", Scope::Everybody);
    item.set("fall", fall);
    item.set("rise", rise);
    item.set("slow_start", time(*slow_start));
}

fn list_ceiling(ceiling: &Ceiling, settings: &mut Settings) {
    let Ceiling { bucket, max_in_flight, shadow } = ceiling;
    let mut item = settings.item("ceiling", Scope::Everybody);
    item.set_if("sustained", bucket.map(|bucket| bucket.sustained));
    item.set_if("burst", bucket.map(|bucket| bucket.burst));
    item.set_if("max_in_flight", *max_in_flight);
    item.set("shadow", shadow);
}

fn list_limits(limits: &LimitRules, settings: &mut Settings) {
    let LimitRules { mode, routers, on_store_failure, shadow, older_fields, jitter, max_tenants } = limits;
    let mut item = settings.item("limits", Scope::Everybody);
    item.set("mode", mode.as_str());
    item.set_if("routers", *routers);
    item.set("on_store_failure", on_store_failure);
    item.set("jitter", jitter.as_f64());
    item.set("shadow", shadow);
    item.set("max_tenants", max_tenants);
    item.set("older_fields", older_fields);
}

fn list_retries(budget: &RetryBudget, settings: &mut Settings) {
    let RetryBudget { all, tenant } = budget;
    let mut item = settings.item("retry_budget", Scope::Everybody);
    item.set("ratio", all.ratio.as_f64());
    item.set("floor", all.floor);
    item.set("tenant_ratio", tenant.ratio.as_f64());
    item.set("tenant_floor", tenant.floor);
}
