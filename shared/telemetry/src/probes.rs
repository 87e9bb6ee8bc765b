//! What probes ask: `/healthz`, `/readyz` and `/metrics`.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::exposition::Exposition;

/// Answers whether a process can take work, or why not.
pub type Ready = dyn Fn() -> Result<(), String> + Send + Sync;

/// What the probe listener shows.
#[derive(Clone)]
pub struct Probes {
    registry: Arc<Registry>,
    ready: Arc<Ready>,
}

impl fmt::Debug for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").finish_non_exhaustive()
    }
}

impl Probes {
    /// Shows `registry`, and `ready`'s answer at `/readyz`.
    pub fn new(registry: Registry, ready: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { registry: Arc::new(registry), ready: Arc::new(ready) }
    }

    /// The routes, for a process to add its own to.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .with_state(self)
    }
}

async fn readyz(State(probes): State<Probes>) -> (StatusCode, String) {
    match (probes.ready)() {
        Ok(()) => (StatusCode::OK, "ready\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

async fn metrics(State(probes): State<Probes>, fields: HeaderMap) -> axum::response::Response {
    let mut text = String::new();
    if encode(&mut text, &probes.registry).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    // What is registered has a full stop at the end of its help, and what a collector encodes has none: none for all.
    let text = text.replace(".\n# TYPE ", "\n# TYPE ");
    let accepted = fields.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let exposition = Exposition::accepted(accepted);
    let headers = [(header::CONTENT_TYPE, exposition.content_type()), (header::VARY, "accept")];
    (headers, exposition.write(text)).into_response()
}
