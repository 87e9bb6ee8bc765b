//! `GET /limits/top?by=use|cost|refusals&n=20`: which tenants use most, and which are refused most.

use std::time::Instant;

use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::state::Admin;
use crate::top::By;

/// How many tenants are shown where nobody says.
const SHOWN: u16 = 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    #[serde(default)]
    by: By,
    #[serde(default = "shown")]
    n: u16,
}

fn shown() -> u16 {
    SHOWN
}

pub(super) async fn show(State(admin): State<Admin>, Query(asked): Query<Asked>) -> Json<Value> {
    let ranking = admin.top.ranking(asked.by, Instant::now());
    let tenants = ranking.entries.iter().take(asked.n.into());
    let tenant = |entry: &cofferdam_telemetry::top::Entry<cofferdam_model::TenantId>| json!({ "tenant": entry.key.as_str(), "count": entry.count, "too_high_by_at_most": entry.too_high });
    Json(json!({
        "by": asked.by,
        "window_ms": ranking.covers.as_millis() as u64,
        "total": ranking.total,
        "tenants": tenants.map(tenant).collect::<Vec<_>>(),
    }))
}
