//! Field lines ready for the wire: what this hop adds to a request, written once instead of going through a map.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};
use http::header::{HeaderName, HeaderValue};

/// Lines of the form `name: value`, each with its CR LF. They go out behind the fields of a header map, so whoever adds a
/// line takes a field of that name out of the map.
#[derive(Debug, Clone, Default)]
pub struct FieldLines(BytesMut);

impl FieldLines {
    /// No lines, with room for `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(BytesMut::with_capacity(bytes))
    }

    /// Adds a field. Its value was checked when it was made.
    pub fn push(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.name(name);
        self.0.put_slice(value.as_bytes());
        self.end();
    }

    /// Adds a field whose value is `text`. What would break out of the line is left out of it.
    pub fn push_text(&mut self, name: &HeaderName, text: impl AsRef<[u8]>) {
        self.push_with(name, |value| value.text(text));
    }

    /// Adds a field whose value is a number.
    pub fn push_number(&mut self, name: &HeaderName, number: u64) {
        self.push_with(name, |value| value.number(number));
    }

    /// Adds a field whose value `write` writes, piece by piece.
    pub fn push_with(&mut self, name: &HeaderName, write: impl FnOnce(&mut LineValue<'_>)) {
        self.name(name);
        write(&mut LineValue(&mut self.0));
        self.end();
    }

    /// Adds all of another's lines.
    pub fn extend(&mut self, lines: &Self) {
        self.0.put_slice(&lines.0);
    }

    /// How many bytes there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes away what was added since there were `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    /// The lines as they go out.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The lines as fields, for a protocol that has no lines.
    pub fn fields(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        let lines = self.as_bytes().split(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\r"));
        lines.filter_map(|line| {
            let end = line.iter().position(|&byte| byte == b':')?;
            let name = HeaderName::from_bytes(&line[..end]).ok()?;
            // A name is never followed by less than a colon and a space.
            Some((name, HeaderValue::from_bytes(line.get(end + 2..)?).ok()?))
        })
    }

    fn name(&mut self, name: &HeaderName) {
        self.0.put_slice(name.as_str().as_bytes());
        self.0.put_slice(b": ");
    }

    fn end(&mut self) {
        self.0.put_slice(b"\r\n");
    }
}

/// The value of a line that is being written. Formatting by `fmt` costs more than all else that a hop adds.
#[derive(Debug)]
pub struct LineValue<'a>(&'a mut BytesMut);

impl LineValue<'_> {
    /// Adds text. What would break out of the line is left out of it.
    pub fn text(&mut self, text: impl AsRef<[u8]>) {
        let (text, is_visible) = (text.as_ref(), |byte: u8| byte >= b' ' && byte != 0x7f);
        // Every byte is looked at, whatever those before it are: so the loop takes many at a time.
        if text.iter().fold(true, |all, &byte| all & is_visible(byte)) {
            self.0.put_slice(text);
        } else {
            self.0.extend(text.iter().filter(|&&byte| is_visible(byte)));
        }
    }

    /// Adds text of ours, which is known not to break out of the line.
    pub(crate) fn constant(&mut self, text: &'static str) {
        debug_assert!(
            text.bytes().all(|byte| byte >= b' ' && byte != 0x7f),
            "{text:?} breaks out of its line"
        );
        self.0.put_slice(text.as_bytes());
    }

    /// Adds another field's value.
    pub fn bytes(&mut self, value: &HeaderValue) {
        self.0.put_slice(value.as_bytes());
    }

    /// Adds a number, in decimal.
    pub fn number(&mut self, number: impl itoa::Integer) {
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Adds an address as RFC 7239 section 6 writes one outside of its quotes: IPv6 without brackets.
    pub fn address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                let (mut text, mut n) = ([b'.'; 16], 0);
                for octet in v4.octets() {
                    for (from, digit) in [(100, octet / 100), (10, octet / 10 % 10), (0, octet % 10)] {
                        if octet >= from {
                            text[n] = b'0' + digit;
                            n += 1;
                        }
                    }
                    n += 1;
                }
                self.0.put_slice(&text[..n - 1]);
            }
            IpAddr::V6(v6) => self.text(v6.to_string()),
        }
    }
}

/// Writes one field's line.
pub(crate) fn put_field(name: &HeaderName, value: &HeaderValue, out: &mut BytesMut) {
    out.put_slice(name.as_str().as_bytes());
    out.put_slice(b": ");
    out.put_slice(value.as_bytes());
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, VIA};

    use super::*;

    #[test]
    fn lines_are_written_as_fields_and_nothing_breaks_out_of_one() {
        let mut lines = FieldLines::with_capacity(64);
        lines.push(&HOST, &HeaderValue::from_static("a.example"));
        let constant = lines.len();
        lines.push_text(&VIA, "1.1 b\r\nx-forged: 1");
        assert_eq!(lines.as_bytes(), b"host: a.example\r\nvia: 1.1 bx-forged: 1\r\n");
        lines.truncate(constant);
        assert_eq!(lines.as_bytes(), b"host: a.example\r\n");
    }

    #[test]
    fn numbers_and_addresses_are_written_as_elsewhere() {
        let addresses = ["0.0.0.0", "10.0.200.7", "255.255.255.255", "::1", "2001:db8::7"];
        for address in addresses.map(|text| text.parse::<IpAddr>().unwrap()) {
            let mut lines = FieldLines::default();
            lines.push_with(&VIA, |value| value.address(address));
            assert_eq!(lines.as_bytes(), format!("via: {address}\r\n").as_bytes());
        }
        let mut lines = FieldLines::default();
        lines.push_number(&VIA, u64::MAX);
        assert_eq!(lines.as_bytes(), format!("via: {}\r\n", u64::MAX).as_bytes());
    }
}
