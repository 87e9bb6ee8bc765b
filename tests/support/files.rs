//! Texts of fleet files.

use std::fmt::Write;
use std::net::SocketAddr;

/// A cell's line in a fleet file. Cells are named in order: `cell-a`, `cell-b`, ...
pub(crate) fn cell_id(index: usize) -> String {
    format!("cell-{}", char::from(b'a' + u8::try_from(index).unwrap()))
}

/// A fleet file with cells at these addresses and without probes; `rest` has further sections.
pub(crate) fn fleet(cells: &[SocketAddr], rest: &str) -> String {
    revision(1, cells, rest)
}

/// The same, at a revision.
pub(crate) fn revision(revision: u64, cells: &[SocketAddr], rest: &str) -> String {
    let mut text = format!("fleet: test\nrevision: {revision}\ncells:\n");
    for (index, address) in cells.iter().enumerate() {
        writeln!(text, "  - {{ id: {}, url: \"http://{address}\" }}", cell_id(index)).unwrap();
    }
    text.push_str(rest);
    text.push('\n');
    text
}

/// A fleet file at a revision, with cells at these addresses; what each is there for is by their order, and else `active`.
pub(crate) fn in_states(revision: u64, cells: &[SocketAddr], states: &[&str], rest: &str) -> String {
    let mut text = format!("fleet: test\nrevision: {revision}\ncells:\n");
    for (index, address) in cells.iter().enumerate() {
        let (id, state) = (cell_id(index), states.get(index).copied().unwrap_or("active"));
        writeln!(text, "  - {{ id: {id}, url: 'http://{address}', state: {state} }}").unwrap();
    }
    text + rest
}

/// A fleet file with one cell, which everybody has.
pub(crate) fn alone(cell: SocketAddr, rest: &str) -> String {
    fleet(&[cell], &format!("placement: {{ shard_size: 1 }}\n{rest}"))
}

/// Pins tenant `acme` to the first two cells and `globex` to the same, the other way round.
pub(crate) const PINS: &str = "placement: { pins: { acme: [cell-a, cell-b], globex: [cell-b, cell-a] } }\n";
