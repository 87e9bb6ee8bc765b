//! `GET /placement`: every tenant whose cells an operator has changed while routers run. `PUT` and `DELETE` of
//! `/tenants/{tenant}/pin` and `/tenants/{tenant}/quarantine` change them.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use cofferdam_placement::Reason;
use serde_json::{Value, json};

use super::refusal::{Refused, not_understood, of_alter, tenant_of};
use super::said::shown;
use super::state::{Admin, time};
use super::tenants;
use crate::overrides::AlterError;
use crate::overrides::placement::{Asked, Ended, Refused as NotPlaced, Word};

pub(super) async fn list(State(admin): State<Admin>) -> Json<Value> {
    let placement = &admin.overrides.placement;
    let (fitted, followed) = (placement.fitted(), placement.followed());
    let overrides = fitted.all().into_iter().map(|(tenant, said)| {
        let mut shown = shown(&fitted, tenant, said);
        shown["tenant"] = tenant.as_str().into();
        shown["reason"] = fitted.place(tenant).reason.as_str().into();
        shown
    });
    let told = |list: Vec<(&str, &str)>| -> Vec<Value> {
        list.into_iter().map(|(tenant, why)| json!({ "tenant": tenant, "why": why })).collect()
    };
    Json(json!({
        "overrides_are": admin.overrides_are(),
        "version": followed.map(|followed| followed.version),
        "heard_ms_ago": followed.and_then(|followed| followed.age).map(|age| age.as_millis() as u64),
        "overrides": overrides.collect::<Vec<_>>(),
        "left_out": told(fitted.left_out()),
        "instead": told(fitted.instead()),
    }))
}

pub(super) async fn pin(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    put(admin, Reason::Pin, &tenant, &body).await
}

pub(super) async fn unpin(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    clear(admin, Reason::Pin, &tenant, &body).await
}

pub(super) async fn quarantine(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    put(admin, Reason::Quarantine, &tenant, &body).await
}

pub(super) async fn release(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    clear(admin, Reason::Quarantine, &tenant, &body).await
}

async fn put(admin: Admin, of: Reason, tenant: &str, body: &Bytes) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, tenant)?;
    let asked = Asked::read(body).map_err(not_understood);
    let done = match asked {
        Ok(asked) => admin.overrides.placement.put(of, &tenant, &asked).await.map_err(refused),
        Err(refused) => Err(refused),
    };
    admin.changes.count(if of == Reason::Pin { "pin" } else { "quarantine" }, done.is_ok());
    let Word { to, until_ms, author, reason, .. } = done?;
    let (to, until) = (to.join(","), time(until_ms));
    tracing::info!(%tenant, set = %of, to, until, author, reason, "the tenant's cells are changed by an operator");
    tenants::show(State(admin), Path(tenant.as_str().to_owned())).await
}

async fn clear(admin: Admin, of: Reason, tenant: &str, body: &Bytes) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, tenant)?;
    let ended = Ended::read(body).map_err(not_understood);
    let done = match &ended {
        Ok(_) => admin.overrides.placement.clear(of, &tenant).await.map_err(refused),
        Err(refused) => Err(refused.clone()),
    };
    admin.changes.count(if of == Reason::Pin { "unpin" } else { "release" }, done.is_ok());
    let Ended { author, reason } = ended?;
    done?;
    tracing::info!(%tenant, ended = %of, author, reason, "the tenant's cells are changed by an operator");
    tenants::show(State(admin), Path(tenant.as_str().to_owned())).await
}

pub(super) fn refused(error: AlterError<NotPlaced>) -> Refused {
    of_alter(error, |refused| match refused {
        NotPlaced::UnknownTenant(_) | NotPlaced::Nothing { .. } | NotPlaced::NotMoving(_) => {
            StatusCode::NOT_FOUND
        }
        NotPlaced::Placement(_) | NotPlaced::NoWard => StatusCode::BAD_REQUEST,
        _ => StatusCode::CONFLICT,
    })
}
