//! Durations, by the only door that they have: a route's timeout in the fleet file, beside a reader that counts in 128
//! bits.

#![no_main]

use std::path::Path;

use cofferdam_fleet::Fleet;
use libfuzzer_sys::fuzz_target;

/// The bounds of a route's timeout, in microseconds.
const MIN_US: u128 = 1_000;
const MAX_US: u128 = 3_600_000_000;

fuzz_target!(|text: &str| {
    if text.chars().any(|c| !(c.is_ascii_graphic() || c == ' ')) {
        return;
    }
    let file = format!(
        "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}, {{ id: b, url: 'http://b:1' }}]\n\
         routes: [{{ match: {{ path: / }}, timeout: '{}' }}]\n",
        text.replace('\'', "''")
    );
    let read = Fleet::parse(&file, Path::new("/nowhere")).ok();
    let read = read.map(|loaded| loaded.fleet.routes.as_slice()[0].timeout.as_micros());
    assert_eq!(read, micros(text).filter(|us| (MIN_US..=MAX_US).contains(us)), "{text:?}");
});

fn micros(text: &str) -> Option<u128> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit: u128 = match unit.trim_start() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "min" | "m" => 60_000_000,
        "h" => 3_600_000_000,
        _ => return None,
    };
    // A number of more than 30 digits may still be small: zeros in front of it.
    let number = number.trim_start_matches('0');
    if digits == 0 || number.len() > 30 {
        return None;
    }
    Some(number.parse::<u128>().unwrap_or(0) * unit)
}
