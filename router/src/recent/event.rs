//! What can happen to a request.

use std::time::Duration;

use cofferdam_fleet::{ClassIndex, Route};
use cofferdam_model::CellIndex;
use serde::{Deserialize, Serialize};

/// The reason of answers that are no failure.
pub(crate) const OK: &str = "ok";

/// What a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Requests, by what their caller was told.
    Answer,
    /// Attempts on a cell without an answer that could be used. Another cell may have served the request.
    Attempt,
    /// Answers that began well and failed behind their head.
    Late,
}

/// What happened to a request, or to one attempt of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) kind: EventKind,
    pub(crate) level: &'static str,
    pub(crate) reason: &'static str,
    /// The answer's, where a backend gave one; else 0.
    pub(crate) status: u16,
    pub(crate) class: ClassIndex,
    pub(crate) cell: Option<CellIndex>,
    /// Where the route has to do with it.
    pub(crate) route: Option<&'a Route>,
    /// How long it took to the answer's head, and whether that was more than half of what the route has.
    pub(crate) took: Option<(Duration, bool)>,
}
