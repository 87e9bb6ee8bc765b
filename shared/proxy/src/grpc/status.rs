//! How a call is refused: 200, no body, and a status of gRPC's own in the head (Trailers-Only).

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use crate::problem::Problem;

/// A call's status, in its trailers or its head.
pub const STATUS: HeaderName = HeaderName::from_static("grpc-status");

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const PUSHBACK: HeaderName = HeaderName::from_static("grpc-retry-pushback-ms");

/// The statuses that an intermediary gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The call cannot be served as it is.
    InvalidArgument = 3,
    /// The time is over.
    DeadlineExceeded = 4,
    /// What the call is for is not here.
    NotFound = 5,
    /// The caller may not do it.
    PermissionDenied = 7,
    /// A limit was reached: of time, of concurrency, of size.
    ResourceExhausted = 8,
    /// The way that the call takes has to be mended first.
    FailedPrecondition = 9,
    /// Nobody here does it.
    Unimplemented = 12,
    /// Something broke that should not.
    Internal = 13,
    /// Try again later.
    Unavailable = 14,
    /// The caller is unknown.
    Unauthenticated = 16,
}

/// Which code a status of HTTP is to a call. Where this differs from the gRPC project's own mapping, which is for answers
/// of intermediaries that know nothing of gRPC, it is more exact.
const OF_HTTP: [(u16, Code); 16] = [
    (400, Code::InvalidArgument),
    (401, Code::Unauthenticated),
    (403, Code::PermissionDenied),
    (404, Code::NotFound),
    (405, Code::Unimplemented),
    (408, Code::DeadlineExceeded),
    (413, Code::ResourceExhausted),
    (414, Code::InvalidArgument),
    (429, Code::ResourceExhausted),
    (431, Code::ResourceExhausted),
    (500, Code::Internal),
    (501, Code::Unimplemented),
    (502, Code::Unavailable),
    (503, Code::Unavailable),
    (504, Code::DeadlineExceeded),
    (508, Code::FailedPrecondition),
];

impl Code {
    /// The code that a call is refused with where any other request would get this status.
    pub fn of_http(status: StatusCode) -> Self {
        let found = OF_HTTP.iter().find(|(http, _)| *http == status.as_u16());
        match found {
            Some((_, code)) => *code,
            None if status.is_client_error() => Self::InvalidArgument,
            None => Self::Internal,
        }
    }
}

/// The fields that end a call.
pub fn trailers(code: Code, message: &str) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(2);
    fields.insert(STATUS, HeaderValue::from(code as u16));
    // Encoded, it is plain ASCII.
    if let Ok(message) = HeaderValue::try_from(encoded(message)) {
        fields.insert(MESSAGE, message);
    }
    fields
}

/// A problem as a call is told of it. Its fields stay, and a wait is said in gRPC's own way as well.
pub fn refusal(problem: Problem) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let fields = response.headers_mut();
    *fields = problem.fields().clone();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.extend(trailers(Code::of_http(problem.status()), &problem.words()));
    let wait = fields.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.parse::<u64>().ok());
    if let Some(seconds) = wait {
        fields.insert(PUSHBACK, HeaderValue::from(seconds.saturating_mul(1000)));
    }
    response
}

/// A message as its field has it: all but printable ASCII, and the percent sign, as `%XX` of its bytes.
fn encoded(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => {
                const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
                text.push('%');
                text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                text.push(char::from(DIGITS[usize::from(byte & 15)]));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_has_its_code() {
        for (status, code) in [
            (400, 3),
            (401, 16),
            (403, 7),
            (404, 5),
            (405, 12),
            (408, 4),
            (413, 8),
            (414, 3),
            (418, 3),
            (429, 8),
            (431, 8),
            (500, 13),
            (501, 12),
            (502, 14),
            (503, 14),
            (504, 4),
            (507, 13),
            (508, 9),
        ] {
            assert_eq!(Code::of_http(StatusCode::from_u16(status).unwrap()) as u8, code, "{status}");
        }
    }

    #[test]
    fn a_refusal_is_200_without_a_body_and_keeps_its_fields() {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "urn:x:rate".into(), "Too fast")
            .detail("100% of 5/s is \u{fc}sed\n")
            .field(HeaderName::from_static("x-why"), HeaderValue::from_static("rate"))
            .retry_after(2);
        let answer = refusal(problem);
        assert_eq!((answer.status(), answer.body().len()), (StatusCode::OK, 0));
        let field = |name: &str| answer.headers()[name].to_str().unwrap();
        assert_eq!((field("content-type"), field("grpc-status")), ("application/grpc", "8"));
        assert_eq!(field("grpc-message"), "Too fast: 100%25 of 5/s is %C3%BCsed%0A");
        assert_eq!((field("retry-after"), field("grpc-retry-pushback-ms")), ("2", "2000"));
        assert_eq!(field("x-why"), "rate");
        let without = Problem::new(StatusCode::BAD_GATEWAY, "urn:x:lost".into(), "Lost");
        let answer = refusal(without);
        assert_eq!(answer.headers()["grpc-message"], "Lost");
        assert!(!answer.headers().contains_key("grpc-retry-pushback-ms"));
    }
}
