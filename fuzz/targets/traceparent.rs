//! A trace context, beside a reader that goes by its dashes: what is valid stays, anything else makes place for what is. The
//! input is fields.

#![no_main]

use cofferdam_fuzz::fields;
use cofferdam_proxy::trace::{self, TRACEPARENT, TRACESTATE};
use http::HeaderMap;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let before = fields(input);
    let mut after = before.clone();
    trace::settle(&mut after);
    let parent = only(&before);
    match before.get_all(TRACEPARENT).iter().count() {
        0 => assert!(!after.contains_key(TRACEPARENT) && !after.contains_key(TRACESTATE)),
        _ if parent.is_some_and(is_valid) => assert_eq!(after, before),
        _ => {
            assert!(only(&after).is_some_and(|begun| is_valid(begun) && begun.starts_with(b"00-")));
            assert!(!after.contains_key(TRACESTATE));
        }
    }
    let others =
        |map: &HeaderMap| map.iter().filter(|(name, _)| ![TRACEPARENT, TRACESTATE].contains(name)).count();
    assert_eq!(others(&before), others(&after));
    let settled = after.clone();
    trace::settle(&mut after);
    assert_eq!(after, settled, "what is settled stays");
});

/// The one `traceparent` that there is.
fn only(map: &HeaderMap) -> Option<&[u8]> {
    let mut parents = map.get_all(TRACEPARENT).iter();
    parents.next().filter(|_| parents.next().is_none()).map(|value| value.as_bytes())
}

fn is_valid(value: &[u8]) -> bool {
    let parts: Vec<&[u8]> = value.split(|byte| *byte == b'-').collect();
    let [version, trace, parent, flags, more @ ..] = parts.as_slice() else { return false };
    let is_hex = |part: &[u8], length| {
        part.len() == length && part.iter().all(|byte| b"0123456789abcdef".contains(byte))
    };
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    is_hex(version, 2)
        && is_hex(trace, 32)
        && is_hex(parent, 16)
        && is_hex(flags, 2)
        && *version != b"ff"
        && !is_zero(trace)
        && !is_zero(parent)
        && (more.is_empty() || *version != b"00")
}
