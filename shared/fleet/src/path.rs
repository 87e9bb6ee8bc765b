//! Paths in one normal form, so that no spelling of a path escapes its route. What goes on to a cell is the path as it
//! came; this form is for matching, and for finding the tenant's segment, alone.

use std::borrow::Cow;

/// The normal form of a request's path: `//` merged, `.` and `..` resolved, and every escape of a visible ASCII
/// character decoded but `%2F` and `%25`, which would change where segments end or what is decoded twice. Escapes that
/// stay have upper case digits. A segment's parameters (`;x=1`, RFC 3986 section 3.3) are left out, as servlet containers leave
/// them out before they look for who serves a path. A path that is normal already costs a scan and no allocation.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    if is_normal(path) || !path.starts_with('/') { Cow::Borrowed(path) } else { Cow::Owned(normalise(path)) }
}

/// Whether a segment is `.` or `..` with parameters. Servlet containers resolve it and most other servers do not, so that no
/// normal form is what every backend makes of such a path.
pub fn has_ambiguous_dots(path: &str) -> bool {
    // Nearly no path has a parameter, or an escape of what begins one.
    if !path.bytes().any(|byte| matches!(byte, b';' | b'%')) {
        return false;
    }
    let mut decoded = String::new();
    path.split('/').any(|segment| {
        decoded.clear();
        decode_into(segment, &mut decoded);
        matches!(decoded.split_once(';'), Some(("." | "..", _)))
    })
}

/// Whether a path of the fleet file says what it means: normal, and without escapes, a query or spaces.
pub(crate) fn is_plain(path: &str) -> bool {
    let visible = |b: u8| b.is_ascii_graphic() && !matches!(b, b'?' | b'#' | b'%');
    path.starts_with('/') && path.bytes().all(visible) && normal_path(path) == path
}

/// Whether `prefix`, which has no slash at its end unless it is `/`, is the path or stands above it, by whole segments.
pub(crate) fn covers(prefix: &str, path: &str) -> bool {
    prefix == "/" || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a pair of the query is this one, decoded.
pub(crate) fn query_has(query: &str, name: &str, value: &str) -> bool {
    query.split('&').any(|pair| {
        let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
        decodes_to(raw_name, name) && decodes_to(raw_value, value)
    })
}

/// Cheap and never wrong in saying yes; a segment with a dot in front, such as `/.well-known`, takes the slow way.
fn is_normal(path: &str) -> bool {
    let mut before = 0;
    path.bytes().all(|byte| {
        let follows_slash = std::mem::replace(&mut before, byte) == b'/';
        !(matches!(byte, b'%' | b';') || follows_slash && matches!(byte, b'/' | b'.'))
    })
}

fn normalise(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut ends_with_slash = true;
    for segment in path.split('/') {
        let start = out.len();
        out.push('/');
        decode_into(segment, &mut out);
        if let Some(parameters) = out[start..].find(';') {
            out.truncate(start + parameters);
        }
        ends_with_slash = true;
        match &out[start + 1..] {
            "" | "." => out.truncate(start),
            ".." => {
                out.truncate(start);
                out.truncate(out.rfind('/').unwrap_or(0));
            }
            _ => ends_with_slash = false,
        }
    }
    if ends_with_slash {
        out.push('/');
    }
    out
}

fn decode_into(segment: &str, out: &mut String) {
    let mut rest = segment;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        match escaped(&rest.as_bytes()[at..]) {
            Some(byte) if byte.is_ascii_graphic() && byte != b'/' && byte != b'%' => {
                out.push(char::from(byte))
            }
            Some(byte) => out.push_str(&format!("%{byte:02X}")),
            None => {
                out.push('%');
                rest = &rest[at + 1..];
                continue;
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
}

/// The byte of an escape at the start of `bytes`.
fn escaped(bytes: &[u8]) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    match bytes {
        [b'%', high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

fn decodes_to(raw: &str, wanted: &str) -> bool {
    let mut rest = raw.as_bytes();
    for wanted in wanted.bytes() {
        let (byte, length) = match rest {
            [b'%', ..] => escaped(rest).map_or((b'%', 1), |byte| (byte, 3)),
            [b'+', ..] => (b' ', 1),
            [byte, ..] => (*byte, 1),
            [] => return false,
        };
        if byte != wanted {
            return false;
        }
        rest = &rest[length..];
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_has_one_normal_form() {
        for (path, expected) in [
            ("/v1/search", "/v1/search"),
            ("/", "/"),
            ("//v1///search/", "/v1/search/"),
            ("/v1/./search", "/v1/search"),
            ("/v1/x/../search", "/v1/search"),
            ("/../../v1", "/v1"),
            ("/v1/..", "/"),
            ("/v1/x/.", "/v1/x/"),
            ("/%76%31/se%61rch", "/v1/search"),
            ("/a/%2e%2E/v1", "/v1"),
            ("/a%2fb", "/a%2Fb"),
            ("/%252e%252e/a", "/%252e%252e/a"),
            ("/a%20b%c3%a9%zz%", "/a%20b%C3%A9%zz%"),
            ("/.well-known/x", "/.well-known/x"),
            ("/...", "/..."),
            ("/v1;x=1/search;y", "/v1/search"),
            ("/v1%3bx/search;", "/v1/search"),
            ("/;x/v1/;/search/;", "/v1/search/"),
            ("/v1/x/..;y/search", "/v1/search"),
            ("/v1;a=%2F..%2F/search", "/v1/search"),
            ("/%253bx", "/%253bx"),
            ("*", "*"),
            ("", ""),
        ] {
            assert_eq!(normal_path(path), expected, "{path}");
        }
    }

    #[test]
    fn dots_with_parameters_are_read_in_two_ways() {
        for path in ["/a/..;/b", "/a/..;x=1", "/.;/a", "/a/%2e%2e;/b", "/a/..%3B/b", "/a/%2E%3b"] {
            assert!(has_ambiguous_dots(path), "{path}");
        }
        for path in
            ["/a/../b", "/a;x=../b", "/a/...;/b", "/a/.b;/c", "/a%2f..;/b", "/a;/../b", "/a/..%253b", ""]
        {
            assert!(!has_ambiguous_dots(path), "{path}");
        }
    }

    #[test]
    fn a_path_that_is_normal_is_not_copied() {
        assert!(matches!(normal_path("/v1/search/x.y"), Cow::Borrowed(_)));
    }

    #[test]
    fn prefixes_end_with_a_segment() {
        assert!(covers("/v1/search", "/v1/search"));
        assert!(covers("/v1/search", "/v1/search/x"));
        assert!(!covers("/v1/search", "/v1/searching"));
        assert!(!covers("/v1/search", "/v1"));
        assert!(covers("/", "*"));
    }

    #[test]
    fn a_query_is_matched_decoded_and_in_any_place() {
        assert!(query_has("a=b&deep=1", "deep", "1"));
        assert!(query_has("%64eep=%31", "deep", "1"));
        assert!(query_has("q=a+b", "q", "a b"));
        assert!(query_has("flag", "flag", ""));
        for query in ["", "deep", "deep=", "deep=11", "deeper=1", "xdeep=1", "deep=%3"] {
            assert!(!query_has(query, "deep", "1"), "{query}");
        }
    }

    proptest! {
        #[test]
        fn a_normal_form_is_its_own_normal_form(path in "/[a-c./;%2fFeE13bBé]{0,24}") {
            let once = normal_path(&path).into_owned();
            prop_assert!(once.starts_with('/'));
            prop_assert!(!once.split('/').any(|segment| segment == "." || segment == ".."));
            prop_assert!(!once.contains("//") && !once.contains(';'));
            prop_assert_eq!(normal_path(&once).into_owned(), once);
        }
    }
}
