//! The chunked coding, read strictly (RFC 9112 section 7.1). It knows no sockets.
//!
//! Lines end with CR LF, sizes are at most 16 hexadecimal digits, extensions are passed over up to a bound and may have
//! no bare CR or control byte; trailers are parsed like a head's fields.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::trailers::may_trail;

/// The most bytes of a size line, extensions included.
const MAX_LINE: usize = 4096;

/// The most bytes of extensions in a whole body: a peer that sends a byte of data for a line of them wastes our time.
const MAX_EXTENSIONS: usize = 16 * 1024;

/// The most bytes of the trailers.
const MAX_TRAILERS: usize = 16 * 1024;

/// The most trailer fields.
const MAX_FIELDS: usize = 32;

/// Reads one chunked body.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    state: State,
    /// Bytes of extensions so far.
    extensions: usize,
}

#[derive(Debug, Default)]
enum State {
    /// A size line comes next.
    #[default]
    Size,
    /// This many bytes of data are left in the chunk.
    Data(u64),
    /// The CR LF behind a chunk's data comes next.
    DataEnd,
    /// Trailers, or the empty line.
    Trailers,
    Ended,
}

/// What a step of reading gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Data(Bytes),
    /// The end; with trailers where there were any.
    End(Option<HeaderMap>),
    /// More bytes are needed.
    More,
}

/// The bytes are not the chunked coding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("chunked body is malformed")]
pub(super) struct Malformed;

impl Decoder {
    /// Reads the next piece off the front of `buffer`.
    pub(super) fn step(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        loop {
            match self.state {
                State::Size => {
                    let Some(line) = line(buffer)? else { return Ok(Step::More) };
                    let (size, extensions) = size(&line)?;
                    self.extensions += extensions;
                    if self.extensions > MAX_EXTENSIONS {
                        return Err(Malformed);
                    }
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Data(left) if !buffer.is_empty() => {
                    let n = left.min(buffer.len() as u64);
                    self.state = if n == left { State::DataEnd } else { State::Data(left - n) };
                    return Ok(Step::Data(buffer.split_to(n as usize).freeze()));
                }
                State::Data(_) => return Ok(Step::More),
                State::DataEnd => match buffer.get(..2) {
                    Some(b"\r\n") => {
                        buffer.advance(2);
                        self.state = State::Size;
                    }
                    Some(_) => return Err(Malformed),
                    None if buffer.first().is_some_and(|&byte| byte != b'\r') => return Err(Malformed),
                    None => return Ok(Step::More),
                },
                State::Trailers => return self.trailers(buffer),
                State::Ended => return Ok(Step::End(None)),
            }
        }
    }

    fn trailers(&mut self, buffer: &mut BytesMut) -> Result<Step, Malformed> {
        if buffer.starts_with(b"\r\n") {
            buffer.advance(2);
            self.state = State::Ended;
            return Ok(Step::End(None));
        }
        let mut slots = [httparse::EMPTY_HEADER; MAX_FIELDS];
        match httparse::parse_headers(buffer, &mut slots) {
            Ok(httparse::Status::Complete((length, fields))) if length <= MAX_TRAILERS => {
                let map = trailers(fields)?;
                let lines = buffer.split_to(length);
                self.state = State::Ended;
                if has_bare_lf(&lines) { Err(Malformed) } else { Ok(Step::End(Some(map))) }
            }
            Ok(httparse::Status::Partial) if buffer.len() < MAX_TRAILERS => Ok(Step::More),
            _ => Err(Malformed),
        }
    }
}

/// The fields that may be trailers; the others are dropped.
fn trailers(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, Malformed> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| Malformed)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| Malformed)?;
        if may_trail(&name) {
            map.append(name, value);
        }
    }
    Ok(map)
}

fn has_bare_lf(lines: &[u8]) -> bool {
    lines.split_inclusive(|&byte| byte == b'\n').any(|line| !line.ends_with(b"\r\n"))
}

/// A line without its CR LF, or nothing yet.
fn line(buffer: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
    let searched = &buffer[..buffer.len().min(MAX_LINE)];
    let Some(lf) = searched.iter().position(|&byte| byte == b'\n') else {
        return if buffer.len() >= MAX_LINE { Err(Malformed) } else { Ok(None) };
    };
    if lf == 0 || buffer[lf - 1] != b'\r' {
        return Err(Malformed);
    }
    let line = buffer.split_to(lf - 1).freeze();
    buffer.advance(2);
    Ok(Some(line))
}

/// The size in a chunk's first line, and how many bytes of extensions come behind it.
fn size(line: &[u8]) -> Result<(u64, usize), Malformed> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (digits, rest) = line.split_at(digits);
    if digits.is_empty() || digits.len() > 16 {
        return Err(Malformed);
    }
    let extensions = rest.trim_ascii_start();
    let harmless = |&byte: &u8| byte == b'\t' || (byte >= b' ' && byte != 0x7f);
    if !(extensions.is_empty() && rest.is_empty()
        || extensions.starts_with(b";") && rest.iter().all(harmless))
    {
        return Err(Malformed);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Malformed)?;
    u64::from_str_radix(text, 16).map(|size| (size, rest.len())).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests;
