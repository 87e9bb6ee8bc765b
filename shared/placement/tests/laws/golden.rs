//! The committed vectors may never change by accident, and an independent program must find the same ones.

use std::collections::BTreeMap;
use std::process::Command;

use cofferdam_model::{CellState, Shard};
use cofferdam_placement::{CellSpec, Inclusion, Slots, Spec};
use serde::Deserialize;
use twox_hash::XxHash3_64;

use crate::fleets::{build, cell, cell_id, tenant};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.json");
const ORACLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracle/placement.py");

#[derive(Deserialize)]
struct Golden {
    hashes: Vec<Hash>,
    fleets: Vec<Fleet>,
}

#[derive(Deserialize)]
struct Hash {
    text: String,
    seed: u64,
    xxh3: String,
}

#[derive(Deserialize)]
struct Fleet {
    name: String,
    seed: u64,
    slots: u64,
    shard_size: usize,
    cells: Vec<Cell>,
    #[serde(default)]
    proportional: bool,
    #[serde(default)]
    sizes: BTreeMap<String, usize>,
    pins: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    quarantine: BTreeMap<String, Vec<String>>,
    placed: Vec<Tenant>,
    digest: String,
}

#[derive(Deserialize)]
struct Cell {
    id: String,
    zone: String,
    weight: u32,
    #[serde(default)]
    state: Option<String>,
}

#[derive(Deserialize)]
struct Tenant {
    tenant: String,
    slot: u32,
    shard: Vec<String>,
    reason: String,
    /// Where cells drain.
    before_drain: Option<Vec<String>>,
}

impl Fleet {
    fn spec(&self) -> Spec {
        let named = |named: &BTreeMap<String, Vec<String>>| {
            let shard = |(id, cells): (&String, &Vec<String>)| {
                (tenant(id), cells.iter().map(|id| cell_id(id)).collect())
            };
            named.iter().map(shard).collect()
        };
        let cell = |c: &Cell| {
            let state = c.state.as_ref().map_or(CellState::Active, |state| state.parse().unwrap());
            CellSpec { state, ..cell(&c.id, &c.zone, c.weight) }
        };
        Spec {
            seed: self.seed,
            slots: Slots::from_count(self.slots).unwrap(),
            cells: self.cells.iter().map(cell).collect(),
            inclusion: if self.proportional { Inclusion::Proportional } else { Inclusion::Weight },
            shard_size: self.shard_size,
            sizes: self.sizes.iter().map(|(id, size)| (tenant(id), *size)).collect(),
            pins: named(&self.pins),
            quarantine: named(&self.quarantine),
        }
    }
}

fn golden() -> Golden {
    serde_json::from_str(&std::fs::read_to_string(GOLDEN).unwrap()).unwrap()
}

#[test]
fn hashes_are_golden() {
    let hashes = golden().hashes;
    assert!(hashes.len() >= 5);
    for Hash { text, seed, xxh3 } in hashes {
        let hash = XxHash3_64::oneshot_with_seed(seed, text.as_bytes());
        assert_eq!(format!("{hash:016x}"), xxh3, "{text:?} with seed {seed}");
    }
}

#[test]
fn digests_and_shards_are_golden() {
    let fleets = golden().fleets;
    assert!(fleets.len() >= 2);
    for fleet in fleets {
        let placement = build(&fleet.spec());
        assert_eq!(placement.digest().to_string(), fleet.digest, "{}", fleet.name);
        for golden in fleet.placed {
            let placed = placement.place(&tenant(&golden.tenant));
            let names = |shard: Shard<'_>| -> Vec<_> {
                shard.cells().iter().map(|cell| placement.cells()[cell.get()].to_string()).collect()
            };
            let before = placement.shard_before_drain(&tenant(&golden.tenant)).map(names);
            assert_eq!(placed.slot, golden.slot, "{} in {}", golden.tenant, fleet.name);
            assert_eq!(names(placed.shard), golden.shard, "{} in {}", golden.tenant, fleet.name);
            assert_eq!(before, golden.before_drain, "{} in {}", golden.tenant, fleet.name);
            assert_eq!(placed.reason.as_str(), golden.reason, "{} in {}", golden.tenant, fleet.name);
        }
    }
}

/// The program gets the file's questions and answers them anew; it prints the whole file again.
#[test]
fn an_independent_program_finds_the_same_hashes_digests_and_shards() {
    // -B: a test leaves no compiled files in the sources.
    let run = Command::new("python3").args(["-B", ORACLE, GOLDEN]).output();
    let output = run.expect("this test needs python3 in the PATH");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answered: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let committed: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(GOLDEN).unwrap()).unwrap();
    assert_eq!(answered, committed);
}
