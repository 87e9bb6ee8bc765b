//! What an operator is told whose question has no answer, or whose change is not made: a status, and a line of text.

use std::error::Error;

use axum::http::StatusCode;
use cofferdam_model::TenantId;

use super::state::Admin;
use crate::overrides::AlterError;

/// Why there is no other answer.
pub(super) type Refused = (StatusCode, String);

/// What was asked for in words that are not understood.
pub(super) fn not_understood(error: impl Error) -> Refused {
    (StatusCode::BAD_REQUEST, format!("{error}\n"))
}

/// The tenant of a path.
pub(super) fn tenant_of(admin: &Admin, tenant: &str) -> Result<TenantId, Refused> {
    let snapshot = admin.snapshots.load();
    TenantId::parse(tenant.as_bytes(), &snapshot.fleet.tenant.alphabet).map_err(not_understood)
}

/// An override that was not changed; `status` says what a refusal of its own kind is.
pub(super) fn of_alter<E: Error>(error: AlterError<E>, status: impl FnOnce(&E) -> StatusCode) -> Refused {
    let status = match &error {
        AlterError::Refused(refused) => status(refused),
        AlterError::Full | AlterError::Contended => StatusCode::CONFLICT,
        AlterError::Clock(_) | AlterError::Store { .. } | AlterError::HandedOn(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    (status, format!("{error}\n"))
}
