//! Placement: which cells a tenant has. Pure and deterministic: the same file gives the same bytes on every machine.
//!
//! It does no I/O and knows neither health nor time, and nothing here that decides a shard uses a float or the order
//! of a map ([`blast`] and [`Odds`] compute odds with floats; they decide nothing).
//!
//! # The rules, exactly
//!
//! An independent program can rebuild every table from this section; `tests/oracle/placement.py` does, and the
//! digests in `tests/golden.json` hold both to it. Integers are unsigned and wrap at 64 bits.
//!
//! 1. **Slot.** `slot = XXH3_64(tenant id, seed = map seed) >> 48` with 65,536 slots, `>> 44` with 2^20. The number of
//!    slots never follows the number of cells: changing it moves everybody.
//! 2. **Uniform.** Each cell has a seed, `XXH3_64(cell id, seed = map seed)`. Each (slot, cell) has
//!    `u = mix(cell seed ^ mix(slot + 0x9e3779b97f4a7c15))`, all 64 bits wide, where `mix` is the finalizer of
//!    splitmix64: `z ^= z >> 30; z *= 0xbf58476d1ce4e5b9; z ^= z >> 27; z *= 0x94d049bb133111eb; z ^= z >> 31`. A
//!    bijection after the XOR means that two cells with different seeds never draw the same `u` in a slot. The slot is
//!    mixed first, so that the cells' draws in neighbouring slots have nothing to do with each other.
//! 3. **Logarithm.** `-log2(u / 2^64)` with 40 fractional bits; `u = 0` counts as `u = 1`, which makes 64 the largest
//!    value. With `e` the place of `u`'s highest bit, `i` the next 12 bits and `r` the 32 bits after those:
//!    `(64 - e) * 2^40 - (T[i] + ((T[i + 1] - T[i]) * r >> 32))`, where `T[i]` is `2^40 * log2(1 + i / 4096)` rounded
//!    down, for `i` from 0 to 4096. Interpolating costs less than 2^-26; what it costs an expected share is far
//!    below what 65,536 slots can show.
//! 4. **Rank.** The smallest `-log2(u) / weight` is the best: cells draw exponential waiting times, and the first to
//!    arrive is home, with probability `w / W`. Weights are whole thousandths from 1 to 1,000,000, quotients are
//!    compared by cross-multiplication in 128 bits, so ten times every weight moves nothing. Ties go to the smaller cell
//!    id, by bytes.
//! 5. **Shard.** Active cells alone take part. Where they are in several zones, each zone sends its best cell, and the shard is the `k` best of
//!    those, best first; the first is home. In one zone it is the `k` best cells. A shard of `k` is therefore the
//!    beginning of the shard of `k + 1`.
//!    The table is made for the largest shard of any tenant; each tenant has the beginning of its slot's.
//!    Where inclusion is asked for in proportion, a pair is drawn in two stages instead (Brewer 1963): first the smallest
//!    `-log2(u) / f`, then among the cells of the other zones (in one zone: among the other cells) the smallest `-log2(u') / weight`. With `W` all
//!    weight and `W_z` that of the cell's zone (in one zone: of the cell), `f` is `weight * (W - W_z) * 2^24 / (W - 2 W_z)`, rounded
//!    down; where some zone has just half of `W`, it is `weight` there and nobody else takes part. `u'` is `u` with `slot + 2^32` in
//!    the place of the slot. The second one is home where the last bit of `mix(slot + 2^33 + 0x9e3779b97f4a7c15)` is 1.
//!    A cell is then in `2 weight / W` of the pairs, and home in `weight / W`.
//! 6. **Pins** come before the table, and name distinct cells that are active or dedicated, within one zone too.
//!    **Quarantine** comes before pins, and names quarantine cells.
//! 7. **Digest.** XXH3-64 with seed 0 over the bytes that [`Placement::digest`] describes.
//!
//! # What moves
//!
//! One cell for each zone is a partition matroid, so the greedy choice above changes at most one member of a shard for
//! each cell added, removed or reweighted; with a second anti-affinity dimension that bound would break. It holds
//! while a fleet stays on one side of "one zone or several": the first cell in a second zone changes the rule itself,
//! and that lone cell is then in every shard of two.

pub mod blast;
mod brewer;
mod by_tenant;
mod checked;
mod comparison;
mod digest;
mod distinct;
pub mod gate;
mod hash;
mod log2;
mod named;
mod odds;
mod placement;
mod pool;
mod reason;
mod release;
mod rendezvous;
mod sets;
mod simulation;
mod spec;
mod table;
mod update;
mod violations;

pub use comparison::{CellChange, CellShare, Comparison, Remapped};
pub use distinct::{Given, Spent, distinct};
pub use odds::Odds;
pub use placement::{Placed, Placement};
pub use reason::Reason;
pub use release::Release;
pub use sets::Sets;
pub use simulation::{Simulation, Trial};
pub use spec::{CellSpec, Inclusion, MAX_CELLS, MAX_SHARD_SIZE, PlacementError, Slots, Spec};
pub use violations::Violation;
