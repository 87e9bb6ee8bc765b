//! Where the cell's backend is: a host and a port, or a Unix socket of the same machine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use cofferdam_fleet::{Origin, OriginError};
use cofferdam_proxy::upstream::{Address, Names};

/// How a Unix socket's path is told from a url.
const UNIX: &str = "unix:";

/// The longest path that a socket's address has room for, its closing zero aside (`sun_path`, unix(7)).
const MAX_PATH: usize = 107;

/// The backend behind an agent: `http://host:port` or `unix:/path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// Reached by TCP.
    Origin(Origin),
    /// Reached by a Unix socket. Host stays the client's, as it does by TCP.
    Unix(PathBuf),
}

/// Why text is not a backend.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// Neither a url nor `unix:`.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// A path that depends on where the process was started.
    #[error("{0} is not an absolute path, such as unix:/run/app.sock")]
    Relative(String),
    /// A path that no socket can have.
    #[error("{0} has more than {MAX_PATH} bytes behind unix:, which no socket's path has")]
    Long(String),
}

impl Backend {
    /// Where connections go, by these names.
    pub fn address(&self, names: &Names) -> Address {
        match self {
            Self::Origin(origin) => Address::Tcp(names.endpoint(&origin.authority())),
            Self::Unix(path) => Address::Unix(path.as_path().into()),
        }
    }
}

impl FromStr for Backend {
    type Err = BackendError;

    fn from_str(text: &str) -> Result<Self, BackendError> {
        let Some(path) = text.strip_prefix(UNIX) else { return Ok(Self::Origin(text.parse()?)) };
        if !Path::new(path).is_absolute() {
            return Err(BackendError::Relative(text.to_owned()));
        }
        if path.len() > MAX_PATH {
            return Err(BackendError::Long(text.to_owned()));
        }
        Ok(Self::Unix(path.into()))
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Origin(origin) => origin.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_a_url_or_the_absolute_path_of_a_socket() {
        for text in ["http://127.0.0.1:7200", "unix:/run/app.sock"] {
            assert_eq!(text.parse::<Backend>().unwrap().to_string(), text);
        }
        let long = format!("unix:/{}", "x".repeat(MAX_PATH));
        for (text, why) in [
            ("unix:app.sock", "unix:app.sock is not an absolute path, such as unix:/run/app.sock"),
            ("unix:", "unix: is not an absolute path, such as unix:/run/app.sock"),
            (&long, &format!("{long} has more than 107 bytes behind unix:, which no socket's path has")),
            ("/run/app.sock", "\"/run/app.sock\" is not a url such as http://10.0.1.10:7100"),
        ] {
            assert_eq!(text.parse::<Backend>().unwrap_err().to_string(), why);
        }
    }
}
