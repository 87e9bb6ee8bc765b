//! `GET /tenants/{tenant}/recent`: what became of a tenant's requests at this router within the last minute, and which routers
//! there are beside it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{Path, State};

use super::refusal::{Refused, tenant_of};
use super::state::Admin;
use crate::recent::RecentAnswer;

pub(super) async fn show(
    State(admin): State<Admin>,
    Path(tenant): Path<String>,
) -> Result<Json<RecentAnswer>, Refused> {
    let tenant = tenant_of(&admin, &tenant)?;
    let recent = admin.top.recent(&tenant, &admin.snapshots.load(), Instant::now());
    let (mut session, mut live, mut is_store_new) = (None, None, false);
    if let Some(store) = &admin.shared {
        session = Some(store.session().as_str().to_owned());
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        // A store that does not say is one of the findings already.
        live = store.live(now_ms).await.ok().flatten();
        is_store_new = store.is_learning(&tenant);
    }
    Ok(Json(RecentAnswer { recent, session, live, is_store_new }))
}
