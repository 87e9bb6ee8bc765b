//! What a fleet file says of a tenant, in the words of a router's admin listener.

use std::path::Path;

use anyhow::Context;
use cofferdam_fleet::{Bucket, Cell, Fleet};
use cofferdam_model::TenantId;
use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;
use serde_json::{Value, json};

use super::explanation::{Explanation, Seen};

/// Explains a tenant by what a file says.
pub(super) fn explain(path: &Path, tenant: &str) -> anyhow::Result<Explanation> {
    let fleet = Fleet::load(path)?.fleet;
    let tenant = TenantId::parse(tenant.as_bytes(), &fleet.tenant.alphabet)
        .with_context(|| format!("{tenant:?} is not a tenant of fleet {}", fleet.name))?;
    let table = Placement::build(&placement_spec(&fleet))?;
    let placed = table.place(&tenant);
    let cells: Vec<_> = placed.shard.cells().iter().map(|cell| &fleet.cells[cell.get()]).collect();
    let plan = fleet.tenant.plan_for(&tenant).map(|plan| &fleet.plans[plan.get()]);
    let placement = json!({
        "tenant": tenant.as_str(),
        "slot": placed.slot,
        "shard": cells.iter().map(|cell| cell.id.as_str()).collect::<Vec<_>>(),
        "reason": placed.reason.as_str(),
        "revision": fleet.revision.0,
        "digest": table.digest().to_string(),
        "plan": plan.map(|plan| plan.name.as_str()),
        "cells": cells.iter().map(|cell| view(cell)).collect::<Vec<_>>(),
        "draining": table.drained_of(&tenant).map(|cell| view(&fleet.cells[cell.get()])).collect::<Vec<_>>(),
    });
    let limits = plan.map(|plan| {
        let mut tenants = level("tenant", Some(&plan.bucket), Some(plan.max_in_flight), "plan");
        let quota =
            |quota: &cofferdam_fleet::Quota| json!({ "window_s": quota.window_s, "tokens": quota.limit });
        tenants["quotas"] = plan.quotas.iter().map(quota).collect();
        let ceiling = level("fleet", fleet.ceiling.bucket.as_ref(), fleet.ceiling.max_in_flight, "ceiling");
        let routes = fleet.routes.as_slice().iter().filter(|route| route.limit.is_some()).map(|route| {
            let mut level = level("route", route.limit.as_ref(), None, "route");
            level["route"] = route.matches_text().trim_end().into();
            level
        });
        let levels: Vec<_> = [ceiling, tenants].into_iter().chain(routes).collect();
        json!({ "tenant": tenant.as_str(), "plan": plan.name.as_str(), "levels": levels })
    });
    let said = json!({
        "fleet": fleet.name.as_str(),
        "revision": fleet.revision.0,
        "digest": table.digest().to_string(),
        "zone_separated": table.zone_separated(),
    });
    let (limits, release) = (limits.unwrap_or(Value::Null), Value::Null);
    let seen = Seen { placement, limits, fleet: said, release, recent: None };
    Ok(Explanation::of(seen, Vec::new(), Vec::new()))
}

fn view(cell: &Cell) -> Value {
    json!({
        "id": cell.id.as_str(),
        "zone": cell.zone.as_str(),
        "url": cell.url.to_string(),
        "state": cell.state.as_str(),
        "until": cell.until.map(|until| humantime::format_rfc3339_seconds(until).to_string()),
    })
}

fn level(name: &str, bucket: Option<&Bucket>, max_in_flight: Option<u32>, source: &str) -> Value {
    json!({
        "level": name,
        "sustained": bucket.map(|bucket| bucket.sustained.to_string()),
        "burst": bucket.map(|bucket| bucket.burst),
        "max_in_flight": max_in_flight,
        "source": source,
    })
}
