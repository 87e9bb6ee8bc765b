//! The admin listener: what an operator asks of a running router. On loopback; never on the data path.

mod blast;
mod cells;
mod fleet;
mod in_cells;
mod limits;
mod local;
mod losses;
mod moves;
mod placement;
mod recent;
mod refusal;
mod release;
mod said;
mod state;
mod tenants;
mod top;

use axum::Router;
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::map_response;
use axum::response::Response;
use axum::routing::{get, post, put};

pub(crate) use state::Admin;

/// The routes: `/fleet`, `/cells`, `/losses`, `/tenants/{tenant}` and its `/recent`, `/limits`, `/pin`, `/quarantine` and `/move`,
/// `/placement`, its
/// `/release` and that one's `/stop` and `/go`, `/limits/top`, `/blast`.
pub(crate) fn routes(admin: Admin) -> Router {
    Router::new()
        .route("/fleet", get(fleet::show))
        .route("/cells", get(cells::list))
        .route("/losses", get(losses::show))
        .route("/tenants/{tenant}", get(tenants::show))
        .route("/tenants/{tenant}/recent", get(recent::show))
        .route("/tenants/{tenant}/limits", get(limits::show).put(limits::put).delete(limits::clear))
        .route("/tenants/{tenant}/pin", put(placement::pin).delete(placement::unpin))
        .route("/tenants/{tenant}/quarantine", put(placement::quarantine).delete(placement::release))
        .route("/tenants/{tenant}/move", get(moves::show).put(moves::begin).delete(moves::stop))
        .route("/placement", get(placement::list))
        .route("/placement/release", get(release::show))
        .route("/placement/release/stop", post(release::stop))
        .route("/placement/release/go", post(release::go))
        .route("/limits/top", get(top::show))
        .route("/blast", get(blast::show))
        .layer(map_response(come_back))
        .with_state(admin)
}

/// Who is told that it cannot be done now is told when to come back.
async fn come_back(mut response: Response) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
