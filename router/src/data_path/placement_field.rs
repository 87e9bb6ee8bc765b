//! What an answer says of where its tenant is, where the fleet file has that told. A request that is marked with a cell which drains
//! may have been served there all the same.

use cofferdam_model::{TenantId, headers};
use http::{HeaderMap, HeaderValue};

use super::view::View;

/// Says it, if the file wants that.
pub(super) fn set(fields: &mut HeaderMap, tenant: &TenantId, view: &View) {
    let fleet = &view.snapshot.fleet;
    if !fleet.placement.tell {
        return;
    }
    let cells = view.snapshot.ids(view.placed.place(tenant).shard);
    let cells: Vec<_> = cells.map(|cell| format!("\"{cell}\"")).collect();
    let text = format!("revision={}, cells=({})", fleet.revision, cells.join(" "));
    // A cell's id has no character that a field could not have.
    if let Ok(value) = HeaderValue::try_from(text) {
        fields.insert(headers::PLACEMENT, value);
    }
}
