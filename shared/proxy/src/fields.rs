//! Header fields that an intermediary must take away or make anew, and lists of them.
//! Source: RFC 9110 section 7.6.1 (Connection).

use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::header::{CONNECTION, HOST, TE, TRAILER};

use crate::lines::{FieldLines, LineValue};
use crate::names::reads_as;

/// Fields about one connection only, whatever `Connection` says. TE is one more.
const HOP_BY_HOP: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authorization",
    "transfer-encoding",
    "upgrade",
];

/// Whether a field is about one connection only, or reads so, or reads as a length that it is not.
pub(crate) fn is_hop_by_hop(name: &HeaderName) -> bool {
    let text = name.as_str();
    HOP_BY_HOP.iter().any(|hop| reads_as(text, hop))
        || reads_as(text, "content-length") && *name != header::CONTENT_LENGTH
}

/// Takes away the fields that `Connection` nominates and the fixed hop-by-hop list. Fields of our own must be set
/// after this, so that a client cannot nominate them away. True where `TE` was there and said that trailers are taken.
pub fn strip_hop_by_hop(fields: &mut HeaderMap) -> bool {
    // One look at each name, since most messages have none of these: looking for each of these costs a hash.
    if !fields.keys().any(|name| is_hop_by_hop(name) || *name == TE) {
        return false;
    }
    let nominated: Vec<_> = nominated(fields).collect();
    for name in nominated {
        fields.remove(name);
    }
    remove_where(fields, is_hop_by_hop);
    let takes = lists(fields, &TE, "trailers");
    fields.remove(TE);
    takes
}

/// Removes every field whose name `doomed` says yes to.
pub(crate) fn remove_where(fields: &mut HeaderMap, doomed: impl Fn(&HeaderName) -> bool) {
    while let Some(name) = fields.keys().find(|name| doomed(name)).cloned() {
        fields.remove(name);
    }
}

/// Says that trailers are taken. Servers of HTTP/1.1 send none to who does not say so (RFC 9110 section 6.5.1).
pub fn take_trailers(lines: &mut FieldLines) {
    lines.push(&TE, &HeaderValue::from_static("trailers"));
    lines.push(&CONNECTION, &HeaderValue::from_static("te"));
}

/// What `Connection` nominates. Framing and Host are the message's own and are never nominated away; TE goes anyway.
pub(crate) fn nominated(fields: &HeaderMap) -> impl Iterator<Item = HeaderName> {
    names(fields, &CONNECTION).filter(|name| ![HOST, header::CONTENT_LENGTH, TE].contains(name))
}

/// The entries of a list field, from all of its lines and without the empty ones (RFC 9110 section 5.6.1).
pub(crate) fn entries<'a>(
    fields: &'a HeaderMap,
    list: &HeaderName,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let values = fields.get_all(list).iter();
    let entries = values.flat_map(|value| value.as_bytes().split(|&byte| byte == b','));
    entries.map(<[u8]>::trim_ascii).filter(|entry| !entry.is_empty())
}

/// Whether a list field has this token, whose letters have no case.
pub(crate) fn lists(fields: &HeaderMap, list: &HeaderName, token: &str) -> bool {
    entries(fields, list).any(|entry| entry.eq_ignore_ascii_case(token.as_bytes()))
}

/// The field names in a list field.
fn names(fields: &HeaderMap, list: &HeaderName) -> impl Iterator<Item = HeaderName> {
    entries(fields, list).filter_map(|entry| HeaderName::from_bytes(entry).ok())
}

/// Takes away every field for which `internal` answers true, and its name from what Trailer announces: the server sends
/// no trailer that was not announced.
pub fn strip_where(fields: &mut HeaderMap, internal: impl Fn(&HeaderName) -> bool) {
    remove_where(fields, &internal);
    strip_announced(fields, internal);
}

/// Takes what is about one connection only from a request's fields, as [`strip_hop_by_hop`] does, and from what Trailer
/// announces every name for which `internal` answers true. True where `TE` was there and said that trailers are taken.
pub fn strip_request(fields: &mut HeaderMap, internal: impl Fn(&HeaderName) -> bool) -> bool {
    // One look at each name, as above.
    if !fields.keys().any(is_for_this_hop) {
        return false;
    }
    let takes_trailers = strip_hop_by_hop(fields);
    strip_announced(fields, internal);
    takes_trailers
}

/// Whether a field makes [`strip_hop_by_hop`] or [`strip_announced`] look closer.
pub(crate) fn is_for_this_hop(name: &HeaderName) -> bool {
    is_hop_by_hop(name) || *name == TE || *name == TRAILER
}

/// Takes every name for which `internal` answers true from what Trailer announces.
fn strip_announced(fields: &mut HeaderMap, internal: impl Fn(&HeaderName) -> bool) {
    if fields.contains_key(TRAILER) {
        let announced = names(fields, &TRAILER).filter(|name| !internal(name));
        let announced: Vec<String> = announced.map(|name| name.to_string()).collect();
        fields.remove(TRAILER);
        if !announced.is_empty()
            && let Ok(announced) = HeaderValue::try_from(announced.join(", "))
        {
            fields.insert(TRAILER, announced);
        }
    }
}

/// Writes what `fields` has of a list field, from all of its lines, before an entry of this hop's.
pub(crate) fn before(value: &mut LineValue<'_>, fields: &HeaderMap, list: &HeaderName) {
    // An empty one would leave an empty element, which no sender makes (RFC 9110 section 5.6.1.1).
    for earlier in fields.get_all(list).iter().filter(|earlier| !earlier.is_empty()) {
        value.bytes(earlier);
        value.constant(", ");
    }
}

/// Appends `element` to a list field, joined into one line.
pub(crate) fn append(fields: &mut HeaderMap, name: HeaderName, element: HeaderValue) {
    let mut earlier = match fields.entry(name) {
        Entry::Occupied(earlier) => earlier,
        Entry::Vacant(place) => {
            place.insert(element);
            return;
        }
    };
    let mut line = Vec::new();
    // An empty one is left out here as well.
    for value in earlier.iter().filter(|value| !value.is_empty()) {
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(b", ");
    }
    line.extend_from_slice(element.as_bytes());
    if let Ok(value) = HeaderValue::from_bytes(&line) {
        earlier.insert(value);
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
            ("proxy_authorization", "Basic x"),
            ("transfer.encoding", "chunked"),
            ("content_length", "3"),
            ("content-length", "4"),
            ("x-kept", "3"),
        ]);
        strip_hop_by_hop(&mut fields);
        assert_eq!(fields, map(&[("content-length", "4"), ("x-kept", "3")]));
    }

    #[test]
    fn who_takes_trailers_is_known_though_te_goes() {
        for (te, takes) in [("trailers", true), ("deflate;q=0.5, Trailers", true), ("gzip", false)] {
            let mut fields = map(&[("connection", "te"), ("te", te)]);
            assert_eq!((strip_hop_by_hop(&mut fields), fields), (takes, map(&[])), "{te}");
        }
        assert!(!strip_hop_by_hop(&mut map(&[("trailer", "x-sum")])));
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
}
