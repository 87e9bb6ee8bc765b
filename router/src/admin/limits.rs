//! `GET`, `PUT` and `DELETE /tenants/{tenant}/limits`: which limits bind a tenant and where they come from, what it uses of
//! them, and changes that last for a while. What is in use is what this router knows.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use cofferdam_fleet::{Bucket, Fleet, Plan};
use cofferdam_limits::redis::link::Policy;
use cofferdam_limits::{RouteKey, Standing};
use cofferdam_model::{Level, TenantId};
use serde_json::{Value, json};

use super::in_cells::InCells;
use super::local::LocalLimit;
use super::refusal::{Refused, not_understood, of_alter, tenant_of};
use super::state::{Admin, time};
use crate::overrides::AlterError;
use crate::overrides::limits::{Asked, Overridden, Refused as NotOverridden};

pub(super) async fn show(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    let answer = view(&admin, &tenant).ok_or(AlterError::Refused(NotOverridden::UnknownTenant(tenant)));
    answer.map(Json).map_err(refused)
}

/// What is said takes the place of whatever was said before.
pub(super) async fn put(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    let asked = Asked::read(&body).map_err(not_understood)?;
    let said = admin.overrides.limits.put(&tenant, &asked).await.map_err(refused)?;
    let (until, author) = (time(said.until_ms), said.author.unwrap_or_default());
    tracing::info!(%tenant, until, author, "the tenant's limits are overridden");
    show(State(admin), Path(tenant.as_str().to_owned())).await
}

pub(super) async fn clear(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
) -> Result<Json<Value>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    admin.overrides.limits.clear(&tenant).await.map_err(refused)?;
    tracing::info!(%tenant, "the tenant's limits are its plan's again");
    show(State(admin), Path(tenant.as_str().to_owned())).await
}

fn refused(error: AlterError<NotOverridden>) -> Refused {
    of_alter(error, |refused| match refused {
        NotOverridden::UnknownTenant(_) | NotOverridden::Nothing(_) => StatusCode::NOT_FOUND,
        NotOverridden::Limits(_) => StatusCode::BAD_REQUEST,
    })
}

/// Everything about the limits of a tenant that has a plan.
fn view(admin: &Admin, tenant: &TenantId) -> Option<Value> {
    let snapshot = admin.snapshots.load();
    let index = snapshot.fleet.tenant.plan_for(tenant)?;
    let fitted = admin.overrides.limits.fitted();
    let overridden = fitted.get(tenant);
    let of_plan = &snapshot.fleet.plans[index.get()];
    let (plan, limits) = match overridden {
        Some(Overridden { plan, limits, .. }) => (plan, limits),
        None => (of_plan, &snapshot.plans[index.get()]),
    };
    let look = |level: Level, route: RouteKey, levels: &cofferdam_limits::Levels| {
        levels.get(level).map(|policy| (admin.limits.look(tenant, route, policy), policy.shadow))
    };
    let local = |level: Level, levels: &cofferdam_limits::Levels, on_failure| {
        let (policy, store) = (levels.get(level)?, admin.shared.as_ref()?);
        let share = store.local_share((level != Level::Fleet).then_some(tenant));
        serde_json::to_value(LocalLimit::of(policy, share, on_failure)).ok()
    };
    let on_failure = limits.on_store_failure;
    let (fleet_level, shadow) = look(Level::Fleet, RouteKey::default(), &limits.levels).unwrap_or_default();
    let mut levels = vec![ceiling(&snapshot.fleet, &fleet_level, shadow)];
    levels[0]["local"] = local(Level::Fleet, &limits.levels, on_failure).into();
    let (standing, shadow) = look(Level::Tenant, RouteKey::default(), &limits.levels).unwrap_or_default();
    levels.push(of_tenant(plan, overridden, &standing, shadow));
    levels[1]["local"] = local(Level::Tenant, &limits.levels, on_failure).into();
    let routes = snapshot.fleet.routes.as_slice().iter().zip(&snapshot.routes);
    for (route, on_route) in routes.filter(|(route, _)| route.limit.is_some()) {
        let Some(all) = limits.levels_on(on_route) else { continue };
        let (standing, shadow) = look(Level::Route, on_route.key, &all).unwrap_or_default();
        let mut level = level("route", route.limit.as_ref(), None, &standing, shadow);
        level["source"] = "route".into();
        level["local"] = local(Level::Route, &all, route.on_store_failure.unwrap_or(on_failure)).into();
        level["route"] = route.matches_text().trim_end().into();
        levels.push(level);
    }
    let placed = admin.overrides.placement.fitted();
    let cells = placed.snapshot.ids(placed.place(tenant).shard).map(ToString::to_string).collect();
    Some(json!({
        "tenant": tenant.as_str(),
        "in_each_cell": InCells::new(&snapshot.fleet, cells),
        "plan": of_plan.name.as_str(),
        "override": overridden.map(said),
        "levels": levels,
        "on_loan": admin.shared.as_ref().map(|store| {
            let loan = store.loan(tenant);
            json!({ "permits": loan.permits, "tokens": loan.tokens })
        }),
        "store": store(admin),
        "overrides_are": admin.overrides_are(),
    }))
}

fn of_tenant(plan: &Plan, overridden: Option<&Overridden>, standing: &Standing, shadow: bool) -> Value {
    let mut level = level("tenant", Some(&plan.bucket), Some(plan.max_in_flight), standing, shadow);
    let said = overridden.map(|overridden| &overridden.said);
    let from = |is_said: bool| if is_said { "override" } else { "plan" };
    level["source"] = json!({
        "sustained": from(said.is_some_and(|said| said.sustained.is_some())),
        "burst": from(said.is_some_and(|said| said.burst.is_some())),
        "max_in_flight": from(said.is_some_and(|said| said.max_in_flight.is_some())),
    });
    let windows = standing.beside.as_ref().map(|beside| beside.windows).unwrap_or_default();
    let quota = |window: &cofferdam_limits::WindowStanding| json!({ "window_s": window.policy.window_s(), "tokens": window.policy.limit(), "used": window.used });
    level["quotas"] = windows.iter().flatten().map(quota).collect();
    level
}

fn ceiling(fleet: &Fleet, standing: &Standing, shadow: bool) -> Value {
    let ceiling = &fleet.ceiling;
    let mut level = level("fleet", ceiling.bucket.as_ref(), ceiling.max_in_flight, standing, shadow);
    level["source"] = "ceiling".into();
    level
}

fn level(name: &str, bucket: Option<&Bucket>, max: Option<u32>, standing: &Standing, shadow: bool) -> Value {
    json!({
        "level": name,
        "sustained": bucket.map(|bucket| bucket.sustained.to_string()),
        "burst": bucket.map(|bucket| bucket.burst),
        "remaining": standing.bucket.map(|bucket| bucket.remaining()),
        "max_in_flight": max,
        "in_flight": standing.in_flight,
        "shadow": shadow,
    })
}

/// What an operator said.
fn said(overridden: &Overridden) -> Value {
    let said = &overridden.said;
    json!({
        "sustained": said.sustained.map(|rate| rate.to_string()),
        "burst": said.burst,
        "max_in_flight": said.max_in_flight,
        "author": said.author,
        "reason": said.reason,
        "since": time(said.since_ms),
        "until": time(said.until_ms),
    })
}

fn store(admin: &Admin) -> Value {
    let Some(store) = &admin.shared else { return json!({ "kind": "embedded" }) };
    let sharing = store.sharing();
    json!({
        "kind": "redis",
        "is_away": sharing.is_away,
        "sessions": sharing.sessions,
        "version": sharing.state.server_version,
        "state": sharing.state.word(),
        "evicts": match &sharing.state.policy {
            Policy::Evicts(policy) => Some(policy),
            Policy::NoEviction | Policy::Unknown => None,
        },
        "last_error": sharing.state.last_error,
    })
}
