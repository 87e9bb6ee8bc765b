//! By which level, reason and status an answer of a cell is recorded.

use cofferdam_proxy::grpc;
use http::Response;

use super::outcome::Outcome;
use crate::recent::OK;

/// What a drill did comes before what the backend said.
pub(super) fn answer<B>(
    response: &Response<B>,
    is_grpc: bool,
    drill: Option<&'static str>,
) -> (&'static str, &'static str, u16) {
    let status = response.status().as_u16();
    // A call's answer that is a head alone has its status there.
    let has_failed = || {
        let said = response.headers().get(grpc::STATUS);
        said.is_some_and(|status| Outcome::of_grpc(status.as_bytes()) == Outcome::ServerError)
    };
    match drill {
        Some(drill) => ("drill", drill, status),
        None if status >= 500 => ("backend", "error", status),
        None if is_grpc && has_failed() => ("backend", "grpc_error", 0),
        None => ("backend", OK, 0),
    }
}
