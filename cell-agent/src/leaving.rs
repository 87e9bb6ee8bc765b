//! When this agent cuts what is left, once it drains: said on every answer from then on, and at `/saturation` unless a successor answers there, so that no
//! router takes a long answer that is cut for a cell that was lost. A successor says when the process before it does, which may
//! have no more to say itself.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cofferdam_model::headers;
use http::{HeaderMap, HeaderValue};
use tokio::time::Instant;

/// When the agent cuts what is left, as far as that is known. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaving(Arc<Cuts>);

#[derive(Debug, Default)]
struct Cuts {
    own: OnceLock<Instant>,
    /// The process before this one's.
    before: OnceLock<Instant>,
}

impl Leaving {
    /// The agent drains, and cuts what is left `after` this.
    pub(crate) fn begin(&self, after: Duration) {
        let _ = self.0.own.set(Instant::now() + after);
    }

    /// The process that this one follows drains, and cuts what it has left `after` this.
    pub(crate) fn follow(&self, after: Duration) {
        let _ = self.0.before.set(Instant::now() + after);
    }

    /// How many milliseconds are left, where this agent drains, or the one before it does still.
    pub(crate) fn left_ms(&self) -> Option<u64> {
        let now = Instant::now();
        let before = self.0.before.get().filter(|cut| now < **cut);
        let cut = self.0.own.get().max(before)?;
        Some(cut.saturating_duration_since(now).as_millis() as u64)
    }

    /// Says so on an answer.
    pub(crate) fn write(&self, fields: &mut HeaderMap) {
        if let Some(ms) = self.left_ms() {
            fields.insert(headers::LEAVING_MS, HeaderValue::from(ms));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_successor_says_when_the_process_before_it_cuts_until_that_has() {
        let leaving = Leaving::default();
        assert_eq!(leaving.left_ms(), None);
        leaving.follow(30 * SECOND);
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(leaving.left_ms(), Some(20_000));
        tokio::time::advance(20 * SECOND).await;
        assert_eq!(leaving.left_ms(), None);
        leaving.begin(5 * SECOND);
        tokio::time::advance(6 * SECOND).await;
        assert_eq!(leaving.left_ms(), Some(0), "its own was the last word");
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_leave_the_later_cut_is_said() {
        let leaving = Leaving::default();
        leaving.follow(30 * SECOND);
        leaving.begin(5 * SECOND);
        assert_eq!(leaving.left_ms(), Some(30_000));
    }
}
