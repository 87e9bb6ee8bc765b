//! `GET /fleet`: which fleet file runs, and what was wrong with the last one that was not taken.

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
        "last_reload_error": *admin.last_reload_error.lock(),
    }))
}
