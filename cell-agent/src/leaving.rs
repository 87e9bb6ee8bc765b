//! When this agent cuts what is left, once it drains: said on every answer from then on, and at `/saturation` unless a successor answers there, so that no
//! router takes a long answer that is cut for a cell that was lost.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cofferdam_model::headers;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

/// When the agent cuts what is left, as far as that is known. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaving(Arc<OnceLock<Instant>>);

impl Leaving {
    /// The agent drains, and cuts what is left `after` this.
    pub(crate) fn begin(&self, after: Duration) {
        let _ = self.0.set(Instant::now() + after);
    }

    /// How many milliseconds are left, where the agent drains.
    pub(crate) fn left_ms(&self) -> Option<u64> {
        let cut = self.0.get()?;
        Some(cut.saturating_duration_since(Instant::now()).as_millis() as u64)
    }

    /// Says so on an answer.
    pub(crate) fn write(&self, fields: &mut HeaderMap) {
        if let Some(ms) = self.left_ms() {
            fields.insert(headers::LEAVING_MS, HeaderValue::from(ms));
        }
    }
}
