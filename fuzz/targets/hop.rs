//! What a router tells an agent and an agent a router: the hop's fields, and the report of load. What is read is written
//! and read as the same. The first line is a report, those behind it are fields.

#![no_main]

use cofferdam_fuzz::fields;
use cofferdam_model::{Alphabet, Hop, Report};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (report, lines) = input.split_at(end);
    if let Ok(report) =
        std::str::from_utf8(report).map_err(drop).and_then(|text| Report::parse(text).map_err(drop))
    {
        assert!(report.classes.len() <= Report::MAX_CLASSES);
        assert_eq!(Report::parse(&report.to_string()), Ok(report));
    }
    let alphabet = Alphabet::default();
    let map = fields(lines);
    let Ok(hop) = Hop::read(&map, &alphabet) else { return };
    assert_eq!(Hop::read_tenant(&map, &alphabet), Ok(hop.tenant));
    let mut written = map.clone();
    hop.write(&mut written);
    assert_eq!(Hop::read(&written, &alphabet), Ok(hop));
});
