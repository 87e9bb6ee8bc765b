//! The one change of protocol that is taken up: to WebSocket, by a GET of HTTP/1.1 (RFC 9110 section 7.8, RFC 6455 section
//! 4). It knows the fields alone: both ends of a hop ask for the change and make it anew, and no connection is seen here.

use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode, Version};
use hyper::upgrade::OnUpgrade;

use crate::fields::{self, entries, lists};

const PROTOCOL: &str = "websocket";

/// The lines by which a request asks for WebSocket on its next hop.
pub(crate) const ASKING: &[u8] = b"connection: upgrade\r\nupgrade: websocket\r\n";

/// Whether a request's head asks for WebSocket, in a way that is taken up. Whatever else is asked for is passed over, as
/// a server may (RFC 9110 section 7.8). The head is as the server read it: nothing is stripped yet.
pub fn is_asked(head: &Parts) -> bool {
    // The server has looked already: where no field asks for anything, this is all that it costs.
    head.extensions.get::<OnUpgrade>().is_some()
        && head.method == Method::GET
        && head.version == Version::HTTP_11
        && lists(&head.headers, &CONNECTION, "upgrade")
        && !lists(&head.headers, &CONNECTION, "close")
        && lists(&head.headers, &UPGRADE, PROTOCOL)
}

/// Whether a 101 makes the change to WebSocket, and to nothing else beside it.
pub(crate) fn is_made(fields: &HeaderMap) -> bool {
    let mut named = entries(fields, &UPGRADE);
    let is_websocket = named.next().is_some_and(|name| name.eq_ignore_ascii_case(PROTOCOL.as_bytes()));
    is_websocket && named.next().is_none() && lists(fields, &CONNECTION, "upgrade")
}

/// Takes from an answer what goes no further: what is about one connection only, and, from trailers as well, every field for
/// which `stays` answers true. What a change of protocol cannot do without, nor the demand for one (426), is made anew.
pub fn strip_answer(status: StatusCode, map: &mut HeaderMap, stays: impl Fn(&HeaderName) -> bool) {
    // One look at each name, since most answers have none of these: looking for each of them costs a hash.
    let goes = |name: &HeaderName| fields::is_for_this_hop(name) || stays(name);
    if status == StatusCode::SWITCHING_PROTOCOLS || map.keys().any(goes) {
        strip_hop_by_hop(status, map);
        fields::strip_where(map, stays);
    }
}

fn strip_hop_by_hop(status: StatusCode, map: &mut HeaderMap) {
    let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
    let names_it = (is_switch || status == StatusCode::UPGRADE_REQUIRED) && lists(map, &UPGRADE, PROTOCOL);
    fields::strip_hop_by_hop(map);
    if names_it {
        map.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        map.insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    }
    if is_switch {
        // It has no content, whatever its fields say (RFC 9110 section 8.6).
        map.remove(CONTENT_LENGTH);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(HeaderName, &'static str)]) -> HeaderMap {
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_switch_names_websocket_alone_and_says_that_it_is_one() {
        for (connection, upgrade, made) in [
            ("upgrade", "websocket", true),
            ("keep-alive, Upgrade", "WebSocket", true),
            ("upgrade", "h2c", false),
            ("upgrade", "websocket, h2c", false),
            ("upgrade", "", false),
            ("keep-alive", "websocket", false),
        ] {
            let fields = map(&[(CONNECTION, connection), (UPGRADE, upgrade)]);
            assert_eq!(is_made(&fields), made, "{connection} / {upgrade}");
        }
        assert!(!is_made(&map(&[(UPGRADE, "websocket")])));
    }

    #[test]
    fn only_a_switch_and_the_demand_for_one_say_upgrade_on_the_next_hop() {
        for (status, kept) in [(101, true), (426, true), (200, false), (400, false)] {
            let mut fields =
                map(&[(CONNECTION, "Upgrade, x-hop"), (UPGRADE, "websocket"), (CONTENT_LENGTH, "0")]);
            fields.insert("x-hop", HeaderValue::from_static("1"));
            strip_hop_by_hop(StatusCode::from_u16(status).unwrap(), &mut fields);
            let said = fields.get(UPGRADE).is_some_and(|value| value == "websocket")
                && fields.get(CONNECTION).is_some_and(|value| value == "upgrade");
            assert_eq!((said, fields.contains_key("x-hop")), (kept, false), "{status}");
            assert_eq!(fields.contains_key(CONTENT_LENGTH), status != 101, "{status}");
        }
        let mut other = map(&[(CONNECTION, "upgrade"), (UPGRADE, "h2c")]);
        strip_hop_by_hop(StatusCode::UPGRADE_REQUIRED, &mut other);
        assert!(other.is_empty());
    }
}
