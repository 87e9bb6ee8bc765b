//! `GET /fleet`: which fleet file runs, what was wrong with the last one that was not taken, and how many retries are left.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::state::Admin;

pub(super) async fn show(State(admin): State<Admin>) -> Json<Value> {
    let snapshot = admin.snapshots.load();
    Json(json!({
        "fleet": snapshot.fleet.name.as_str(),
        "revision": snapshot.fleet.revision.0,
        "digest": snapshot.placement.digest().to_string(),
        "zone_separated": snapshot.placement.zone_separated(),
        "n_cells": snapshot.cells.len(),
        "retries_left": snapshot.retries.left_of_all(&snapshot.fleet.retry_budget, Instant::now()) as u64,
        // How the running revision was taken, where its change was refused.
        "forced": snapshot.forced.as_ref().map(|forced| json!({
            "reason": forced.reason,
            "refused": forced.refused.0.iter().map(ToString::to_string).collect::<Vec<_>>(),
        })),
        "release": admin.releasing.standing(),
        "last_reload_error": *admin.last_reload_error.lock(),
    }))
}
