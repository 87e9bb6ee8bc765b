//! `GET /blast?tenant=T&n=20`, or `?cell=C`: which tenants share cells with one, or have a cell, out of those that this router
//! has seen lately. Bounded: the tenants that are counted one by one, and the first `n` of each group. `others=true` names those too
//! that share nothing, for whoever puts the answers of several routers together.

use std::collections::HashMap;
use std::time::Instant;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use cofferdam_model::{CellId, TenantId};
use serde::Deserialize;

use super::refusal::{Refused, tenant_of};
use super::state::Admin;
use crate::blast::{Blast, BlastAnswer, BlastOf, BlastSeen, Known, Load, Shown};
use crate::top::{By, Top};

/// How many tenants of each group are shown where nobody says.
const SHOWN: u16 = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    tenant: Option<String>,
    cell: Option<String>,
    #[serde(default = "shown")]
    n: u16,
    #[serde(default)]
    others: bool,
}

fn shown() -> u16 {
    SHOWN
}

pub(super) async fn show(
    State(admin): State<Admin>,
    Query(asked): Query<Asked>,
) -> Result<Json<BlastAnswer>, Refused> {
    // With the snapshot that it was fitted to: what operators say of tenants' cells means something there alone.
    let fitted = admin.overrides.placement.fitted();
    let (fleet, placement) = (&fitted.snapshot.fleet, &fitted.snapshot.placement);
    let of = match (&asked.tenant, &asked.cell) {
        (Some(tenant), None) => {
            let tenant = tenant_of(&admin, tenant)?;
            BlastOf::Tenant(tenant, fitted.place(&tenant).shard)
        }
        (None, Some(cell)) => {
            let index = CellId::parse(cell).ok().and_then(|id| placement.index_of(&id));
            let missing = || (StatusCode::NOT_FOUND, format!("cell {cell:?} is not in this fleet\n"));
            BlastOf::Cell(index.ok_or_else(missing)?)
        }
        _ => return Err((StatusCode::BAD_REQUEST, "expected tenant=T or cell=C, one of both\n".to_owned())),
    };
    let now = Instant::now();
    let used = admin.top.ranking(By::Use, now);
    let refused = admin.top.ranking(By::Refusals, now);
    let mut refusals: HashMap<TenantId, u64> =
        refused.entries.iter().map(|entry| (entry.key, entry.count)).collect();
    let known = |tenant: TenantId, requests, too_high_by_at_most, refused| {
        let in_flight = admin.limits.in_flight(&tenant);
        let load = Load { requests, too_high_by_at_most, refused, in_flight };
        Known { tenant, shard: fitted.place(&tenant).shard, load: Some(load) }
    };
    let mut seen: Vec<_> = used
        .entries
        .iter()
        .map(|entry| known(entry.key, entry.count, entry.too_high, refusals.remove(&entry.key).unwrap_or(0)))
        .collect();
    // Who was only refused has sent something too.
    let only_refused = refused.entries.iter().filter(|entry| refusals.contains_key(&entry.key));
    seen.extend(only_refused.map(|entry| known(entry.key, 0, 0, entry.count)));
    let tenants = seen.len();
    let shown = Shown { most: asked.n.into(), others: asked.others };
    Ok(Json(BlastAnswer {
        fleet: fleet.name.to_string(),
        revision: fleet.revision.0,
        digest: placement.digest().to_string(),
        blast: Blast::new(of, placement.cells(), seen, shown),
        seen: BlastSeen {
            window_ms: used.covers.as_millis() as u64,
            tenants,
            requests: used.total,
            counted_above: Top::counted_above(used.total),
            tenants_with_limits: admin.limits.metrics().store.tenants as u64,
        },
    }))
}
