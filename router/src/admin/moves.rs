//! `GET`, `PUT` and `DELETE /tenants/{tenant}/move`: how a tenant's move goes on, and how one begins and is stopped.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use cofferdam_model::{CellId, TenantId};
use serde_json::{Value, json};

use super::placement::refused;
use super::refusal::{Refused, not_understood, tenant_of};
use super::said;
use super::state::Admin;
use crate::moves::NotBegun;
use crate::overrides::placement::{Asked, Stopped};

pub(super) async fn show(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    Ok(Json(view(&admin, &tenant)))
}

pub(super) async fn begin(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    let asked = Asked::read_move(&body).map_err(not_understood);
    let done = match &asked {
        Ok((asked, timeout)) => admin.moves.begin(&tenant, asked, *timeout).await.map_err(not_begun),
        Err(refused) => Err(refused.clone()),
    };
    admin.changes.count("move", done.is_ok());
    let id = done?;
    let (asked, _) = asked?;
    let to = asked.to().iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let (author, reason) = (asked.author(), asked.reason());
    tracing::info!(%tenant, to, author, reason, "an operator has the tenant moved");
    let mut begun = view(&admin, &tenant);
    // What this router knows may be older than the move.
    begun["id"] = id.into();
    Ok(Json(begun))
}

pub(super) async fn stop(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    let Stopped { author, reason } = Stopped::read(&body).map_err(not_understood)?;
    let author = author.unwrap_or_else(|| "an operator".to_owned());
    let why = match reason {
        Some(reason) => format!("{author} stopped it: {reason}"),
        None => format!("{author} stopped it"),
    };
    admin.moves.stop(&tenant, &why).await.map_err(refused)?;
    tracing::info!(%tenant, why, "the move is stopped");
    Ok(Json(view(&admin, &tenant)))
}

fn not_begun(error: NotBegun) -> Refused {
    match error {
        NotBegun::Alter(error) => refused(error),
        NotBegun::DeadCell(_) => (StatusCode::CONFLICT, format!("{error}\n")),
        NotBegun::Unknown => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

fn view(admin: &Admin, tenant: &TenantId) -> Value {
    let fitted = admin.overrides.placement.fitted();
    let placed = fitted.place(tenant);
    let cells = fitted.snapshot.ids(placed.shard).map(CellId::as_str);
    let record = fitted.said(tenant);
    json!({
        "tenant": tenant.as_str(),
        "shard": cells.collect::<Vec<_>>(),
        "reason": placed.reason.as_str(),
        "move": record.and_then(|record| record.moving.as_ref()).map(said::moving),
        "last_move": record.and_then(|record| record.moved.as_ref()).map(said::moved),
        // At this router.
        "in_flight": admin.moves.n_inside(tenant),
    })
}
