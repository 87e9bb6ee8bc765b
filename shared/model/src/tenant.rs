//! `TenantId`: whose request this is. One parser for every door; it rejects and never normalises.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The longest tenant id, in bytes.
pub const MAX_TENANT_ID: usize = 64;

/// A checked tenant id: 1 to 64 bytes out of the fleet's [`Alphabet`]. It lives inline, so that a request's
/// identity costs no allocation.
#[derive(Clone, Copy)]
pub struct TenantId {
    len: u8,
    bytes: [u8; MAX_TENANT_ID],
}

/// Why bytes are not a tenant id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TenantError {
    /// No bytes at all.
    #[error("tenant id is empty")]
    Empty,
    /// More than [`MAX_TENANT_ID`] bytes.
    #[error("tenant id of {0} bytes exceeds 64")]
    TooLong(usize),
    /// A byte outside the alphabet.
    #[error(
        "tenant id has '{}' at {at}: a-z, 0-9, '-' and the fleet file's extra_characters are allowed",
        byte.escape_ascii()
    )]
    Character {
        /// The byte itself.
        byte: u8,
        /// Its offset, from 0.
        at: usize,
    },
}

/// The bytes that a tenant id may have: `a-z`, `0-9`, `-`, and what the fleet file adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alphabet {
    allowed: [bool; 256],
}

/// A character that no fleet file may add to the alphabet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("character {0:?} can never be part of a tenant id")]
pub struct AlphabetError(pub char);

impl Default for Alphabet {
    fn default() -> Self {
        let mut allowed = [false; 256];
        for byte in (b'a'..=b'z').chain(b'0'..=b'9').chain([b'-']) {
            allowed[usize::from(byte)] = true;
        }
        Self { allowed }
    }
}

impl Alphabet {
    /// The default alphabet and `extra`. Braces, separators, quotes, spaces, control and non-ASCII characters are
    /// refused: they would change the meaning of a store key, a path or a header.
    pub fn with_extra(extra: &str) -> Result<Self, AlphabetError> {
        let mut alphabet = Self::default();
        for character in extra.chars() {
            let harmless =
                character.is_ascii_alphanumeric() || matches!(character, '_' | '.' | '~' | '@' | '+');
            if !harmless {
                return Err(AlphabetError(character));
            }
            alphabet.allowed[character as usize] = true;
        }
        Ok(alphabet)
    }

    /// The characters beyond the default alphabet, in ASCII order.
    pub fn extra(&self) -> String {
        let default = Self::default();
        let is_extra = |byte: &u8| self.allows(*byte) && !default.allows(*byte);
        (0..=u8::MAX).filter(is_extra).map(char::from).collect()
    }

    /// The characters that at least one of both has.
    pub fn union(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.allowed.iter_mut().zip(&other.allowed).for_each(|(mine, theirs)| *mine |= theirs);
        both
    }

    fn allows(&self, byte: u8) -> bool {
        self.allowed[usize::from(byte)]
    }
}

impl TenantId {
    /// Parses exactly these bytes.
    pub fn parse(bytes: &[u8], alphabet: &Alphabet) -> Result<Self, TenantError> {
        if bytes.is_empty() {
            return Err(TenantError::Empty);
        }
        if bytes.len() > MAX_TENANT_ID {
            return Err(TenantError::TooLong(bytes.len()));
        }
        if let Some(at) = bytes.iter().position(|&byte| !alphabet.allows(byte)) {
            return Err(TenantError::Character { byte: bytes[at], at });
        }
        let mut inline = [0; MAX_TENANT_ID];
        inline[..bytes.len()].copy_from_slice(bytes);
        Ok(Self { len: bytes.len() as u8, bytes: inline })
    }

    /// The id's bytes: ASCII, always.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl PartialEq for TenantId {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for TenantId {}

impl PartialOrd for TenantId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TenantId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for TenantId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TenantId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(bytes: &[u8]) -> Result<TenantId, TenantError> {
        TenantId::parse(bytes, &Alphabet::default())
    }

    #[test]
    fn an_id_is_one_to_64_bytes_of_the_alphabet() {
        assert_eq!(parse(b"acme-1").unwrap().as_str(), "acme-1");
        assert_eq!(parse(b""), Err(TenantError::Empty));
        assert!(parse(&[b'a'; 64]).is_ok());
        assert_eq!(parse(&[b'a'; 65]), Err(TenantError::TooLong(65)));
        assert_eq!(parse(b"Acme"), Err(TenantError::Character { byte: b'A', at: 0 }));
        assert_eq!(parse(b"a_b"), Err(TenantError::Character { byte: b'_', at: 1 }));
    }

    #[test]
    fn what_is_wrong_with_an_id_is_said_in_characters() {
        let allowed = "a-z, 0-9, '-' and the fleet file's extra_characters are allowed";
        for (id, expected) in
            [("aCme", "'C' at 1"), ("a b", "' ' at 1"), ("\n", "'\\n' at 0"), ("é", "'\\xc3' at 0")]
        {
            let said = parse(id.as_bytes()).unwrap_err().to_string();
            assert_eq!(said, format!("tenant id has {expected}: {allowed}"));
        }
    }

    #[test]
    fn a_fleet_may_add_harmless_characters_only() {
        let alphabet = Alphabet::with_extra("_A").unwrap();
        assert!(TenantId::parse(b"A_b", &alphabet).is_ok());
        for bad in ['{', '}', ' ', '\n', '/', ':', '"', 'é', ','] {
            assert_eq!(Alphabet::with_extra(&bad.to_string()), Err(AlphabetError(bad)));
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_kept_byte_for_byte(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(id) = parse(&bytes) {
                prop_assert_eq!(id.as_bytes(), &bytes[..]);
            }
        }
    }
}
