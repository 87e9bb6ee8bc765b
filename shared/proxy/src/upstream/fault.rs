//! Why there is no answer, told apart by what can have reached the other side.

use std::io;
use std::time::Duration;

use crate::replay::BodyError;

/// Why there is no connection. Nothing has reached the other side.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    /// Every connection that this worker may have is in use.
    #[error("{0} connections are in use")]
    Full(usize),
    /// No answer to the attempt to connect.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// Refused, unreachable, or a name that does not resolve.
    #[error("could not connect")]
    Io(#[source] io::Error),
    /// What came in answer to HTTP/2 was something else.
    #[error("HTTP/2 is not spoken there")]
    NotSpoken(#[source] io::Error),
    /// A connection was accepted, and ended or fell silent before anything of HTTP/2 came. It was never spoken there before, so
    /// that this may mean the same.
    #[error("HTTP/2 was not opened")]
    Unopened(#[source] io::Error),
}

/// Why there is no answer on a connection that stood.
#[derive(Debug, thiserror::Error)]
pub enum SendFault {
    /// The connection was found closed before anything of the request was written.
    #[error("connection closed before the request was written")]
    Unsent,
    /// The connection died before any byte of an answer; the request may have been executed.
    #[error("connection lost before an answer")]
    Lost(#[source] io::Error),
    /// What came is not an answer, or broke off within its head.
    #[error("answer is not valid HTTP")]
    Malformed(#[source] AnswerError),
    /// The request's own body failed: the client's doing.
    #[error("request body failed")]
    RequestBody(#[source] BodyError),
    /// The answer's head was not there by the deadline.
    #[error("deadline passed before an answer")]
    Late,
}

/// What is wrong with an answer. It is refused where a lenient reader and a strict one could disagree about where it
/// ends (RFC 9112 section 6.3).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// The head does not parse.
    #[error("head does not parse: {0}")]
    Head(httparse::Error),
    /// The head has more bytes than it may.
    #[error("head exceeds {0} bytes")]
    TooLarge(usize),
    /// The head broke off.
    #[error("head broke off")]
    Incomplete,
    /// A status outside 100 to 599.
    #[error("status {0} is not one")]
    Status(u16),
    /// Content-Length is not one number.
    #[error("content-length is not one number")]
    Length,
    /// A Transfer-Encoding other than `chunked` alone, or one in HTTP/1.0.
    #[error("transfer-encoding is not chunked alone")]
    Encoding,
    /// An interim answer where none is due, or too many.
    #[error("interim answer {0} is not expected")]
    Interim(u16),
    /// A stream of HTTP/2 broke the rules, of which this error code tells.
    #[error("stream is malformed: error code {0}")]
    Stream(u32),
}

/// The other side closed where it should not have.
pub(super) fn closed() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}
