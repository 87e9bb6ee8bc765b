//! What an error of a stream means: whether the request may have been executed, and how an answer's body broke off.

use std::io;

use h2::{Error, Reason};

use crate::upstream::body::UpstreamBodyError;
use crate::upstream::fault::{AnswerError, SendFault};

/// Why there is no answer. `unwritten` says that nothing was written on the connection since the request was ready.
///
/// The other side says itself what it has not executed: by REFUSED_STREAM (RFC 9113 section 8.7), and by a GOAWAY that
/// does not count the stream among those that it may have worked on; of the others the GOAWAY says nothing, and they get
/// no such error.
pub(super) fn before_answer(error: Error, unwritten: bool) -> SendFault {
    let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
    if error.is_remote() && (refused || error.is_go_away()) {
        return SendFault::Unsent;
    }
    match error.reason() {
        Some(reason) if error.is_reset() && error.is_library() => {
            SendFault::Malformed(AnswerError::Stream(reason.into()))
        }
        None if unwritten => SendFault::Unsent,
        _ => SendFault::Lost(io::Error::other(error)),
    }
}

/// Why a body broke off. The reason that the other side gave stays here: relayed, it could promise that nothing was
/// executed.
pub(super) fn in_body(error: Error) -> UpstreamBodyError {
    if error.is_reset() && error.is_library() {
        return UpstreamBodyError::Malformed;
    }
    UpstreamBodyError::Broken(io::Error::other(error))
}
