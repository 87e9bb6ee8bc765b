//! Who this is towards a server: a user and a password, which is given, or lies in a file or the environment. It is read
//! anew for each connection and never shown.

use std::fmt;
use std::path::PathBuf;

/// A user and a password. Without a user, the server's default one is meant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
}

/// A password, or where it lies.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Secret {
    Given(String),
    File(PathBuf),
    Variable(String),
}

/// A password that could not be read, named by its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum SecretError {
    #[error("no password in {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("no password in the variable {0}")]
    Variable(String),
}

/// The largest file that a password is read from.
const MAX_PASSWORD_FILE: u64 = 64 * 1024;

impl Secret {
    /// The password. A file's last line end does not belong to it.
    pub(super) fn read(&self) -> Result<String, SecretError> {
        match self {
            Self::Given(password) => Ok(password.clone()),
            Self::File(path) => match cofferdam_files::read_text(path, MAX_PASSWORD_FILE) {
                Ok(text) => Ok(text.strip_suffix('\n').unwrap_or(&text).trim_end_matches('\r').to_owned()),
                Err(error) => Err(SecretError::File { path: path.clone(), reason: error.to_string() }),
            },
            Self::Variable(name) => std::env::var(name).map_err(|_| SecretError::Variable(name.clone())),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Variable(name) => f.debug_tuple("Variable").field(name).finish(),
        }
    }
}
