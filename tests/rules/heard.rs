//! What a client of HTTP/2 has heard on one connection: answers, resets, acknowledgements, the end.

use std::collections::BTreeMap;
use std::io;

use loona_hpack::Decoder;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::watch;

use super::frame::kind;
use super::wire::Message;

/// Everything so far.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) streams: BTreeMap<u32, Stream>,
    /// The error of the last GOAWAY.
    pub(crate) goaway: Option<u32>,
    /// The payloads of answered pings.
    pub(crate) pongs: Vec<Vec<u8>>,
    /// The server's own settings have come.
    pub(crate) settings: bool,
    /// How many of the client's settings were acknowledged.
    pub(crate) n_acknowledged: usize,
    pub(crate) longest: usize,
    pub(crate) is_closed: bool,
    /// What no server may send.
    pub(crate) faults: Vec<String>,
}

/// One stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// The final answer; `whole` once the stream has ended.
    pub(crate) message: Message,
    pub(crate) reset: Option<u32>,
}

/// Reads until the connection ends.
pub(crate) async fn listen(mut from: impl AsyncRead + Unpin, heard: watch::Sender<Heard>) {
    let mut decoder = Decoder::new();
    let mut block = Vec::new();
    while let Ok((kind, flags, stream, payload)) = read(&mut from).await {
        heard.send_modify(|heard| heard.frame(kind, flags, stream, &payload, &mut decoder, &mut block));
    }
    heard.send_modify(|heard| heard.is_closed = true);
}

async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    from.read_exact(&mut head).await?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    from.read_exact(&mut payload).await?;
    Ok((kind, flags, u32::from_be_bytes(stream), payload))
}

impl Heard {
    fn frame(
        &mut self,
        number: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        decoder: &mut Decoder<'_>,
        block: &mut Vec<u8>,
    ) {
        self.longest = self.longest.max(payload.len());
        let is = |name: &str| number == kind(name);
        if is("HEADERS") || is("CONTINUATION") {
            if is("HEADERS") {
                self.streams.entry(stream).or_default().message.whole = flags & 1 == 1;
            }
            block.extend_from_slice(payload);
            if flags & 4 == 4 {
                self.head(stream, &std::mem::take(block), decoder);
            }
        } else if is("DATA") {
            let message = &mut self.streams.entry(stream).or_default().message;
            message.body.extend_from_slice(payload);
            message.whole = flags & 1 == 1;
        } else if is("RST_STREAM") {
            self.streams.entry(stream).or_default().reset = Some(word(payload));
        } else if is("SETTINGS") {
            self.settings = true;
            self.n_acknowledged += usize::from(flags & 1 == 1);
        } else if is("PING") && flags & 1 == 1 {
            self.pongs.push(payload.to_vec());
        } else if is("GOAWAY") {
            self.goaway = Some(word(&payload[4..]));
        } else if is("PUSH_PROMISE") {
            self.faults.push("pushes".to_owned());
        }
    }

    /// A head, or the trailers behind a body.
    fn head(&mut self, stream: u32, block: &[u8], decoder: &mut Decoder<'_>) {
        let fields = decoder.decode(block).unwrap_or_else(|error| {
            self.faults.push(format!("a head that cannot be read: {error:?}"));
            Vec::new()
        });
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        for (name, _) in fields.iter().filter(|(name, _)| *name != name.to_ascii_lowercase()) {
            self.faults.push(format!("a name with a case: {name}"));
        }
        let message = &mut self.streams.entry(stream).or_default().message;
        if !message.head.line.is_empty() {
            message.trailers = fields;
            return;
        }
        let status = fields.iter().position(|(name, _)| name == ":status").map(|at| fields.remove(at).1);
        // Interim answers are only on their way to the final one.
        if let Some(status) = status.filter(|status| !status.starts_with('1')) {
            message.head.line = format!("HTTP/2 {status}");
            message.head.fields = fields;
        }
    }
}

fn word(payload: &[u8]) -> u32 {
    payload.get(..4).map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}
