//! Who may ask a listener for operators: no page in a browser, whatever name it has made point here (DNS rebinding), and whatever
//! form or script it sends.

use std::net::IpAddr;

use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a question is not answered.
pub(super) type Refused = (StatusCode, &'static str);

/// The names by which operators ask a listener, beside this machine's own.
#[derive(Debug, Clone, Default)]
pub(super) struct Door {
    hosts: Box<[Box<str>]>,
}

impl Door {
    pub(super) fn new(hosts: &[String]) -> Self {
        Self { hosts: hosts.iter().map(|host| host.to_ascii_lowercase().into()).collect() }
    }

    /// Lets a question in that came by a connection to `local`.
    pub(super) fn let_in(&self, head: &Parts, local: IpAddr) -> Result<(), Refused> {
        let host = only(&head.headers, &HOST).flatten().unwrap_or_default();
        if !self.is_ours(name_of(host), local) {
            return Err((
                StatusCode::MISDIRECTED_REQUEST,
                "the Host is none of this listener's: name it by --admin-host\n",
            ));
        }
        let own = |origin: &str| {
            let rest = origin.strip_prefix("http://");
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
        };
        let is_own_origin = only(&head.headers, &ORIGIN).is_some_and(|origin| origin.is_none_or(own));
        let is_own_site = only(&head.headers, &SEC_FETCH_SITE)
            .is_some_and(|site| site.is_none_or(|site| ["same-origin", "none"].contains(&site)));
        if !is_own_origin || !is_own_site {
            return Err((StatusCode::FORBIDDEN, "a page of another origin may not ask this listener\n"));
        }
        // What a form can send is never JSON, and a script of another origin would have to ask first.
        if matches!(head.method, Method::POST | Method::PUT | Method::PATCH) && !is_json(&head.headers) {
            return Err((
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "a change is told with content-type: application/json\n",
            ));
        }
        Ok(())
    }

    fn is_ours(&self, name: &str, local: IpAddr) -> bool {
        let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        match address.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address.to_canonical() == local.to_canonical(),
            Err(_) => {
                let name = name.to_ascii_lowercase();
                name == "localhost" || self.hosts.iter().any(|host| **host == *name)
            }
        }
    }
}

/// A field's value, where it is there once at most; `None` where it is there more often, or is no text.
fn only<'m>(fields: &'m HeaderMap, name: &HeaderName) -> Option<Option<&'m str>> {
    let mut values = fields.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Some(None),
        (Some(value), None) => value.to_str().ok().map(Some),
        _ => None,
    }
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_json(fields: &HeaderMap) -> bool {
    let kind = only(fields, &CONTENT_TYPE).flatten().unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn let_in(method: &str, fields: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let door = Door::new(&["Router-1".to_owned()]);
        door.let_in(&head, [10, 0, 0, 7].into()).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn a_host_is_this_machines_own_or_named_by_a_flag() {
        for host in [
            "localhost",
            "127.0.0.1:7001",
            "127.8.8.8",
            "[::1]:1",
            "10.0.0.7:7001",
            "router-1:80",
            "ROUTER-1",
        ] {
            assert_eq!(let_in("GET", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil",
            "10.0.0.8",
            "router-1.evil",
            "user@localhost",
            "",
            "localhost:x",
        ] {
            assert_eq!(let_in("GET", &[("host", host)]), 421, "{host}");
        }
        assert_eq!(let_in("GET", &[]), 421);
        assert_eq!(let_in("GET", &[("host", "localhost"), ("host", "localhost")]), 421);
    }

    #[test]
    fn an_origin_is_the_listeners_own_and_a_change_is_json() {
        let host = ("host", "localhost:7001");
        for (name, value, status) in [
            ("origin", "http://localhost:7001", 200),
            ("origin", "http://localhost", 403),
            ("origin", "https://localhost:7001", 403),
            ("origin", "null", 403),
            ("sec-fetch-site", "none", 200),
            ("sec-fetch-site", "cross-site", 403),
        ] {
            assert_eq!(let_in("GET", &[host, (name, value)]), status, "{name}: {value}");
        }
        for (method, kind, status) in [
            ("POST", "application/json", 200),
            ("PUT", "Application/Json ;charset=utf-8", 200),
            ("POST", "text/plain", 415),
            ("PATCH", "application/jsonx", 415),
            ("GET", "text/plain", 200),
            ("DELETE", "text/plain", 200),
        ] {
            assert_eq!(let_in(method, &[host, ("content-type", kind)]), status, "{method} {kind}");
        }
        assert_eq!(let_in("POST", &[host]), 415);
    }
}
