//! Cells and zones: their names, and a shard as an ordered slice of cells.

use std::fmt;

/// The longest cell, zone, class or plan name, in bytes.
const MAX_NAME: usize = 64;

/// Why text is not a name of the fleet file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No characters, or more than 64.
    #[error("name of {0} bytes is not between 1 and 64")]
    Length(usize),
    /// A character outside `a-z A-Z 0-9 - _ .`
    #[error("name {0:?} has the character {1:?}: letters, digits, '-', '_' and '.' are allowed")]
    Character(String, char),
}

/// Checks a name that the fleet file gives to a cell, zone, class or plan.
pub(crate) fn check_name(text: &str) -> Result<Box<str>, NameError> {
    if text.is_empty() || text.len() > MAX_NAME {
        return Err(NameError::Length(text.len()));
    }
    match text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))) {
        Some(bad) => Err(NameError::Character(text.to_owned(), bad)),
        None => Ok(text.into()),
    }
}

/// Declares a newtype over a checked name.
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Parses a name of 1 to 64 characters out of `a-z A-Z 0-9 - _ .`
            pub fn parse(text: &str) -> Result<Self, $crate::NameError> {
                $crate::cell::check_name(text).map(Self)
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(crate) use name;

name! {
    /// The immutable name of a cell. Cells are sorted by it, so that a file's order never decides anything.
    CellId
}

name! {
    /// The failure domain that a cell lives in.
    ZoneId
}

/// A cell's place in the fleet's list of cells, sorted by [`CellId`]. It is meaningful within one snapshot only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellIndex(pub u16);

impl CellIndex {
    /// The index as a `usize`, for slices.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// The cells that a tenant has: distinct, in order, the first is home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard<'a>(&'a [CellIndex]);

impl<'a> Shard<'a> {
    /// A shard over cells that the caller knows to be distinct and at least one.
    pub fn new(cells: &'a [CellIndex]) -> Self {
        debug_assert!(!cells.is_empty());
        Self(cells)
    }

    /// The cells, home first.
    pub fn cells(self) -> &'a [CellIndex] {
        self.0
    }

    /// How many of its cells are also the other's.
    pub fn n_shared(self, other: Shard<'_>) -> usize {
        self.0.iter().filter(|cell| other.0.contains(cell)).count()
    }
}

impl fmt::Display for CellIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_bounded_and_plain() {
        assert!(CellId::parse("cell-a_1.b").is_ok());
        assert_eq!(CellId::parse(""), Err(NameError::Length(0)));
        assert_eq!(CellId::parse(&"x".repeat(65)), Err(NameError::Length(65)));
        assert!(matches!(ZoneId::parse("a b"), Err(NameError::Character(_, ' '))));
    }
}
