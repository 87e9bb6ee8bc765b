//! HTTP/1.1 messages read byte for byte, by code that shares nothing with the product.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The first line and the fields of a message, names in lower case.
#[derive(Debug, Clone, Default)]
pub(crate) struct Head {
    pub(crate) line: String,
    pub(crate) fields: Vec<(String, String)>,
}

/// How a message's body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
    /// Responses only.
    UntilClose,
    /// A length that is no number: where the body ends cannot be known.
    Unknown,
}

impl Head {
    /// The only value of a field; `None` where it is absent.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let first = values.next();
        assert!(values.next().is_none(), "{name} is there more than once in {self:?}");
        first
    }

    /// The second word of the first line: a response's status, a request's target.
    pub(crate) fn second_word(&self) -> &str {
        self.line.split(' ').nth(1).unwrap_or_default()
    }

    fn framing(&self) -> Option<Framing> {
        if self.field("transfer-encoding").is_some_and(|coding| coding.ends_with("chunked")) {
            return Some(Framing::Chunked);
        }
        self.field("content-length").map(|length| length_of(length).map_or(Framing::Unknown, Framing::Length))
    }

    /// How the body of a request with this head ends.
    pub(crate) fn request_framing(&self) -> Framing {
        self.framing().unwrap_or(Framing::None)
    }

    /// How the body of a response with this head ends; `bodiless` for answers to HEAD.
    pub(crate) fn response_framing(&self, bodiless: bool) -> Framing {
        if bodiless || self.second_word().starts_with('1') || ["204", "304"].contains(&self.second_word()) {
            return Framing::None;
        }
        self.framing().unwrap_or(Framing::UntilClose)
    }
}

/// A length of digits alone (RFC 9110 section 8.6).
fn length_of(value: &str) -> Option<u64> {
    value.bytes().all(|byte| byte.is_ascii_digit()).then(|| value.parse().ok())?
}

/// Reads a head; `None` where the connection ends before its first byte.
pub(crate) async fn read_head(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Head>> {
    let mut head = Head::default();
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line).await? == 0 {
            return if head.line.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
        let line = String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned();
        match line.split_once(':') {
            _ if head.line.is_empty() => head.line = line,
            Some((name, value)) => head.fields.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None if line.is_empty() => return Ok(Some(head)),
            None => return Err(io::Error::other(format!("no field: {line:?}"))),
        }
    }
}

/// Reads some of a body: at most one chunk. Nothing is left after an empty answer.
pub(crate) async fn read_part(
    reader: &mut (impl AsyncBufRead + Unpin),
    framing: &mut Framing,
) -> io::Result<Vec<u8>> {
    let part = match framing {
        Framing::None | Framing::Length(0) => return Ok(Vec::new()),
        Framing::Unknown => return Err(io::Error::other("the length of the body is no number")),
        Framing::UntilClose => {
            let part = reader.fill_buf().await?.to_vec();
            reader.consume(part.len());
            part
        }
        Framing::Length(left) => {
            let available = reader.fill_buf().await?;
            let n = available.len().min(usize::try_from(*left).unwrap());
            let part = available[..n].to_vec();
            reader.consume(n);
            if part.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *left -= n as u64;
            return Ok(part);
        }
        Framing::Chunked => read_chunk(reader).await?,
    };
    if part.is_empty() {
        *framing = Framing::None;
    }
    Ok(part)
}

async fn read_chunk(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut size = String::new();
    if reader.read_line(&mut size).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
    let mut chunk = vec![0; size];
    reader.read_exact(&mut chunk).await?;
    // The line that ends a chunk; behind the last one, the one that ends the (empty) trailer.
    reader.read_line(&mut String::new()).await?;
    Ok(chunk)
}

/// Reads a body to its end.
pub(crate) async fn read_body(
    reader: &mut (impl AsyncBufRead + Unpin),
    mut framing: Framing,
) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let part = read_part(reader, &mut framing).await?;
        if part.is_empty() {
            return Ok(body);
        }
        body.extend_from_slice(&part);
    }
}
