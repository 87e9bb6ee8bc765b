//! What an intermediary has to know of gRPC over HTTP/2: which requests are calls, how long they may take, and how one is
//! refused. It reads no message. Source: gRPC over HTTP2, of the gRPC project's own documents.

mod status;
mod timeout;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Version};
use tokio::time::Instant;

pub use self::status::{Code, STATUS, refusal, trailers};
pub use self::timeout::{TIMEOUT, TimeoutError};
use crate::lines::FieldLines;

/// What kind of call a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Any request of HTTP.
    Plain,
    /// A call of gRPC.
    Grpc {
        /// When its caller stops waiting for the last of it, where that was said.
        ends: Option<Instant>,
    },
}

/// Whether a request is a call of gRPC. gRPC-Web, which has its status in the body, is none.
pub fn is_call(head: &Parts) -> bool {
    asks_grpc(head.version, &head.method, &head.headers)
}

/// The same of a whole request.
pub fn is_called_by<B>(request: &Request<B>) -> bool {
    asks_grpc(request.version(), request.method(), request.headers())
}

fn asks_grpc(version: Version, method: &Method, fields: &HeaderMap) -> bool {
    version == Version::HTTP_2 && *method == Method::POST && has_grpc_type(fields)
}

fn has_grpc_type(fields: &HeaderMap) -> bool {
    let Some(kind) = fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else { return false };
    let Some((start, rest)) = kind.split_at_checked("application/grpc".len()) else { return false };
    start.eq_ignore_ascii_case(b"application/grpc") && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
}

impl Call {
    /// The kind of a request that arrived at `arrived`.
    ///
    /// # Errors
    ///
    /// Where a call's `grpc-timeout` is none.
    pub fn read(head: &Parts, arrived: Instant) -> Result<Self, TimeoutError> {
        if !is_call(head) {
            return Ok(Self::Plain);
        }
        let timeout = timeout::read(&head.headers)?;
        // A time that the clock cannot say never comes.
        Ok(Self::Grpc { ends: timeout.and_then(|timeout| arrived.checked_add(timeout)) })
    }

    /// Whether this is a call of gRPC.
    pub fn is_grpc(self) -> bool {
        self != Self::Plain
    }

    /// When the caller stops waiting for the last of the answer, where that was said.
    pub fn ends(self) -> Option<Instant> {
        match self {
            Self::Plain => None,
            Self::Grpc { ends } => ends,
        }
    }

    /// The smaller of `deadline` and the caller's own.
    pub fn bound(self, deadline: Instant) -> Instant {
        self.ends().map_or(deadline, |ends| ends.min(deadline))
    }

    /// Says what is left of the caller's time, in the place of what `fields` say of it.
    pub fn say_timeout(self, fields: &mut HeaderMap, lines: &mut FieldLines) {
        if let Some(ends) = self.ends() {
            fields.remove(TIMEOUT);
            let left = ends.saturating_duration_since(Instant::now());
            lines.push_text(&TIMEOUT, timeout::Written(left).to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn head(version: Version, method: Method, kind: &str) -> Parts {
        let request = Request::builder().version(version).method(method).header("content-type", kind);
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_call_is_a_post_of_http2_with_grpcs_own_type() {
        for (kind, expected) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc;charset=utf-8", true),
            ("application/grpc-web+proto", false),
            ("application/grp", false),
            ("application/json", false),
        ] {
            assert_eq!(is_call(&head(Version::HTTP_2, Method::POST, kind)), expected, "{kind}");
            assert!(!is_call(&head(Version::HTTP_11, Method::POST, kind)));
            assert!(!is_call(&head(Version::HTTP_2, Method::GET, kind)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_the_smaller_one_and_what_is_left_goes_on() {
        let mut parts = head(Version::HTTP_2, Method::POST, "application/grpc");
        parts.headers.insert(TIMEOUT, HeaderValue::from_static("2S"));
        let now = Instant::now();
        let call = Call::read(&parts, now).unwrap();
        assert_eq!(call.bound(now + Duration::from_secs(1)), now + Duration::from_secs(1));
        assert_eq!(call.bound(now + Duration::from_secs(3)), now + Duration::from_secs(2));
        tokio::time::advance(Duration::from_millis(500)).await;
        let mut lines = FieldLines::default();
        call.say_timeout(&mut parts.headers, &mut lines);
        assert_eq!(lines.as_bytes(), b"grpc-timeout: 1500000u\r\n");
        assert!(!parts.headers.contains_key(TIMEOUT));
        let mut lines = FieldLines::default();
        Call::Plain.say_timeout(&mut parts.headers, &mut lines);
        assert!(lines.is_empty());
    }
}
