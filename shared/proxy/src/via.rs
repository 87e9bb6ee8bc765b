//! Via: by which names a message has come, and whether ours is among them (RFC 9110 section 7.6.3).

use http::Version;
use http::header::{HeaderMap, HeaderValue, InvalidHeaderValue, VIA};

use crate::fields::{append, before, entries};
use crate::lines::FieldLines;

/// The pseudonym by which this process knows itself in Via.
#[derive(Debug, Clone)]
pub struct Via {
    name: Box<str>,
    /// The entry for a message of HTTP/1.1, which nearly all are.
    usual: HeaderValue,
}

impl Via {
    /// A pseudonym.
    ///
    /// # Errors
    ///
    /// Where `name` cannot stand in a field.
    pub fn new(name: &str) -> Result<Self, InvalidHeaderValue> {
        Ok(Self { usual: HeaderValue::from_str(&format!("1.1 {name}"))?, name: name.into() })
    }

    /// Whether a message has been here before.
    pub fn is_in(&self, fields: &HeaderMap) -> bool {
        // As bytes: what is no text in one hop's entry must not hide ours.
        entries(fields, &VIA).any(|hop| {
            let mut words = hop.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            words.nth(1) == Some(self.name.as_bytes())
        })
    }

    /// Adds this hop to an answer's fields.
    pub fn add(&self, fields: &mut HeaderMap, version: Version) {
        append(fields, VIA, self.entry(version));
    }

    /// Adds this hop to a request, as a line that stands for whatever `fields` has of the kind.
    pub fn add_line(&self, fields: &HeaderMap, lines: &mut FieldLines, version: Version) {
        lines.push_with(&VIA, |value| {
            before(value, fields, &VIA);
            value.bytes(&self.entry(version));
        });
    }

    fn entry(&self, version: Version) -> HeaderValue {
        let protocol = match version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_2 => "2",
            _ => return self.usual.clone(),
        };
        // The name stood in a value before.
        HeaderValue::from_str(&format!("{protocol} {}", self.name)).unwrap_or_else(|_| self.usual.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn via_names_this_hop_and_finds_a_loop() {
        let via = Via::new("here").unwrap();
        let mut fields = HeaderMap::new();
        fields.insert(VIA, HeaderValue::from_static("1.0 elsewhere"));
        assert!(!via.is_in(&fields));
        via.add(&mut fields, Version::HTTP_11);
        assert_eq!(fields[VIA], "1.0 elsewhere, 1.1 here");
        assert!(via.is_in(&fields));
        for (list, is_in) in [
            (&b"1.1 caf\xe9, 1.1 \t here (x)"[..], true),
            (b"1.1 here\xe9", false),
            (b"here", false),
            (b"1.1 there, 1.1", false),
        ] {
            fields.insert(VIA, HeaderValue::from_bytes(list).unwrap());
            assert_eq!(via.is_in(&fields), is_in, "{list:?}");
        }
    }

    #[test]
    fn a_request_goes_on_with_one_line_that_ends_in_this_hop() {
        let written = |fields: &HeaderMap| {
            let mut lines = FieldLines::default();
            Via::new("here").unwrap().add_line(fields, &mut lines, Version::HTTP_10);
            String::from_utf8(lines.as_bytes().to_vec()).unwrap()
        };
        let mut fields = HeaderMap::new();
        assert_eq!(written(&fields), "via: 1.0 here\r\n");
        for earlier in ["1.1 a, 2 b", "", "1.1 c"] {
            fields.append(VIA, HeaderValue::from_static(earlier));
        }
        assert_eq!(written(&fields), "via: 1.1 a, 2 b, 1.1 c, 1.0 here\r\n");
    }
}
