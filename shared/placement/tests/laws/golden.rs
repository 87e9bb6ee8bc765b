//! The committed vectors may never change by accident, and an independent program must find the same ones.

use std::collections::BTreeMap;
use std::process::Command;

use cofferdam_placement::{Slots, Spec};
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
    pins: BTreeMap<String, Vec<String>>,
    placed: Vec<Tenant>,
    digest: String,
}

#[derive(Deserialize)]
struct Cell {
    id: String,
    zone: String,
    weight: u32,
}

#[derive(Deserialize)]
struct Tenant {
    tenant: String,
    slot: u32,
    shard: Vec<String>,
    reason: String,
}

impl Fleet {
    fn spec(&self) -> Spec {
        let pin =
            |(id, cells): (&String, &Vec<String>)| (tenant(id), cells.iter().map(|id| cell_id(id)).collect());
        Spec {
            seed: self.seed,
            slots: Slots::from_count(self.slots).unwrap(),
            cells: self.cells.iter().map(|c| cell(&c.id, &c.zone, c.weight)).collect(),
            shard_size: self.shard_size,
            pins: self.pins.iter().map(pin).collect(),
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
            let cells = placed.shard.cells().iter().map(|cell| placement.cells()[cell.get()].as_str());
            assert_eq!(placed.slot, golden.slot, "{} in {}", golden.tenant, fleet.name);
            assert!(cells.eq(golden.shard), "{} in {}", golden.tenant, fleet.name);
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
