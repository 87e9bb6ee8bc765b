//! The digest of a placement: a stream of delimited bytes under XXH3-64. It knows how things are written down, not what
//! they mean.

use std::hash::Hasher;

use cofferdam_model::{CellIndex, Digest};
use twox_hash::XxHash3_64;

/// Collects a placement's bytes. Numbers are little-endian of a fixed width, and every text and list says its length
/// first, so that no two placements share their bytes.
pub(crate) struct DigestWriter(XxHash3_64);

impl DigestWriter {
    /// An empty stream, but for the name of its layout of bytes.
    pub(crate) fn new(layout: u8) -> Self {
        let mut writer = Self(XxHash3_64::with_seed(0));
        writer.text(&format!("cofferdam placement {layout}"));
        writer
    }

    /// A number or a length: 4 bytes.
    pub(crate) fn number(&mut self, number: u32) {
        self.0.write(&number.to_le_bytes());
    }

    /// Text of at most 64 bytes: its length, then itself.
    pub(crate) fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.0.write(text.as_bytes());
    }

    /// Cells of shards, 2 bytes each. Their number follows from what was written before.
    pub(crate) fn cells(&mut self, cells: &[CellIndex]) {
        for cell in cells {
            self.0.write(&cell.0.to_le_bytes());
        }
    }

    /// XXH3-64, seed 0, over everything written.
    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finish())
    }
}
