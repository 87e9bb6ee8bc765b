//! Heads: a request's into bytes, an answer's out of bytes. It knows no sockets.

use std::io::Write;
use std::mem::MaybeUninit;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, TRANSFER_ENCODING,
    WWW_AUTHENTICATE,
};
use http::response::Parts;
use http::uri::PathAndQuery;
use http::{Method, Response, StatusCode, Version};

use super::fault::AnswerError;
use super::limits::HeadLimits;
use super::logins;
use crate::fields::lists;
use crate::framing;
use crate::lines::{FieldLines, put_field};
use crate::upgrade;

/// Room for the fields that a router adds to an answer, Via and those of limits: growing a map costs more than them all.
const ADDED_FIELDS: usize = 6;

/// Room for the fields of nearly every request; what is more makes room for itself.
const USUAL_HEAD: usize = 512;

/// A request's head as it goes upstream, in origin form; `fields` has a Host and no hop-by-hop field.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path and query, byte for byte as the client sent them.
    pub target: &'a PathAndQuery,
    /// The fields.
    pub fields: &'a HeaderMap,
    /// Which of them stay here: to pass over a field costs less than to take it out of the map.
    pub withheld: fn(&HeaderName) -> bool,
    /// What this hop adds to them.
    pub lines: &'a FieldLines,
    /// Whether WebSocket is asked for. Only then may the answer be a 101; the request has no body.
    pub upgrade: bool,
}

/// Where an answer's body ends (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    /// After this many bytes; 0 is no body.
    Length(u64),
    /// At the last chunk.
    Chunked,
    /// When the connection closes.
    Close,
}

/// An answer's head, and what it says about its body and its connection.
#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) parts: Parts,
    pub(super) kind: BodyKind,
    /// Whether the connection may serve another exchange.
    pub(super) keep_alive: bool,
}

/// Writes a request's head. How its body is framed is said by what will be sent, never by `fields`: `length` is that
/// of the body, or `None` where it goes out in chunks.
pub(super) fn write(head: Head<'_>, length: Option<u64>, out: &mut BytesMut) {
    let target = head.target.as_str();
    out.reserve(USUAL_HEAD + target.len() + head.lines.len());
    out.put_slice(head.method.as_str().as_bytes());
    out.put_slice(b" ");
    if !target.starts_with(['/', '*']) {
        // A query alone, as in `http://host?a`.
        out.put_slice(b"/");
    }
    out.put_slice(target.as_bytes());
    out.put_slice(b" HTTP/1.1\r\n");
    let mut says_length = false;
    for (name, value) in head.fields {
        if *name == CONTENT_LENGTH {
            says_length = true;
        } else if *name != TRANSFER_ENCODING && !(head.withheld)(name) {
            put_field(name, value, out);
        }
    }
    out.put_slice(head.lines.as_bytes());
    if head.upgrade {
        out.put_slice(upgrade::ASKING);
    }
    match length {
        None => out.put_slice(b"transfer-encoding: chunked\r\n"),
        // Most requests have no body, and say nothing of it.
        Some(0) if !says_length => {}
        Some(length) => {
            // Writing into memory cannot fail.
            let _ = write!(out.writer(), "content-length: {length}\r\n");
        }
    }
    out.put_slice(b"\r\n");
}

/// Whether bytes of which `seen` were looked at before can have become a whole head, or one that is refused for its
/// size. A head that comes a byte at a time would else be parsed as many times as it has bytes.
pub(super) fn may_be_whole(bytes: &[u8], seen: usize, limits: HeadLimits) -> bool {
    let new = &bytes[seen.saturating_sub(2)..];
    let ends_head = |line: &[u8]| line == b"\n" || line == b"\r\n";
    seen == 0
        || bytes.len() >= limits.bytes
        || new.split_inclusive(|&byte| byte == b'\n').skip(1).any(ends_head)
}

/// Reads an answer's head off the front of `buffer`, or says that more bytes are needed.
pub(super) fn read(
    buffer: &mut BytesMut,
    method: &Method,
    limits: HeadLimits,
) -> Result<Option<AnswerHead>, AnswerError> {
    // The parser would pass over empty lines; here they are what is left of some other answer.
    if matches!(buffer.first(), Some(b'\r' | b'\n')) {
        return Err(AnswerError::Head(httparse::Error::NewLine));
    }
    let mut slots = [const { MaybeUninit::uninit() }; HeadLimits::SLOTS];
    let slots = &mut slots[..limits.fields.min(HeadLimits::SLOTS)];
    let mut parsed = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let outcome = config.parse_response_with_uninit_headers(&mut parsed, buffer, slots);
    let length = match outcome.map_err(AnswerError::Head)? {
        httparse::Status::Complete(length) if length <= limits.bytes => length,
        httparse::Status::Partial if buffer.len() < limits.bytes => return Ok(None),
        _ => return Err(AnswerError::TooLarge(limits.bytes)),
    };
    let code = parsed.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).ok().filter(|status| status.as_u16() < 600);
    let status = status.ok_or(AnswerError::Status(code))?;
    let version = if parsed.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut places = [Place::default(); HeadLimits::SLOTS];
    let n_fields = parsed.headers.len();
    for (place, field) in places.iter_mut().zip(parsed.headers.iter()) {
        *place = Place { name: within(buffer, field.name.as_bytes()), value: within(buffer, field.value) };
    }
    let bytes = buffer.split_to(length).freeze();
    let (mut parts, ()) = Response::new(()).into_parts();
    // The version is this connection's own matter: whoever relays the answer speaks HTTP/1.1 or later.
    (parts.status, parts.version) = (status, version);
    parts.headers = fields(&places[..n_fields], &bytes)?;
    judge(parts, method).map(Some)
}

/// Where a field's name and value lie in their head: it outlives the parser's view of the buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    name: (u32, u32),
    value: (u32, u32),
}

/// Where `part` starts and ends in `whole`, of which it is a slice, and which is no longer than a buffer.
fn within(whole: &[u8], part: &[u8]) -> (u32, u32) {
    let start = (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize);
    (start as u32, (start + part.len()) as u32)
}

/// The fields; their values are slices of the head's own bytes.
fn fields(places: &[Place], bytes: &Bytes) -> Result<HeaderMap, AnswerError> {
    let mut map = HeaderMap::with_capacity(places.len() + ADDED_FIELDS);
    let range = |(start, end): (u32, u32)| start as usize..end as usize;
    for place in places {
        // The parser has checked the bytes; a name's length has no bound of its own there.
        let name = HeaderName::from_bytes(&bytes[range(place.name)])
            .map_err(|_| AnswerError::Head(httparse::Error::HeaderName))?;
        let value = HeaderValue::from_maybe_shared(bytes.slice(range(place.value)))
            .map_err(|_| AnswerError::Head(httparse::Error::HeaderValue))?;
        map.append(name, value);
    }
    Ok(map)
}

/// What an answer's fields say of its framing and of its connection.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    encoded: bool,
    closes: bool,
}

impl Framing {
    /// One look at each name, since looking for each of them costs a hash.
    fn read(fields: &HeaderMap) -> Result<Self, AnswerError> {
        let mut framing = Self::default();
        for (name, value) in fields {
            if *name == CONTENT_LENGTH {
                // The same value twice is still refused, since nobody needs it.
                if framing.length.replace(content_length(value)?).is_some() {
                    return Err(AnswerError::Length);
                }
            } else if *name == TRANSFER_ENCODING {
                framing.encoded = true;
            } else if *name == CONNECTION {
                framing.closes |= lists(fields, &CONNECTION, "close");
            } else if *name == WWW_AUTHENTICATE || *name == PROXY_AUTHENTICATE {
                framing.closes |= logins::is_offered(value);
            }
        }
        Ok(framing)
    }
}

/// Finds where the body ends. Content-Length beside Transfer-Encoding is dropped, and the connection not used again.
fn judge(mut parts: Parts, method: &Method) -> Result<AnswerHead, AnswerError> {
    let Framing { length, encoded, closes } = Framing::read(&parts.headers)?;
    if encoded
        && (parts.version == Version::HTTP_10 || framing::is_chunked_alone(&parts.headers) != Some(true))
    {
        return Err(AnswerError::Encoding);
    }
    let both = encoded && length.is_some();
    if both {
        parts.headers.remove(CONTENT_LENGTH);
    }
    let bodiless = *method == Method::HEAD
        || parts.status.is_informational()
        || matches!(parts.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let kind = match length {
        // What follows belongs to another protocol, and has no end of this one's.
        _ if parts.status == StatusCode::SWITCHING_PROTOCOLS => BodyKind::Close,
        _ if bodiless => BodyKind::Length(0),
        _ if encoded => BodyKind::Chunked,
        Some(length) => BodyKind::Length(length),
        None => BodyKind::Close,
    };
    let keep_alive = !both && !closes && kind != BodyKind::Close && parts.version == Version::HTTP_11;
    Ok(AnswerHead { parts, kind, keep_alive })
}

/// The number in a Content-Length.
fn content_length(value: &HeaderValue) -> Result<u64, AnswerError> {
    framing::content_length(value).ok_or(AnswerError::Length)
}

#[cfg(test)]
mod tests;
