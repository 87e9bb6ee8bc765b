//! The body of an answer, with what the request holds riding in it.

use bytes::Bytes;
use cofferdam_bulkhead::Place;
use cofferdam_proxy::guard::{End, Guarded, OnEnd};
use cofferdam_proxy::payload::Payload;
use cofferdam_proxy::target;
use cofferdam_proxy::tunnel::TunnelEnd;
use http::header::ALLOW;
use http::{HeaderMap, Response, StatusCode};

use crate::breakers::Judged;
use crate::following::Timed;
use crate::last_good::Keeping;
use crate::metrics::{Outcome, Record};

/// An answer's body: the backend's with a [`Release`], or the agent's own, which holds nothing. What is held is in a box, since
/// an answer is moved a dozen times on its way out.
pub(crate) type AnswerBody = Guarded<Payload, Option<Box<Release>>>;

/// What is given back when the backend's body ends, however it ends.
pub(crate) struct Release {
    pub(crate) status: StatusCode,
    pub(crate) record: Record,
    pub(crate) place: Place,
    /// Where the class's ceiling follows the latency.
    pub(crate) timed: Option<Timed>,
    /// Where the answer may stand in for a later one.
    pub(crate) keeping: Option<Box<Keeping>>,
    /// Of a call of gRPC, whose trailers tell how it went.
    pub(crate) judged: Option<Box<Judged>>,
}

/// The answer to a question about the agent itself, which never reaches the backend.
pub(crate) fn about_itself() -> Response<AnswerBody> {
    let mut response = Response::new(Guarded::new(Payload::default(), None));
    response.headers_mut().insert(ALLOW, target::ALLOWED);
    response
}

impl Release {
    /// The tunnel that the answer led to has ended.
    pub(crate) fn tunnel_ended(self, end: TunnelEnd) {
        drop(self.place);
        self.record.end(match end {
            TunnelEnd::Closed | TunnelEnd::HalfClosed => Outcome::Served,
            TunnelEnd::UpstreamLost | TunnelEnd::Idle | TunnelEnd::Cut => Outcome::Truncated,
            TunnelEnd::ClientLost | TunnelEnd::NotBegun => Outcome::ClientGone,
        });
    }
}

impl OnEnd for Release {
    fn on_data(&mut self, data: &Bytes) {
        if let Some(keeping) = &mut self.keeping {
            keeping.add(data);
        }
        if let Some(judged) = &mut self.judged {
            judged.heard();
        }
    }

    fn on_trailers(&mut self, trailers: &mut HeaderMap) {
        if let Some(judged) = &mut self.judged {
            judged.trailers(trailers);
        }
    }

    fn on_end(self, end: End) {
        if let Some(judged) = self.judged {
            judged.ended(end);
        }
        drop(self.timed);
        // First, so that whoever reads the counters sees no place that is already counted as given back.
        drop(self.place);
        if let Some(keeping) = self.keeping.filter(|_| end == End::Complete) {
            keeping.done();
        }
        self.record.end(match end {
            End::Complete if self.status.is_server_error() => Outcome::BackendError,
            End::Complete => Outcome::Served,
            End::Failed => Outcome::Truncated,
            End::Dropped => Outcome::ClientGone,
        });
    }
}
