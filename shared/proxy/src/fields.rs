//! Header fields that an intermediary must take away or add: hop-by-hop, forwarding, Via.
//! Sources: RFC 9110 sections 7.6.1 (Connection) and 7.6.3 (Via), RFC 7239 (Forwarded).

use std::net::IpAddr;

use http::header::{
    CONNECTION, FORWARDED, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, VIA,
};
use http::{Version, header};

/// Fields about one connection only, whatever `Connection` says.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    TE,
    TRANSFER_ENCODING,
    header::UPGRADE,
];

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Takes away the fields that `Connection` nominates and the fixed hop-by-hop list. Fields of our own must be set
/// after this, so that a client cannot nominate them away.
pub fn strip_hop_by_hop(fields: &mut HeaderMap) {
    if fields.contains_key(CONNECTION) {
        for name in nominated(fields) {
            fields.remove(name);
        }
    }
    for name in &HOP_BY_HOP {
        fields.remove(name);
    }
}

/// What `Connection` nominates. Framing and Host are the message's own and are never nominated away.
fn nominated(fields: &HeaderMap) -> Vec<HeaderName> {
    let names = tokens(fields, &CONNECTION);
    names.filter(|name| *name != HOST && *name != header::CONTENT_LENGTH).collect()
}

/// The field names in a list field.
fn tokens(fields: &HeaderMap, list: &HeaderName) -> impl Iterator<Item = HeaderName> {
    let values = fields.get_all(list).iter();
    let tokens = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    tokens.filter_map(|token| HeaderName::from_bytes(token.trim_ascii()).ok())
}

/// Takes away every field for which `internal` answers true, and its name from what Trailer announces: the server sends
/// no trailer that was not announced.
pub fn strip_where(fields: &mut HeaderMap, internal: impl Fn(&HeaderName) -> bool) {
    let doomed: Vec<HeaderName> = fields.keys().filter(|name| internal(name)).cloned().collect();
    for name in doomed {
        fields.remove(name);
    }
    if fields.contains_key(TRAILER) {
        let announced = tokens(fields, &TRAILER).filter(|name| !internal(name));
        let announced: Vec<String> = announced.map(|name| name.to_string()).collect();
        fields.remove(TRAILER);
        if !announced.is_empty() {
            append_list(fields, TRAILER, &announced.join(", "));
        }
    }
}

/// Sets X-Forwarded-For, -Proto, -Host and Forwarded. What the peer said about earlier hops is kept where the peer
/// is `trusted`, and replaced where it is not.
pub fn set_forwarded(fields: &mut HeaderMap, peer: IpAddr, trusted: bool) {
    let host = fields.get(HOST).cloned();
    if !trusted {
        for name in [X_FORWARDED_FOR, X_FORWARDED_PROTO, X_FORWARDED_HOST, FORWARDED] {
            fields.remove(name);
        }
    }
    let node = match peer {
        IpAddr::V4(address) => format!("for={address};proto=http"),
        IpAddr::V6(address) => format!("for=\"[{address}]\";proto=http"),
    };
    append_list(fields, X_FORWARDED_FOR, &peer.to_string());
    append_list(fields, FORWARDED, &node);
    if !fields.contains_key(X_FORWARDED_PROTO) {
        fields.insert(X_FORWARDED_PROTO, HeaderValue::from_static("http"));
    }
    if let Some(host) = host
        && !fields.contains_key(X_FORWARDED_HOST)
    {
        fields.insert(X_FORWARDED_HOST, host);
    }
}

/// Adds this hop to Via. `name` is the pseudonym by which [`via_has`] finds a loop.
pub fn add_via(fields: &mut HeaderMap, version: Version, name: &str) {
    let protocol = match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    };
    append_list(fields, VIA, &format!("{protocol} {name}"));
}

/// Whether `name` has handled this message before.
pub fn via_has(fields: &HeaderMap, name: &str) -> bool {
    let values = fields.get_all(VIA).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|hop| hop.split_whitespace().nth(1) == Some(name))
}

/// Appends `entry` to a list field, joined into one line.
fn append_list(fields: &mut HeaderMap, name: HeaderName, entry: &str) {
    let mut line = Vec::new();
    for value in fields.get_all(&name) {
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(b", ");
    }
    line.extend_from_slice(entry.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&line) {
        fields.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        pairs.for_each(|(name, value)| {
            map.append(name, value);
        });
        map
    }

    #[test]
    fn nominated_and_fixed_hop_by_hop_fields_go() {
        let mut fields = map(&[
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "2"),
            ("te", "trailers"),
            ("upgrade", "h2c"),
            ("keep-alive", "5"),
            ("proxy-authorization", "Basic x"),
            ("x-kept", "3"),
        ]);
        strip_hop_by_hop(&mut fields);
        assert_eq!(fields, map(&[("x-kept", "3")]));
    }

    #[test]
    fn host_and_length_cannot_be_nominated_away() {
        let mut fields =
            map(&[("connection", "host, content-length"), ("host", "a"), ("content-length", "3")]);
        strip_hop_by_hop(&mut fields);
        assert_eq!(fields, map(&[("host", "a"), ("content-length", "3")]));
    }

    #[test]
    fn an_internal_trailer_is_announced_to_nobody() {
        let mut fields = map(&[("trailer", "x-sum, Internal"), ("trailer", "x-other"), ("internal", "1")]);
        strip_where(&mut fields, |name| name == "internal");
        assert_eq!(fields, map(&[("trailer", "x-sum, x-other")]));
        let mut fields = map(&[("trailer", "internal")]);
        strip_where(&mut fields, |name| name == "internal");
        assert_eq!(fields, map(&[]));
    }

    #[test]
    fn an_untrusted_peer_cannot_forge_where_a_request_came_from() {
        let forged = [("host", "a.example"), ("x-forwarded-for", "6.6.6.6"), ("forwarded", "for=6.6.6.6")];
        let peer = IpAddr::from([10, 0, 0, 7]);
        let mut fields = map(&forged);
        set_forwarded(&mut fields, peer, false);
        assert_eq!(fields["x-forwarded-for"], "10.0.0.7");
        assert_eq!(fields["forwarded"], "for=10.0.0.7;proto=http");
        assert_eq!(fields["x-forwarded-host"], "a.example");
        let mut fields = map(&forged);
        set_forwarded(&mut fields, peer, true);
        assert_eq!(fields["x-forwarded-for"], "6.6.6.6, 10.0.0.7");
    }

    #[test]
    fn via_names_this_hop_and_finds_a_loop() {
        let mut fields = map(&[("via", "1.0 elsewhere")]);
        assert!(!via_has(&fields, "here"));
        add_via(&mut fields, Version::HTTP_11, "here");
        assert_eq!(fields["via"], "1.0 elsewhere, 1.1 here");
        assert!(via_has(&fields, "here"));
    }
}
