//! Field lines ready for the wire: what this hop adds to a request, written once instead of going through a map.

use std::fmt::{self, Write};

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

    /// Adds a field whose value is written out. What would break out of the line is left out of it.
    pub fn push_text(&mut self, name: &HeaderName, value: fmt::Arguments<'_>) {
        self.name(name);
        // A sink in memory fails only where the value itself does.
        let _ = Visible(&mut self.0).write_fmt(value);
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

    fn name(&mut self, name: &HeaderName) {
        self.0.put_slice(name.as_str().as_bytes());
        self.0.put_slice(b": ");
    }

    fn end(&mut self) {
        self.0.put_slice(b"\r\n");
    }
}

/// A sink that takes only what a field's value may have.
struct Visible<'a>(&'a mut BytesMut);

impl Write for Visible<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| byte >= b' ' && byte != 0x7f) {
            self.0.put_slice(text.as_bytes());
        } else {
            self.0.extend(text.bytes().filter(|byte| *byte >= b' ' && *byte != 0x7f));
        }
        Ok(())
    }
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
        lines.push_text(&VIA, format_args!("1.1 {}", "b\r\nx-forged: 1"));
        assert_eq!(lines.as_bytes(), b"host: a.example\r\nvia: 1.1 bx-forged: 1\r\n");
        lines.truncate(constant);
        assert_eq!(lines.as_bytes(), b"host: a.example\r\n");
    }
}
