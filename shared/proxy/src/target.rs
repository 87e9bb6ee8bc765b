//! What a request is aimed at: the method and Host rules that every request meets before anything else.
//! Sources: RFC 9110 sections 7.2 (Host) and 9.3 (methods), RFC 9112 section 3.2 (request target), RFC 9113 section 8.3.1
//! (`:authority`), RFC 3986 section 3 (scheme and authority).

use http::header::{HOST, HeaderValue, MAX_FORWARDS};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{Method, Uri, Version};

use crate::authority;
pub use crate::framing::FramingError;

/// The most bytes of path and query; more are answered 414.
pub const MAX_TARGET: usize = 8 * 1024;
/// What Allow says of a server before others: every method but CONNECT and TRACE. Those behind it may allow more, or less.
pub const ALLOWED: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

/// Where a request is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Onwards: the head is in origin form and has exactly one Host.
    Onward,
    /// `OPTIONS *`, or an OPTIONS that may be forwarded no more, is about this server, and is answered here.
    Server,
}

/// Why a request's target cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// CONNECT and TRACE are not for an intermediary of this kind.
    #[error("method is not allowed here")]
    Method,
    /// Host is missing, there more than once, or not a host.
    #[error("host is not there exactly once and well formed")]
    Host,
    /// Host and `:authority` name different hosts.
    #[error("host differs from :authority")]
    HostsDiffer,
    /// The path and the query are longer than they may be.
    #[error("request target exceeds {MAX_TARGET} bytes")]
    TooLong,
    /// The target has none of the four forms, or one that its method does not have.
    #[error("request target is neither a path, an absolute URI, nor the asterisk of OPTIONS")]
    Path,
    /// The scheme of an absolute target breaks the grammar of schemes.
    #[error("scheme of the request target is malformed")]
    Scheme,
    /// The message has a fault that its connection has seen: a reader behind this hop could find another request in it.
    #[error(transparent)]
    Framing(#[from] FramingError),
}

/// Brings a head into origin form: the authority of an absolute target replaces Host, and the path's bytes stay as
/// they came. In HTTP/2 every target with an `:authority` is absolute, and a Host beside it says the same.
///
/// # Errors
///
/// If the request cannot go on; a fault that the connection has seen before comes first.
pub fn settle(head: &mut Parts) -> Result<Target, TargetError> {
    if let Some(fault) = head.extensions.remove::<FramingError>() {
        return Err(fault.into());
    }
    if matches!(head.method, Method::CONNECT | Method::TRACE) {
        return Err(TargetError::Method);
    }
    if head.uri.path_and_query().is_some_and(|target| target.as_str().len() > MAX_TARGET) {
        return Err(TargetError::TooLong);
    }
    if head.uri.authority().is_some() && head.version == Version::HTTP_11 {
        // What is sent in its place does not make a Host that is missing, doubled or malformed a right one.
        check_host(head)?;
    }
    check_form(&head.uri, head.version)?;
    if let Some(authority) = head.uri.authority() {
        if head.version == Version::HTTP_2 {
            check_agrees(head, authority)?;
        }
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| TargetError::Host)?;
        head.headers.insert(HOST, host);
        let path = head.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
        head.uri = Uri::from(path);
    }
    check_host(head)?;
    if head.method == Method::OPTIONS && !forwards_left(head) {
        return Ok(Target::Server);
    }
    match head.uri.path_and_query().map(PathAndQuery::as_str) {
        Some("*") if head.method == Method::OPTIONS => Ok(Target::Server),
        Some(target) if target.starts_with(['/', '?']) => Ok(Target::Onward),
        _ => Err(TargetError::Path),
    }
}

/// Checks what the URI parser lets pass. An authority without a scheme is the form of CONNECT. A query without a path has
/// its place behind an authority alone, and in HTTP/2 nowhere.
fn check_form(uri: &Uri, version: Version) -> Result<(), TargetError> {
    if uri.authority().is_some() && uri.scheme().is_none() {
        return Err(TargetError::Path);
    }
    if uri.scheme_str().is_some_and(|scheme| !authority::is_scheme(scheme.as_bytes())) {
        return Err(TargetError::Scheme);
    }
    let is_query_alone = uri.path_and_query().is_some_and(|target| target.as_str().starts_with('?'));
    if is_query_alone && (version == Version::HTTP_2 || uri.authority().is_none()) {
        return Err(TargetError::Path);
    }
    Ok(())
}

/// Letters of a host have no case; anything else that differs is another host.
fn check_agrees(head: &Parts, authority: &Authority) -> Result<(), TargetError> {
    let agrees = |host: &HeaderValue| host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes());
    let mut hosts = head.headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => Ok(()),
        (Some(host), None) if agrees(host) => Ok(()),
        (Some(_), None) => Err(TargetError::HostsDiffer),
        _ => Err(TargetError::Host),
    }
}

/// Counts this hop off the Max-Forwards of an OPTIONS request (RFC 9110 section 7.6.2). False where none is left: then
/// the question is answered here.
fn forwards_left(head: &mut Parts) -> bool {
    let Some(value) = head.headers.get(MAX_FORWARDS).and_then(|value| value.to_str().ok()) else {
        return true;
    };
    let Ok(left) = value.parse::<u64>() else { return true };
    if let Some(left) = left.checked_sub(1) {
        head.headers.insert(MAX_FORWARDS, HeaderValue::from(left));
    }
    left > 0
}

fn check_host(head: &Parts) -> Result<(), TargetError> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(TargetError::Host) };
    if authority::is_host_and_port(host.as_bytes()) { Ok(()) } else { Err(TargetError::Host) }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn head(method: &str, target: &str, hosts: &[&str]) -> Parts {
        let mut builder = Request::builder().method(method).uri(target);
        for host in hosts {
            builder = builder.header("host", *host);
        }
        builder.body(()).unwrap().into_parts().0
    }

    #[test]
    fn an_absolute_target_replaces_host_and_becomes_origin_form() {
        let mut head = head("GET", "http://a.example:81/x//../%2e?q=1|", &["b.example"]);
        assert_eq!(settle(&mut head), Ok(Target::Onward));
        assert_eq!(head.headers["host"], "a.example:81");
        assert_eq!(head.uri.to_string(), "/x//../%2e?q=1|");
    }

    #[test]
    fn in_http2_authority_is_the_host_and_a_host_beside_it_says_the_same() {
        for (hosts, settled) in [
            (&[][..], Ok(Target::Onward)),
            (&["A.example:81"], Ok(Target::Onward)),
            (&["b.example"], Err(TargetError::HostsDiffer)),
            (&["a.example"], Err(TargetError::HostsDiffer)),
            (&["a.example:81", "a.example:81"], Err(TargetError::Host)),
        ] {
            let mut head = head("GET", "http://a.example:81/x?y", hosts);
            head.version = Version::HTTP_2;
            assert_eq!(settle(&mut head), settled, "{hosts:?}");
            if settled.is_ok() {
                assert_eq!(
                    (&head.headers["host"], head.uri.to_string().as_str()),
                    (&"a.example:81".parse().unwrap(), "/x?y")
                );
            }
        }
        // Without `:authority` it is as in HTTP/1.1.
        let mut head = head("GET", "/", &["a"]);
        head.version = Version::HTTP_2;
        assert_eq!(settle(&mut head), Ok(Target::Onward));
    }

    #[test]
    fn an_absolute_target_excuses_no_wrong_host() {
        for hosts in [&[][..], &["a", "b"], &["a b"]] {
            assert_eq!(settle(&mut head("GET", "http://a/", hosts)), Err(TargetError::Host), "{hosts:?}");
        }
    }

    #[test]
    fn an_options_request_is_counted_down_and_answered_at_zero() {
        for (method, value, target, left) in [
            ("OPTIONS", "2", Target::Onward, "1"),
            ("OPTIONS", "0", Target::Server, "0"),
            ("OPTIONS", "many", Target::Onward, "many"),
            ("GET", "0", Target::Onward, "0"),
        ] {
            let mut head = head(method, "/a", &["a"]);
            head.headers.insert(MAX_FORWARDS, HeaderValue::from_static(value));
            assert_eq!(settle(&mut head), Ok(target), "{method} {value}");
            assert_eq!(head.headers[MAX_FORWARDS], left);
        }
    }

    #[test]
    fn host_is_there_once_and_well_formed_and_some_methods_never_pass() {
        for hosts in [&[][..], &["a", "b"], &[""], &["a b"], &["user@a"], &["a/b"]] {
            assert_eq!(settle(&mut head("GET", "/", hosts)), Err(TargetError::Host), "{hosts:?}");
        }
        assert_eq!(settle(&mut head("TRACE", "/", &["a"])), Err(TargetError::Method));
        assert_eq!(settle(&mut head("CONNECT", "a:1", &["a"])), Err(TargetError::Method));
        assert_eq!(settle(&mut head("OPTIONS", "*", &["a"])), Ok(Target::Server));
        assert_eq!(settle(&mut head("GET", "*", &["a"])), Err(TargetError::Path));
    }

    #[test]
    fn a_target_has_one_of_four_forms() {
        for (method, target, settled) in [
            ("GET", "a.example", Err(TargetError::Path)),
            ("GET", "a.example:80", Err(TargetError::Path)),
            ("OPTIONS", "*", Ok(Target::Server)),
            ("OPTIONS", "*a", Err(TargetError::Path)),
            ("GET", "http://a?b", Ok(Target::Onward)),
            ("GET", "h2+c.d-e://a/", Ok(Target::Onward)),
            ("GET", "1ttp://a/", Err(TargetError::Scheme)),
            ("GET", "ht~tp://a/", Err(TargetError::Scheme)),
            ("GET", "http://a:65536/", Err(TargetError::Host)),
            ("GET", "http://[::1]x/", Err(TargetError::Host)),
        ] {
            assert_eq!(settle(&mut head(method, target, &["a"])), settled, "{method} {target}");
        }
        let mut query = head("GET", "http://a?b", &["a"]);
        query.version = Version::HTTP_2;
        assert_eq!(settle(&mut query), Err(TargetError::Path));
    }

    #[test]
    fn a_fault_that_the_connection_saw_comes_first() {
        let mut faulty = head("TRACE", "/", &["a"]);
        faulty.extensions.insert(FramingError::Fragment);
        assert_eq!(settle(&mut faulty), Err(FramingError::Fragment.into()));
    }
}
