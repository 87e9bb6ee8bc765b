//! What goes out on a client's connection of HTTP/1.1: the server's bytes, and between two answers some of our own.
//!
//! - Early Hints go in front of the answer that they are about.
//! - The status line to a client of HTTP/1.0 says HTTP/1.1, which is our version (RFC 9110 section 6.2). The server lays out
//!   the answer for HTTP/1.0 all the same.
//! - The server refuses a head that it cannot parse by itself and without a word. That answer is dropped here, and the
//!   connection ends with one of ours.
//!
//! It knows no socket.

use std::sync::atomic::Ordering;

use bytes::BytesMut;
use http::StatusCode;

use super::turn::Turn;

/// No answer that the server makes by itself has as many bytes.
const MAX_BARE: usize = 1024;

const HTTP_10: &[u8] = b"HTTP/1.0 ";
const HTTP_11: &[u8] = b"HTTP/1.1 ";

/// The writing side of a connection of HTTP/1.1.
#[derive(Debug)]
pub(super) struct Writing {
    /// Bytes of ours that go out before any other.
    pub(super) ours: BytesMut,
    /// The server has written all that it had: its next bytes begin an answer.
    at_start: bool,
    /// The status by which the server refuses a head: nothing more of it goes out.
    pub(super) refused: Option<StatusCode>,
}

impl Default for Writing {
    fn default() -> Self {
        Self { ours: BytesMut::new(), at_start: true, refused: None }
    }
}

impl Writing {
    /// The server has written all that it had.
    pub(super) fn flushed(&mut self, turn: &Turn) {
        self.at_start = true;
        self.ours.unsplit(turn.next.flushed());
    }

    /// Looks at bytes that the server is about to write. The result is how many of them are done with.
    pub(super) fn look_at(&mut self, bytes: &[u8], turn: &Turn) -> usize {
        if self.refused.is_some() {
            return bytes.len();
        }
        let begins = std::mem::replace(&mut self.at_start, false);
        let (interim, is_answer) = turn.next.written(begins);
        self.ours.unsplit(interim);
        if is_answer && turn.is_http10.load(Ordering::Relaxed) && bytes.starts_with(HTTP_10) {
            self.ours.extend_from_slice(HTTP_11);
            self.ours.extend_from_slice(&bytes[HTTP_10.len()..]);
            return bytes.len();
        }
        if !begins || is_answer || turn.busy.load(Ordering::Relaxed) || !turn.heads.lock().has_begun() {
            return 0;
        }
        self.refused = refusal(bytes);
        if self.refused.is_some() { bytes.len() } else { 0 }
    }
}

/// The status of an answer that the server has made by itself.
fn refusal(bytes: &[u8]) -> Option<StatusCode> {
    let status = bytes.strip_prefix(HTTP_11).or_else(|| bytes.strip_prefix(HTTP_10))?.get(..3)?;
    let is_bare = bytes.ends_with(b"\r\n\r\n") && bytes.len() < MAX_BARE;
    StatusCode::from_bytes(status).ok().filter(|status| is_bare && status.is_client_error())
}
