//! What an agent says beside an answer, in fields that no client sees. It knows no cell.

use std::time::Duration;

use cofferdam_model::{CellReason, CellRefusal, RefusalCause, headers};
use http::HeaderMap;
use http::header::HeaderValue;

use super::retry::Fault;

/// What an agent says beside an answer; a backend without one says nothing.
#[derive(Default)]
pub(super) struct Said<'a> {
    pub(super) report: Option<&'a HeaderValue>,
    /// Why it refused.
    refused: Option<&'a HeaderValue>,
    /// What made it refuse.
    cause: Option<&'a HeaderValue>,
    /// That it lost its backend, and how.
    fault: Option<&'a HeaderValue>,
    /// What a drill did to it.
    drill: Option<&'a HeaderValue>,
    /// In how many milliseconds it cuts what is left.
    leaving_ms: Option<&'a HeaderValue>,
}

impl<'a> Said<'a> {
    /// One look at each name, since most answers have none of these, or the report alone: looking for each costs a hash.
    pub(super) fn read(fields: &'a HeaderMap) -> Self {
        let mut said = Self::default();
        for (name, value) in fields.iter().filter(|(name, _)| headers::is_internal(name)) {
            if *name == headers::LOAD {
                said.report.get_or_insert(value);
            } else if *name == headers::REFUSED {
                said.refused.get_or_insert(value);
            } else if *name == headers::CAUSE {
                said.cause.get_or_insert(value);
            } else if *name == headers::FAULT {
                said.fault.get_or_insert(value);
            } else if *name == headers::DRILL {
                said.drill.get_or_insert(value);
            } else if *name == headers::LEAVING_MS {
                said.leaving_ms.get_or_insert(value);
            }
        }
        said
    }

    /// Whether the cell takes work: one that leaves, or whose backend is gone, answers as well.
    pub(super) fn takes_work(&self) -> bool {
        self.refused.is_none_or(|reason| reason != CellReason::Cell.as_str())
    }

    /// Tells an agent's own refusal from a backend's answer.
    pub(super) fn fault(&self) -> Option<Fault> {
        match self.refused {
            Some(word) => {
                let reason = CellReason::from_wire(word.as_bytes())?;
                let cause = self.cause.map(|cause| RefusalCause::from_wire(cause.as_bytes()));
                Some(Fault::Refused(CellRefusal { reason, cause: cause.unwrap_or_default() }))
            }
            None => self.fault.map(|word| Fault::BackendLost { stale: word == "stale" }),
        }
    }

    /// What a drill did to the request, if one struck it.
    pub(super) fn drill(&self) -> Option<&'static str> {
        let drill = self.drill?.as_bytes();
        ["latency", "status", "hang"].into_iter().find(|known| known.as_bytes() == drill)
    }

    /// When a cell that leaves cuts what is left.
    pub(super) fn leaves_in(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.leaving_ms?.to_str().ok()?.parse().ok()?))
    }
}
