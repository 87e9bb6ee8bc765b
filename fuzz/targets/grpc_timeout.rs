//! `grpc-timeout` of a call, beside a reader that counts in 128 bits; and what is left of it goes on as one again.

#![no_main]

use std::time::Instant;

use cofferdam_proxy::grpc::{Call, TIMEOUT};
use cofferdam_proxy::lines::FieldLines;
use http::request::Parts;
use http::{HeaderValue, Request, Version};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|value: &[u8]| {
    let Ok(value) = HeaderValue::from_bytes(value) else { return };
    let mut head = call(value.clone());
    let arrived = Instant::now();
    let read = Call::read(&head, arrived.into());
    let Some(nanos) = nanos(value.as_bytes()) else {
        assert!(read.is_err(), "{value:?}");
        return;
    };
    let call_read = read.unwrap();
    // What the clock cannot say has no end.
    let Some(ends) = call_read.ends() else { return };
    assert_eq!(ends.into_std().duration_since(arrived).as_nanos(), nanos, "{value:?}");
    let mut lines = FieldLines::default();
    call_read.say_timeout(&mut head.headers, &mut lines);
    assert!(!head.headers.contains_key(TIMEOUT));
    let (_, left) = lines.fields().find(|(name, _)| *name == TIMEOUT).unwrap();
    let now = Instant::now();
    let left = Call::read(&call(left), now.into()).unwrap().ends().unwrap();
    assert!(left.into_std().duration_since(now).as_nanos() <= nanos, "{value:?}");
});

/// The head of a call that names a timeout.
fn call(timeout: HeaderValue) -> Parts {
    let request = Request::post("/a.B/C").version(Version::HTTP_2).header("content-type", "application/grpc");
    request.header(TIMEOUT, timeout).body(()).unwrap().into_parts().0
}

fn nanos(value: &[u8]) -> Option<u128> {
    let text = std::str::from_utf8(value).ok()?;
    let unit: u128 = match text.chars().next_back()? {
        'n' => 1,
        'u' => 1_000,
        'm' => 1_000_000,
        'S' => 1_000_000_000,
        'M' => 60_000_000_000,
        'H' => 3_600_000_000_000,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    let is_number = (1..=8).contains(&digits.len()) && digits.chars().all(|c| c.is_ascii_digit());
    is_number.then(|| digits.parse::<u128>().unwrap() * unit)
}
