//! What an answer says of where its tenant is, where the fleet file has that told, and whether that is where it was before, since
//! its slot waits for its release. A request that is marked with a cell which drains may have been served there all the same.

use cofferdam_model::{TenantId, headers};
use http::{HeaderMap, HeaderValue};

use super::view::View;

/// Says it, if the file wants that.
pub(super) fn set(fields: &mut HeaderMap, tenant: &TenantId, view: &View) {
    let snapshot = &view.snapshot;
    if !snapshot.fleet.placement.tell {
        return;
    }
    let placed = view.placed.place(tenant);
    let cells: Vec<_> = snapshot.ids(placed.shard).map(|cell| format!("\"{cell}\"")).collect();
    let waits = if snapshot.waits(tenant, &placed) { ";waits" } else { "" };
    let text = format!("revision={}, cells=({}){waits}", snapshot.fleet.revision, cells.join(" "));
    // A cell's id has no character that a field could not have.
    if let Ok(value) = HeaderValue::try_from(text) {
        fields.insert(headers::PLACEMENT, value);
    }
}
