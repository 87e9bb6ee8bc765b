//! The request lines of a connection of HTTP/1.1, as bytes. The server's parser drops a fragment from a target, so nobody
//! behind it can tell `/a#b` from `/a`: this finds the request lines beside it. It judges nothing else.
//!
//! The server says how each request's body is framed; what came behind the head waits for that, and then shows where the
//! next head begins. Bytes that the server refuses end the connection, whatever is made of them here.

use bytes::{Buf, BytesMut};
use memchr::memchr;

/// How the body of a request is framed, as the server read it from the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes; 0 is no body.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// The reader of request lines.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    stage: Stage,
    /// The target of the head that was read last has a fragment.
    has_fragment: bool,
    /// What came behind a head before its framing was known. The server holds the same bytes, under a bound.
    behind: BytesMut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// A request line comes next; empty lines before it are passed over.
    #[default]
    Between,
    /// In the method.
    Method,
    /// Behind the method, up to the line's end.
    Target,
    /// In the fields; whether their last line has anything in it so far.
    Fields(bool),
    /// Behind a head.
    Behind,
    /// So many bytes of a body, or of a chunk, are left; then comes the next stage of the kind.
    Body(u64),
    /// In the line that says a chunk's size: the size so far, and whether its digits are over.
    Size(u64, bool),
    Chunk(u64),
    /// Behind a chunk's bytes, up to the line's end.
    ChunkEnd,
    /// In the trailers; whether their last line has anything in it so far.
    Trailers(bool),
}

impl Heads {
    /// Takes note of bytes that the server reads.
    pub(crate) fn see(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.stage == Stage::Behind {
                self.behind.extend_from_slice(bytes);
                return;
            }
            let n = self.step(bytes);
            bytes = &bytes[n..];
        }
    }

    /// The server has read a head and hands its request on: whether its target has a fragment. What came behind the head
    /// is looked at up to the end of the next one.
    pub(crate) fn take(&mut self, framing: Framing) -> bool {
        let has_fragment = std::mem::take(&mut self.has_fragment);
        if self.stage == Stage::Behind {
            self.stage = match framing {
                Framing::Length(0) => Stage::Between,
                Framing::Length(length) => Stage::Body(length),
                Framing::Chunked => Stage::Size(0, false),
            };
            let mut behind = std::mem::take(&mut self.behind);
            while !behind.is_empty() && self.stage != Stage::Behind {
                let n = self.step(&behind);
                behind.advance(n);
            }
            self.behind = behind;
        }
        has_fragment
    }

    /// Whether bytes of a head have come that is not taken yet.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.stage, Stage::Method | Stage::Target | Stage::Fields(_) | Stage::Behind)
    }

    /// Looks at some of `bytes`, which are not empty; the result is how many.
    fn step(&mut self, bytes: &[u8]) -> usize {
        let (stage, n) = match self.stage {
            Stage::Between if matches!(bytes[0], b'\r' | b'\n') => (Stage::Between, 1),
            Stage::Between => (Stage::Method, 0),
            Stage::Method => match bytes.iter().position(|byte| matches!(byte, b' ' | b'\n')) {
                Some(at) if bytes[at] == b' ' => (Stage::Target, at + 1),
                Some(at) => (Stage::Fields(false), at + 1),
                None => (Stage::Method, bytes.len()),
            },
            Stage::Target => {
                let end = memchr(b'\n', bytes);
                self.has_fragment |= memchr(b'#', &bytes[..end.unwrap_or(bytes.len())]).is_some();
                end.map_or((Stage::Target, bytes.len()), |end| (Stage::Fields(false), end + 1))
            }
            Stage::Fields(begun) => lines(bytes, begun, Stage::Fields, Stage::Behind),
            Stage::Trailers(begun) => lines(bytes, begun, Stage::Trailers, Stage::Between),
            // Never reached: what comes then is kept.
            Stage::Behind => (Stage::Behind, bytes.len()),
            Stage::Body(left) => skip(left, bytes, Stage::Body, Stage::Between),
            Stage::Chunk(left) => skip(left, bytes, Stage::Chunk, Stage::ChunkEnd),
            Stage::Size(size, over) => size_line(size, over, bytes),
            Stage::ChunkEnd => match memchr(b'\n', bytes) {
                Some(end) => (Stage::Size(0, false), end + 1),
                None => (Stage::ChunkEnd, bytes.len()),
            },
        };
        self.stage = stage;
        n
    }
}

/// Passes lines up to an empty one.
fn lines(bytes: &[u8], mut begun: bool, within: impl Fn(bool) -> Stage, behind: Stage) -> (Stage, usize) {
    let mut at = 0;
    while let Some(end) = memchr(b'\n', &bytes[at..]) {
        let line = &bytes[at..at + end];
        at += end + 1;
        if !begun && matches!(line, b"" | b"\r") {
            return (behind, at);
        }
        begun = false;
    }
    // A CR alone may be the beginning of the empty line.
    begun |= !matches!(&bytes[at..], b"" | b"\r");
    (within(begun), bytes.len())
}

fn skip(left: u64, bytes: &[u8], within: impl Fn(u64) -> Stage, behind: Stage) -> (Stage, usize) {
    let n = left.min(bytes.len() as u64);
    let stage = if n == left { behind } else { within(left - n) };
    (stage, n as usize)
}

/// Reads a chunk's size, and passes the rest of its line.
fn size_line(mut size: u64, mut over: bool, bytes: &[u8]) -> (Stage, usize) {
    for (at, &byte) in bytes.iter().enumerate() {
        match char::from(byte).to_digit(16) {
            _ if byte == b'\n' => {
                let stage = if size == 0 { Stage::Trailers(false) } else { Stage::Chunk(size) };
                return (stage, at + 1);
            }
            // The server refuses a size that is larger than this can hold.
            Some(digit) if !over => size = size.wrapping_mul(16).wrapping_add(digit.into()),
            _ => over = true,
        }
    }
    (Stage::Size(size, over), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Framing = Framing::Length(0);

    /// What is found of the heads in `bytes`, which come in pieces of `size`; the server takes a head as soon as it can.
    fn found(bytes: &[u8], framings: &[Framing], size: usize) -> Vec<bool> {
        let (mut heads, mut found, mut framings) = (Heads::default(), Vec::new(), framings.iter());
        for piece in bytes.chunks(size) {
            heads.see(piece);
            while heads.stage == Stage::Behind
                && let Some(framing) = framings.next()
            {
                found.push(heads.take(*framing));
            }
        }
        assert!(!heads.has_begun(), "all heads are whole");
        found
    }

    #[track_caller]
    fn assert_found(bytes: &[u8], framings: &[Framing], expected: &[bool]) {
        for size in 1..=bytes.len() {
            assert_eq!(found(bytes, framings, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_fragment_is_found_in_each_request_line_and_nowhere_else() {
        for (line, is) in [
            ("GET /a HTTP/1.1", false),
            ("GET /a#b HTTP/1.1", true),
            ("GET /a# HTTP/1.1", true),
            ("GET /a?b#c HTTP/1.1", true),
            ("M#GET /a HTTP/1.1", false),
            ("GET http://a#b HTTP/1.1", true),
        ] {
            let head = format!("\r\n{line}\r\nX-A: #b\r\nX-B:\r\n\r\n");
            assert_found(head.repeat(3).as_bytes(), &[ONE, ONE, ONE], &[is, is, is]);
        }
        assert_found(b"GET /a#b HTTP/1.1\nHost: a\n\nGET / HTTP/1.1\n\n", &[ONE, ONE], &[true, false]);
    }

    #[test]
    fn what_a_body_holds_is_no_request_line() {
        let line = b"\r\n\r\nGET /a#b HTTP/1.1\r\n\r\n";
        let length = Framing::Length(line.len() as u64);
        let head = b"POST / HTTP/1.1\r\n\r\n".as_slice();
        let next = b"GET /c#d HTTP/1.1\r\n\r\n".as_slice();
        assert_found(&[head, line, next].concat(), &[length, ONE], &[false, true]);
        let size = format!("0{:X} ;#=\"a\"\r\n", line.len());
        let chunked = [size.as_bytes(), line, b"\r\n1\r\n#\r\n0\r\nX-Sum: #\r\nX: \r\n\r\n"].concat();
        assert_found(
            &[head, &chunked, next, head].concat(),
            &[Framing::Chunked, ONE, ONE],
            &[false, true, false],
        );
        assert_found(&[head, b"0\r\n\r\n", next].concat(), &[Framing::Chunked, ONE], &[false, true]);
    }

    #[test]
    fn a_head_that_is_not_whole_has_begun() {
        let mut heads = Heads::default();
        assert!(!heads.has_begun());
        for piece in ["\r\n", "G", "ET ", "/ HTTP/1.1\r\n", "a: b\r\n\r", "\n"] {
            heads.see(piece.as_bytes());
            assert_eq!(heads.has_begun(), piece != "\r\n", "{piece:?}");
        }
        heads.take(ONE);
        assert!(!heads.has_begun());
    }
}
