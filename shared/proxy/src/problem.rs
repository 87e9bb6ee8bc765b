//! Refusals and errors as `application/problem+json` (RFC 9457).

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Map, Value};

/// One problem, as a client reads it. What only an operator should read belongs in the log instead.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    members: Map<String, Value>,
    fields: HeaderMap,
}

impl Problem {
    /// A problem of the kind `urn:cofferdam:KIND`-like `type`; `title` says the kind in words, the same each time.
    pub fn new(status: StatusCode, type_uri: String, title: &str) -> Self {
        let mut members = Map::new();
        members.insert("type".into(), type_uri.into());
        members.insert("title".into(), title.into());
        members.insert("status".into(), status.as_u16().into());
        Self { status, members, fields: HeaderMap::new() }
    }

    /// What happened this time.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        self.member("detail", detail.into())
    }

    /// A member of the kind's own.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.members.insert(name.into(), value.into());
        self
    }

    /// Retry-After in whole seconds, at least 1.
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.fields.insert(RETRY_AFTER, HeaderValue::from(seconds.max(1)));
        self
    }

    /// A field of the answer's own.
    pub fn field(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.fields.insert(name, value);
        self
    }

    /// The answer's own fields.
    pub(crate) fn fields(&self) -> &HeaderMap {
        &self.fields
    }

    /// The title, and the detail where there is one, for a protocol that has one line of text.
    pub(crate) fn words(&self) -> String {
        let word = |name: &str| self.members.get(name).and_then(Value::as_str);
        let words: Vec<_> = ["title", "detail"].into_iter().filter_map(word).collect();
        words.join(": ")
    }

    /// The problem's status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The answer: never cached.
    pub fn into_response(self) -> Response<Bytes> {
        let body = Bytes::from(Value::Object(self.members).to_string());
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.fields;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_members_and_is_never_cached() {
        let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "urn:x:rate".into(), "Too fast")
            .detail("wait")
            .member("level", "tenant")
            .retry_after(0);
        let response = problem.into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "1");
        assert_eq!(response.headers()["cache-control"], "no-store");
        let body: Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(
            body,
            serde_json::json!({"type": "urn:x:rate", "title": "Too fast", "status": 429, "detail": "wait",
                "level": "tenant"})
        );
    }
}
