//! `GET /tenants/{tenant}`: where is this tenant, and why?

use std::time::Instant;

use axum::Json;
use axum::extract::{Path, State};
use cofferdam_model::{CellId, TenantId};
use cofferdam_placement::Reason;
use cofferdam_telemetry::top::Ranking;
use serde_json::{Value, json};

use super::cells::CellView;
use super::refusal::{Refused, tenant_of};
use super::said::shown;
use super::state::Admin;
use crate::top::By;

pub(super) async fn show(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    // With the snapshot that it was fitted to: what is said of a tenant's cells means something there alone.
    let fitted = admin.overrides.placement.fitted();
    let snapshot = &fitted.snapshot;
    let fleet = &snapshot.fleet;
    let now = Instant::now();
    let placed = fitted.place(&tenant);
    let plan = fleet.tenant.plan_for(&tenant).map(|plan| fleet.plans[usize::from(plan.0)].name.as_str());
    let draining = snapshot.placement.drained_of(&tenant).filter(|_| placed.reason == Reason::Slot);
    let draining = draining.map(|cell| CellView::new(snapshot, cell, now));
    let [used, refused] = [By::Use, By::Refusals].map(|by| admin.top.ranking(by, now));
    let count = |ranking: &Ranking<TenantId>| {
        ranking.entries.iter().find(|entry| entry.key == tenant).map(|entry| entry.count)
    };
    Ok(Json(json!({
        "tenant": tenant.as_str(),
        "slot": placed.slot,
        "shard": snapshot.ids(placed.shard).map(CellId::as_str).collect::<Vec<_>>(),
        "reason": placed.reason.as_str(),
        "override": fitted.said(&tenant).map(|said| shown(&fitted, &tenant, said)),
        "overrides_are": admin.overrides_are(),
        // Whether it has the cells that its slot had before, until that is released.
        "waits_for_release": snapshot.waits(&tenant, &placed),
        "revision": fleet.revision.0,
        "digest": snapshot.placement.digest().to_string(),
        "plan": plan,
        "in_flight": admin.limits.in_flight(&tenant),
        // Nothing where it is not among those who are counted.
        "lately": {
            "window_ms": used.covers.as_millis() as u64,
            "requests": count(&used),
            "refused": count(&refused),
        },
        "retries_left": snapshot.retries.left(placed.slot, &fleet.retry_budget, now) as u64,
        "confined": fleet.poison_guard && snapshot.losses.is_confined(&tenant, now),
        // Cells that it leaves, where it follows the table.
        "draining": draining.collect::<Vec<_>>(),
        "cells": placed.shard.cells().iter().map(|cell| CellView::new(snapshot, *cell, now)).collect::<Vec<_>>(),
    })))
}
