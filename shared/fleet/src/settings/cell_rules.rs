//! The settings of `cell`: its places, classes, dependencies and breakers.

use super::setting::{Item, Scope, Settings, time};
use crate::{AdaptiveRules, BreakerRules, CellRules, Class, Dependency, Fallback, StaticAnswer};

pub(super) fn list(rules: &CellRules, settings: &mut Settings) {
    let CellRules { max_in_flight, tenant_share, max_tenants, classes, dependencies, breaker } = rules;
    let mut item = settings.item("cell", Scope::Everybody);
    item.set("max_in_flight", max_in_flight);
    item.set("tenant_share", tenant_share.as_f64());
    item.set("max_tenants", max_tenants);
    for class in classes {
        list_class(class, settings);
    }
    for Dependency { name, max_in_flight, breaker } in dependencies {
        let mut item = settings.item(format!("cell.dependencies.{name}"), Scope::Everybody);
        item.set("max_in_flight", max_in_flight.map_or("no limit".to_owned(), |most| most.to_string()));
        if let Some(breaker) = breaker {
            list_breaker(breaker, "breaker.", &mut item);
        }
    }
    if let Some(breaker) = breaker {
        list_breaker(breaker, "", &mut settings.item("cell.breaker", Scope::Everybody));
    }
}

fn list_class(class: &Class, settings: &mut Settings) {
    let Class { name, priority, floor, ceiling, queue, max_wait, adaptive, timeout, fallback } = class;
    let mut item = settings.item(format!("cell.classes.{name}"), Scope::Everybody);
    item.set("priority", priority);
    item.set("floor", floor);
    item.set("ceiling", ceiling);
    item.set("queue", queue);
    // Without a queue nobody waits.
    item.set_if("max_wait", (*queue > 0).then(|| time(*max_wait)));
    if let Some(AdaptiveRules { tolerance_thousandths }) = adaptive {
        item.set("adaptive.tolerance", f64::from(*tolerance_thousandths) / 1000.0);
    }
    item.set_if("timeout", timeout.map(time));
    if let Some(fallback) = fallback {
        list_fallback(fallback, &mut item);
    }
}

pub(super) fn list_fallback(fallback: &Fallback, item: &mut Item<'_>) {
    let Fallback { last_good, answer } = fallback;
    item.set_if("fallback.last_good", last_good.map(time));
    if let Some(StaticAnswer { status, content_type, body }) = answer {
        item.set("fallback.status", status);
        item.set("fallback.type", String::from_utf8_lossy(content_type.as_bytes()));
        item.set("fallback.body", body);
    }
}

fn list_breaker(breaker: &BreakerRules, prefix: &str, item: &mut Item<'_>) {
    let BreakerRules { failures, share, window, open_for, probes } = breaker;
    item.set(&format!("{prefix}failures"), failures);
    item.set(&format!("{prefix}share"), share.as_f64());
    item.set(&format!("{prefix}window"), time(*window));
    item.set(&format!("{prefix}open_for"), time(*open_for));
    item.set(&format!("{prefix}probes"), probes);
}
