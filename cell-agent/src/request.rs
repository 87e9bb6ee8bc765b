//! What a request must be before anything else is asked of it: a method that is relayed, a target, one Host, and no
//! loop. It knows no tenant and no class.

use http::header::{HOST, HeaderValue};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method};

use cofferdam_proxy::fields;

/// Why a request is turned away for its form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    /// CONNECT and TRACE are not relayed.
    #[error("method {0} is not relayed")]
    Method(Method),
    /// No path: `*`, or an authority alone.
    #[error("request target has no path")]
    Target,
    /// Host is missing, or there twice.
    #[error("host is not there exactly once")]
    Host,
    /// This agent has handled the request before.
    #[error("request came back to this agent")]
    Loop,
}

/// Checks a request's form and finds its target. The authority of a target in absolute form replaces Host (RFC 9112
/// section 3.2.2). `via` is this agent's pseudonym.
pub(crate) fn check(head: &mut Parts, via: &str) -> Result<PathAndQuery, BadRequest> {
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        return Err(BadRequest::Method(head.method.clone()));
    }
    let target = head.uri.path_and_query().filter(|target| target.path().starts_with('/'));
    let target = target.cloned().ok_or(BadRequest::Target)?;
    if let Some(authority) = head.uri.authority() {
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| BadRequest::Host)?;
        head.headers.insert(HOST, host);
    }
    if !is_once(&head.headers) {
        return Err(BadRequest::Host);
    }
    if fields::via_has(&head.headers, via) {
        return Err(BadRequest::Loop);
    }
    Ok(target)
}

fn is_once(fields: &HeaderMap) -> bool {
    fields.get_all(HOST).iter().count() == 1
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(
        method: &str,
        uri: &str,
        fields: &[(&str, &str)],
    ) -> (Result<PathAndQuery, BadRequest>, Parts) {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (mut head, ()) = request.body(()).unwrap().into_parts();
        (check(&mut head, "cell-a"), head)
    }

    #[test]
    fn only_requests_with_a_path_and_one_host_are_relayed() {
        let host = ("host", "a.example");
        assert_eq!(checked("GET", "/a?b", &[host]).0.unwrap(), "/a?b");
        assert_eq!(checked("TRACE", "/", &[host]).0, Err(BadRequest::Method(Method::TRACE)));
        assert_eq!(checked("OPTIONS", "*", &[host]).0, Err(BadRequest::Target));
        assert_eq!(checked("GET", "/", &[]).0, Err(BadRequest::Host));
        assert_eq!(checked("GET", "/", &[host, host]).0, Err(BadRequest::Host));
    }

    #[test]
    fn the_authority_of_an_absolute_target_replaces_host() {
        let (target, head) = checked("GET", "http://b.example/x", &[("host", "a.example")]);
        assert_eq!(target.unwrap(), "/x");
        assert_eq!(head.headers[HOST], "b.example");
    }

    #[test]
    fn a_request_that_comes_back_is_a_loop() {
        let fields = [("host", "a.example"), ("via", "1.1 router, 1.1 cell-a")];
        assert_eq!(checked("GET", "/", &fields).0, Err(BadRequest::Loop));
    }
}
