//! `GET /losses`: which tenants are sent to their home cell alone, because they had requests in flight when two cells were lost.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use super::state::Admin;

pub(super) async fn show(State(admin): State<Admin>) -> Json<Value> {
    let (snapshot, now) = (admin.snapshots.load(), Instant::now());
    let confined = snapshot.losses.confined(now);
    let confined = confined.iter().map(|(tenant, confined)| {
        json!({
            "tenant": tenant.as_str(),
            "confined_for_ms": now.saturating_duration_since(confined.since).as_millis() as u64,
            "ends_in_ms": confined.until.saturating_duration_since(now).as_millis() as u64,
            "lost": confined.cells.each_ref().map(|cell| cell.as_str()),
        })
    });
    Json(json!({
        "poison_guard": snapshot.fleet.poison_guard,
        "losses": snapshot.losses.counts(now).losses,
        "confined": confined.collect::<Vec<_>>(),
    }))
}
