//! Trace context: `traceparent` and `tracestate` on their way through. It opens no span of its own and decides nothing about
//! sampling. Source: W3C Trace Context, level 1 (section 3.2, section 4.3) and what level 2 keeps of it.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Which request of which trace a message belongs to.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// What vendors say of it. It means nothing without [`TRACEPARENT`].
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// What version 00 has, and what is known of every later one.
const LENGTH: usize = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".len();

/// Leaves a valid trace context as it is. A `traceparent` that is malformed or there twice is replaced by the beginning of
/// another trace, and its `tracestate` goes; so does one that has no `traceparent`. Where there is neither, neither is
/// made.
pub fn settle(fields: &mut HeaderMap) {
    // One look at each name: most messages have neither.
    if !fields.keys().any(|name| matches!(name.as_str(), "traceparent" | "tracestate")) {
        return;
    }
    let mut parents = fields.get_all(TRACEPARENT).iter();
    match (parents.next(), parents.next()) {
        (Some(parent), None) if is_valid(parent.as_bytes()) => return,
        (None, _) => {}
        _ => restart(fields),
    }
    fields.remove(TRACESTATE);
}

/// Puts the beginning of a trace in the place of what is there.
fn restart(fields: &mut HeaderMap) {
    // Zero is no id. Nobody here records anything, so the flag of sampling is 0, the default of who begins a trace.
    let (trace, parent) = (rand::random::<u128>().max(1), rand::random::<u64>().max(1));
    match HeaderValue::try_from(format!("00-{trace:032x}-{parent:016x}-00")) {
        Ok(begun) => drop(fields.insert(TRACEPARENT, begun)),
        Err(_) => drop(fields.remove(TRACEPARENT)),
    }
}

/// Whether a value is of version 00, or of a later one in the part that every later one has.
fn is_valid(value: &[u8]) -> bool {
    let Some((known, more)) = value.split_at_checked(LENGTH) else { return false };
    let (version, trace, parent, flags) = (&known[..2], &known[3..35], &known[36..52], &known[53..]);
    let has_dashes = [2, 35, 52].iter().all(|&at| known[at] == b'-');
    let is_whole = more.is_empty() || (version != b"00" && more[0] == b'-');
    has_dashes
        && is_whole
        && [version, trace, parent, flags].iter().all(|part| part.iter().all(is_digit))
        && version != b"ff"
        && [trace, parent].iter().all(|id| id.iter().any(|&digit| digit != b'0'))
}

/// Hexadecimal, in lower case alone.
fn is_digit(byte: &u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn settled(parents: &[&str], state: bool) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for parent in parents {
            fields.append(TRACEPARENT, HeaderValue::from_str(parent).unwrap());
        }
        if state {
            fields.append(TRACESTATE, HeaderValue::from_static("a=1"));
            fields.append(TRACESTATE, HeaderValue::from_static("b=2"));
        }
        settle(&mut fields);
        fields
    }

    fn parents(fields: &HeaderMap) -> Vec<&str> {
        fields.get_all(TRACEPARENT).iter().map(|value| value.to_str().unwrap()).collect()
    }

    #[test]
    fn a_valid_traceparent_and_its_tracestate_stay_as_they_are() {
        for valid in [
            VALID,
            "00-00000000000000000000000000000001-0000000000000001-00",
            "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-ff",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-will-be",
            "fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
        ] {
            let fields = settled(&[valid], true);
            assert_eq!(parents(&fields), [valid]);
            assert_eq!(fields.get_all(TRACESTATE).iter().collect::<Vec<_>>(), ["a=1", "b=2"], "{valid}");
        }
    }

    #[test]
    fn a_malformed_traceparent_is_replaced_and_its_tracestate_goes() {
        for malformed in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
            "0A-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-B7AD6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "01-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, \
             00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let fields = settled(&[malformed], true);
            let parents = parents(&fields);
            assert!(parents.len() == 1 && parents[0] != malformed, "{malformed:?} {parents:?}");
            assert!(is_valid(parents[0].as_bytes()) && parents[0].ends_with("-00"), "{parents:?}");
            assert!(!fields.contains_key(TRACESTATE), "{malformed:?}");
        }
    }

    #[test]
    fn two_are_replaced_by_one_and_each_trace_begun_is_another() {
        let begun = [settled(&[VALID, VALID], true), settled(&[VALID, VALID], true)];
        for fields in &begun {
            assert_eq!(parents(fields).len(), 1);
            assert!(!parents(fields)[0].contains("0af7651916cd43dd8448eb211c80319c"));
            assert!(!fields.contains_key(TRACESTATE));
        }
        let ids = begun.each_ref().map(|fields| parents(fields)[0].split('-').skip(1).take(2));
        let [first, second] = ids.map(Iterator::collect::<Vec<_>>);
        assert!(first[0] != second[0] && first[1] != second[1], "{first:?} {second:?}");
    }

    #[test]
    fn where_there_is_none_none_is_made_and_a_tracestate_alone_goes() {
        assert!(settled(&[], true).is_empty());
        assert!(settled(&[], false).is_empty());
    }
}
