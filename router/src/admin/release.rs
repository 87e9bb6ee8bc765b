//! `/placement/release`: how far the release of changed slots is; a `POST` to its `/stop` and `/go` does what it says, at every
//! router with the same store.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Value, json};

use super::state::Admin;
use crate::releasing::{Order, ReleaseError};

pub(super) async fn show(State(admin): State<Admin>) -> Json<Value> {
    Json(json!({ "release": admin.releasing.standing() }))
}

pub(super) async fn stop(State(admin): State<Admin>) -> Result<Json<Value>, (StatusCode, String)> {
    order(admin, Order::Stop).await
}

pub(super) async fn go(State(admin): State<Admin>) -> Result<Json<Value>, (StatusCode, String)> {
    order(admin, Order::Go).await
}

async fn order(admin: Admin, order: Order) -> Result<Json<Value>, (StatusCode, String)> {
    match Arc::clone(&admin.releasing).order(order).await {
        Ok(()) => Ok(show(State(admin)).await),
        Err(error) => {
            let status = match error {
                ReleaseError::None | ReleaseError::Other(_) => StatusCode::CONFLICT,
                ReleaseError::HandedOn(_) | ReleaseError::NotDone(_) | ReleaseError::Unknown(_) => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            Err((status, format!("{error}\n")))
        }
    }
}
