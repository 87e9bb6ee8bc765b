//! What reads an upstream's bytes, without a socket: where fuzz targets and property tests come in. Each reader is told
//! the same bytes whole and in two pieces, and must make the same of them.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, StatusCode};

use super::chunked::{Decoder, Step};
use super::head::{self, BodyKind};
use super::limits::HeadLimits;

/// Reads `bytes` as the head of an answer.
///
/// # Panics
///
/// If it matters how the bytes come.
pub fn head(bytes: &[u8], cut: usize) {
    let pieces = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(read_head(&[pieces.0, pieces.1]), read_head(&[bytes]));
}

/// Reads `bytes` as a chunked body.
///
/// # Panics
///
/// If it matters how the bytes come.
pub fn chunked(bytes: &[u8], cut: usize) {
    let pieces = bytes.split_at(cut.min(bytes.len()));
    assert_eq!(read_chunked(&[pieces.0, pieces.1]), read_chunked(&[bytes]));
}

/// A whole head, how many bytes lie behind it included; nothing where it is not whole or wrong: what comes slowly is
/// found to be wrong later than what comes at once.
type ReadHead = Option<(StatusCode, HeaderMap, BodyKind, bool, usize)>;

fn read_head(pieces: &[&[u8]]) -> ReadHead {
    let (mut buffer, mut seen, mut found) = (BytesMut::new(), 0, None);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let looked_at = std::mem::replace(&mut seen, buffer.len());
        if found.is_none() && head::may_be_whole(&buffer, looked_at, HeadLimits::OUTSIDE) {
            found = head::read(&mut buffer, &Method::GET, HeadLimits::OUTSIDE).ok()?;
        }
    }
    found.map(|head| (head.parts.status, head.parts.headers, head.kind, head.keep_alive, buffer.len()))
}

/// A body's data and trailers, and how many bytes lie behind it; nothing where it is not whole.
type ReadChunked = Result<Option<(Vec<u8>, Option<HeaderMap>, usize)>, ()>;

fn read_chunked(pieces: &[&[u8]]) -> ReadChunked {
    let (mut buffer, mut decoder, mut data, mut ended) =
        (BytesMut::new(), Decoder::default(), Vec::new(), None);
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while ended.is_none() {
            match decoder.step(&mut buffer).map_err(|_| ())? {
                Step::Data(bytes) => data.extend::<Bytes>(bytes),
                Step::End(trailers) => ended = Some(trailers),
                Step::More => break,
            }
        }
    }
    Ok(ended.map(|trailers| (data, trailers, buffer.len())))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    /// Pieces of a head and of chunks, joined at random.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            "HTTP/1.1 200 OK\r\n",
            "content-length: 3",
            "a: b",
            "\r\n",
            "\n",
            "\r",
            "3",
            "0",
            ";x",
            "abc",
            " ",
        ];
        vec(select(pieces.to_vec()), 0..12).prop_map(|pieces| pieces.concat().into_bytes())
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_a_head_comes(rest in bytes(), cut in 0..80usize) {
            super::head(&[b"HTTP/1.1 200 OK\r\n".as_slice(), &rest].concat(), cut);
        }

        #[test]
        fn it_does_not_matter_how_chunks_come(bytes in bytes(), cut in 0..80usize) {
            super::chunked(&bytes, cut);
        }
    }
}
