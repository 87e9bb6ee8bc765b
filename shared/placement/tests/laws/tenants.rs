//! A tenant's way to its cells: by slot, or by pin.

use cofferdam_placement::{Reason, Slots};

use crate::fleets::{build, cell_id, equal, tenant};

// P24: the thin router's whole knowledge of a tenant is one hash and one load, and the same tenant always gets the
// same answer.
#[test]
fn tenant_has_the_cells_of_its_slot() {
    let placement = build(&equal(8));
    for (id, slot) in [("acme", 17581), ("globex", 5156), ("tenant-1", 25089)] {
        let placed = placement.place(&tenant(id));
        assert_eq!(placed.slot, slot);
        assert_eq!(placement.slot_of(&tenant(id)), slot);
        assert_eq!(placed.reason, Reason::Slot);
        assert_eq!(placed.shard, placement.shard_of_slot(slot));
        assert_eq!(build(&equal(8)).place(&tenant(id)), placed);
    }
}

#[test]
fn pin_comes_before_the_slot_and_moves_nobody_else() {
    let mut spec = equal(8);
    let free = build(&spec);
    for i in 0..50 {
        let pin = [cell_id("cell-h"), cell_id("cell-b")];
        spec.pins.insert(tenant(&format!("pinned-{i}")), pin.into());
    }
    let placement = build(&spec);
    for i in 0..50 {
        let pinned = tenant(&format!("pinned-{i}"));
        let placed = placement.place(&pinned);
        assert_eq!(placed.reason, Reason::Pin);
        assert_eq!(placed.slot, free.slot_of(&pinned));
        let cells: Vec<_> = placed.shard.cells().iter().map(|cell| &placement.cells()[cell.get()]).collect();
        assert_eq!(cells, [&cell_id("cell-h"), &cell_id("cell-b")]);
        let other = tenant(&format!("tenant-{i}"));
        assert_eq!(placement.place(&other), free.place(&other));
    }
}

#[test]
fn pin_of_one_tenant_leaves_the_others_of_its_slot_alone() {
    let placement = build(&equal(8));
    let pinned = tenant("acme");
    let slot = placement.slot_of(&pinned);
    // One tenant in 65,536 has the same slot.
    let mut ids = (0..).map(|i| tenant(&format!("tenant-{i}")));
    let neighbour = ids.find(|id| placement.slot_of(id) == slot).unwrap();
    let mut spec = equal(8);
    let shard = placement.shard_of_slot(slot).cells();
    let reversed = shard.iter().rev().map(|cell| placement.cells()[cell.get()].clone()).collect();
    spec.pins.insert(pinned, reversed);
    let with_pin = build(&spec);
    assert_ne!(with_pin.place(&pinned).shard, with_pin.shard_of_slot(slot));
    assert_eq!(with_pin.place(&neighbour).shard, with_pin.shard_of_slot(slot));
    assert_eq!(with_pin.place(&neighbour).reason, Reason::Slot);
}

#[test]
fn digest_covers_the_pins() {
    let mut spec = equal(8);
    let mut digests = vec![build(&spec).digest()];
    for (id, pin) in [
        ("acme", ["cell-a", "cell-b"]),
        ("acme", ["cell-b", "cell-a"]),
        ("globex", ["cell-b", "cell-a"]),
        ("globe", ["cell-b", "cell-a"]),
    ] {
        spec.pins = [(tenant(id), pin.map(cell_id).into())].into();
        digests.push(build(&spec).digest());
    }
    for (i, digest) in digests.iter().enumerate() {
        assert!(!digests[..i].contains(digest), "digest {i}");
    }
}

#[test]
fn slots_have_two_counts() {
    assert_eq!(Slots::from_count(65_536), Some(Slots::Pow16));
    assert_eq!(Slots::from_count(1 << 20), Some(Slots::Pow20));
    assert_eq!(Slots::default().count(), 65_536);
    for count in [0, 1, 65_535, 65_537, 1 << 17, (1 << 32) + 65_536, u64::MAX] {
        assert_eq!(Slots::from_count(count), None);
    }
}

#[test]
fn seed_stays_out_of_the_logs() {
    let mut spec = equal(2);
    spec.seed = 0x0005_ec2e_7000_1234;
    let shown = format!("{:?}", build(&spec));
    assert!(!shown.contains("seed") && !shown.contains(&spec.seed.to_string()), "{shown}");
}
