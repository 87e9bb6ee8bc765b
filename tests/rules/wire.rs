//! Messages as they came, with their trailers and with whether they came whole.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use crate::support::message::{Framing, Head, read_head, read_part};

/// A message.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    /// Its body ended where the head says that it ends.
    pub(crate) whole: bool,
}

impl Message {
    /// Reads an answer; `None` where the connection ends before a whole head.
    pub(crate) async fn answer(reader: &mut (impl AsyncBufRead + Unpin), to_head: bool) -> Option<Self> {
        let head = read_head(reader).await.ok().flatten()?;
        let framing = head.response_framing(to_head);
        Some(Self::with_body(head, framing, reader).await)
    }

    /// Reads what follows a head.
    pub(crate) async fn with_body(
        head: Head,
        framing: Framing,
        reader: &mut (impl AsyncBufRead + Unpin),
    ) -> Self {
        let mut message = Self { head, ..Self::default() };
        message.whole = message.read_body(framing, reader).await.is_ok();
        message
    }

    async fn read_body(
        &mut self,
        mut framing: Framing,
        reader: &mut (impl AsyncBufRead + Unpin),
    ) -> io::Result<()> {
        loop {
            if framing == Framing::Chunked {
                return self.read_chunks(reader).await;
            }
            let part = read_part(reader, &mut framing).await?;
            if part.is_empty() {
                return Ok(());
            }
            self.body.extend_from_slice(&part);
        }
    }

    async fn read_chunks(&mut self, reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
        loop {
            let size = line(reader).await?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default(), 16);
            let size = size.map_err(io::Error::other)?;
            if size == 0 {
                break;
            }
            let start = self.body.len();
            self.body.resize(start + size, 0);
            reader.read_exact(&mut self.body[start..]).await?;
            line(reader).await?;
        }
        loop {
            let line = line(reader).await?;
            let Some((name, value)) = line.split_once(':') else { return Ok(()) };
            self.trailers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// The values of a field, or of a trailer, as one list; `None` where it is absent.
    pub(crate) fn value(fields: &[(String, String)], name: &str) -> Option<String> {
        let values: Vec<&str> =
            fields.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join(" | "))
    }
}

async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<String> {
    let mut line = String::new();
    if reader.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
