//! What waits to be written to a connection. It knows no sockets.
//!
//! A head and small pieces are joined, so that they go out in one write; a large piece is kept as it came, since copying
//! it would cost more than a second slice in the same write.

use std::io::IoSlice;

use bytes::{Buf, Bytes, BytesMut};

/// How much may be joined before the body is asked for more.
const HIGH_WATER: usize = 64 * 1024;

/// Pieces from this size on are not copied.
const LARGE: usize = 8 * 1024;

/// How much room an idle connection keeps.
const KEPT: usize = 8 * 1024;

/// Bytes in the order in which they are written: the joined ones, a large piece, and what closes that piece.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    joined: BytesMut,
    piece: Bytes,
    tail: &'static [u8],
}

impl Outbox {
    /// Whether another piece may be put: nothing can follow a large one until it is written.
    pub(super) fn has_room(&self) -> bool {
        self.piece.is_empty() && self.tail.is_empty() && self.joined.len() < HIGH_WATER
    }

    pub(super) fn is_empty(&self) -> bool {
        self.joined.is_empty() && self.piece.is_empty() && self.tail.is_empty()
    }

    /// Where small things are written; only while there is room.
    pub(super) fn joined(&mut self) -> &mut BytesMut {
        debug_assert!(self.piece.is_empty() && self.tail.is_empty(), "nothing may overtake a large piece");
        &mut self.joined
    }

    /// Puts a piece of a body, and what closes it; only while there is room.
    pub(super) fn put(&mut self, piece: Bytes, tail: &'static [u8]) {
        if piece.len() < LARGE {
            self.joined().extend_from_slice(&piece);
            self.joined.extend_from_slice(tail);
        } else {
            (self.piece, self.tail) = (piece, tail);
        }
    }

    /// The joined bytes where there is nothing else: a plain write is cheaper than one of slices.
    pub(super) fn plain(&self) -> Option<&[u8]> {
        (self.piece.is_empty() && self.tail.is_empty()).then_some(&*self.joined)
    }

    pub(super) fn slices(&self) -> [IoSlice<'_>; 3] {
        [IoSlice::new(&self.joined), IoSlice::new(&self.piece), IoSlice::new(self.tail)]
    }

    /// Takes away `n` bytes that were written.
    pub(super) fn advance(&mut self, n: usize) {
        (&mut self.joined).chain(&mut self.piece).chain(&mut self.tail).advance(n);
        if self.piece.is_empty() {
            // An empty slice would still hold the memory that it was cut from.
            self.piece = Bytes::new();
        }
    }

    /// Keeps little for the time until the next exchange.
    pub(super) fn rest(&mut self) {
        if self.joined.capacity() > KEPT {
            self.joined = BytesMut::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything out, `step` bytes at a time.
    fn drained(outbox: &mut Outbox, step: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !outbox.is_empty() {
            let whole: Vec<u8> = outbox.slices().iter().flat_map(|slice| slice.to_vec()).collect();
            let n = step.min(whole.len());
            all.extend_from_slice(&whole[..n]);
            outbox.advance(n);
        }
        all
    }

    #[test]
    fn pieces_leave_in_order_whatever_is_written_at_a_time() {
        for step in [1, 2, 3, 4096, LARGE + 1, usize::MAX] {
            let mut outbox = Outbox::default();
            outbox.joined().extend_from_slice(b"head ");
            outbox.put(Bytes::from_static(b"small"), b"\r\n");
            assert!(outbox.has_room() && outbox.plain() == Some(b"head small\r\n"));
            outbox.put(Bytes::from(vec![b'x'; LARGE]), b"\r\n");
            assert!(!outbox.has_room() && outbox.plain().is_none());
            let whole = [b"head small\r\n".as_slice(), &[b'x'; LARGE], b"\r\n"].concat();
            assert!(drained(&mut outbox, step) == whole, "step {step}");
            assert!(outbox.has_room());
        }
    }

    #[test]
    fn a_large_piece_is_handed_on_uncopied_and_let_go_once_written() {
        let piece = Bytes::from(vec![b'x'; LARGE]);
        let mut outbox = Outbox::default();
        outbox.put(piece.clone(), b"");
        assert_eq!(outbox.slices()[1].as_ptr(), piece.as_ptr());
        outbox.advance(LARGE);
        assert!(piece.is_unique() && outbox.is_empty());
    }
}
