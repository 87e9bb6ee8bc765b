//! The hashes of placement: tenant to slot, cell to seed, and both to a uniform draw. They know bytes and numbers only.

use cofferdam_model::{CellId, TenantId};
use twox_hash::XxHash3_64;

use crate::spec::Slots;

/// 2^64 over the golden ratio, the increment of splitmix64. Added to a slot so that slot 0 is not a fixed point of
/// [`mix`].
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The tenant's slot: the highest bits of its hash.
pub(crate) fn slot_of(tenant: &TenantId, seed: u64, slots: Slots) -> u32 {
    // At most 20 bits remain, so the cast loses nothing.
    (XxHash3_64::oneshot_with_seed(seed, tenant.as_bytes()) >> (64 - slots.bits())) as u32
}

/// What makes a cell's draws its own: it hangs on the immutable id, never on an address or an index.
pub(crate) fn cell_seed(cell: &CellId, seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, cell.as_str().as_bytes())
}

/// What a slot's draws have in common.
pub(crate) fn slot_salt(slot: u32) -> u64 {
    stage_salt(slot, 0)
}

/// The same for draws of several stages, which have nothing to do with each other.
pub(crate) fn stage_salt(slot: u32, stage: u8) -> u64 {
    mix(((u64::from(stage) << 32) | u64::from(slot)).wrapping_add(GOLDEN_GAMMA))
}

/// The uniform draw of a cell in a slot.
pub(crate) fn draw(cell_seed: u64, slot_salt: u64) -> u64 {
    mix(cell_seed ^ slot_salt)
}

/// The finalizer of splitmix64 (Steele, Lea and Flood 2014, with Stafford's thirteenth set of constants).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
    }

    #[test]
    fn hash_is_xxh3_with_64_bits() {
        assert_eq!(XxHash3_64::oneshot_with_seed(0, b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(XxHash3_64::oneshot_with_seed(0, b"acme"), 0x44ad_9865_5d88_58e1);
        assert_eq!(XxHash3_64::oneshot_with_seed(0, b"globex"), 0x1424_1131_b990_e72f);
        assert_eq!(XxHash3_64::oneshot_with_seed(1, b"tenant-1"), 0xb63c_9e42_2c37_051d);
        assert_eq!(cell_seed(&CellId::parse("cell-a").unwrap(), 0), 0xb959_8345_e430_b3a0);
    }

    #[test]
    fn slot_is_the_highest_bits_of_the_hash() {
        for (id, slot) in [("acme", 17581), ("globex", 5156), ("tenant-1", 25089)] {
            assert_eq!(slot_of(&tenant(id), 0, Slots::Pow16), slot);
            assert_eq!(slot_of(&tenant(id), 0, Slots::Pow20) >> 4, slot);
        }
        assert_eq!(slot_of(&tenant("tenant-1"), 1, Slots::Pow16), 0xb63c);
        assert_eq!(slot_of(&tenant("tenant-1"), 1, Slots::Pow20), 0xb63c9);
    }

    #[test]
    fn mix_is_the_finalizer_of_splitmix64() {
        // The first output of splitmix64 from state 0, as published with it.
        assert_eq!(mix(GOLDEN_GAMMA), 0xe220_a839_7b1d_cdaf);
        assert_eq!(slot_salt(0), 0xe220_a839_7b1d_cdaf);
    }
}
