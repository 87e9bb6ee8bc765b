//! The fleet file as its users meet it: text in, a fleet or messages out.

#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

mod caps;
mod changes;
mod defaults;
mod example;
mod limits;
mod refusals;
mod routes;
mod seed;
mod sources;
mod states;
mod text;
mod warnings;
mod when_full;

use std::path::Path;

use cofferdam_fleet::{Fleet, FleetError, Loaded};

/// Two cells in one zone: the first four lines of most files here.
const TWO_CELLS: &str = "fleet: f
cells:
  - { id: a, url: 'http://a:1' }
  - { id: b, url: 'http://b:1' }
";

fn parse(text: &str) -> Result<Loaded, FleetError> {
    Fleet::parse(text, Path::new("/nowhere"))
}

/// A fleet of two cells with more words from line 5 on.
fn with(more: &str) -> Fleet {
    match parse(&format!("{TWO_CELLS}{more}\n")) {
        Ok(loaded) => loaded.fleet,
        Err(error) => panic!("{more}\n{error}"),
    }
}

/// What is said of a file that must be refused.
fn refusal(text: &str) -> String {
    match parse(text) {
        Ok(loaded) => panic!("accepted: {text}\n{loaded:?}"),
        Err(error) => error.to_string(),
    }
}

/// Each line stands on line 5, behind two cells; the message is all that is said, without the file's name.
fn refused(table: &[(&str, &str)]) {
    for (line, expected) in table {
        let said = refusal(&format!("{TWO_CELLS}{line}\n"));
        assert_eq!(said, format!("fleet:{expected}"), "{line}");
    }
}
