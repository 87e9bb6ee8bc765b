//! What decides where the store of the limits is away.

use std::fmt;
use std::str::FromStr;

/// What decides where the store cannot be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnStoreFailure {
    /// This router's share of each limit.
    #[default]
    Local,
    /// Nothing: everything is let through.
    Open,
    /// Nothing: everything is refused, as no room of ours.
    Closed,
}

/// Why text is none of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not local, open or closed")]
pub struct OnStoreFailureError(String);

impl OnStoreFailure {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Local, Self::Open, Self::Closed];

    /// The word in files and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

impl FromStr for OnStoreFailure {
    type Err = OnStoreFailureError;

    fn from_str(text: &str) -> Result<Self, OnStoreFailureError> {
        let found = Self::ALL.into_iter().find(|word| word.as_str() == text);
        found.ok_or_else(|| OnStoreFailureError(text.to_owned()))
    }
}

impl fmt::Display for OnStoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
