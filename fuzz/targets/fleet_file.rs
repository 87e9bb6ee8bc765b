//! The fleet file, from text to checked values. A problem has a place in the file; what is taken can classify any path.

#![no_main]

use std::path::Path;

use cofferdam_fleet::{Fleet, FleetError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    // A seed file may lie anywhere, and a device is none that a test should read.
    if text.contains("seed_file") {
        return;
    }
    match Fleet::parse(text, Path::new("/nowhere")) {
        Ok(loaded) => {
            let fleet = loaded.fleet;
            assert!(!fleet.cells.is_empty());
            assert!(fleet.cells.is_sorted_by(|a, b| a.id < b.id));
            let path = text.split_whitespace().last().unwrap_or("/");
            let route = fleet.classify(&"GET".parse().unwrap(), path, Some(text));
            assert!(route.class.get() < fleet.cell.classes.len());
        }
        Err(FleetError::Problems { problems, .. }) => {
            assert!(!problems.is_empty());
            // A lone carriage return ends a line of YAML as well.
            let lines = 1 + text.matches(['\n', '\r']).count();
            for problem in problems {
                assert!(problem.line >= 1 && problem.column >= 1, "{problem}");
                assert!(problem.line as usize <= lines, "{problem}");
            }
        }
        Err(error) => panic!("{error}"),
    }
});
