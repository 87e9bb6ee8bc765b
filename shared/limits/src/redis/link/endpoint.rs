//! Where the store is, and how to get in. An [`Endpoint`] opens nothing, and reads no file before a connection is made, so
//! that a renewed password or certificate is taken with the next one. How it is written is `url.rs`'s affair.
//!
//! Neither `Display` nor `Debug` ever shows a password.

use std::fmt;
use std::path::PathBuf;

use super::credentials::Credentials;
use super::tls::TlsFiles;

/// The place of a store, and how to get in.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub(super) place: Place,
    pub(super) credentials: Credentials,
    pub(super) db: u16,
    pub(super) tls: Option<TlsFiles>,
}

/// What kind of place it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    Server(Address),
    Sentinel { sentinels: Vec<Address>, service: String, credentials: Credentials },
    Cluster(Vec<Address>),
}

/// One server's address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.place {
            Place::Server(Address::Unix(path)) => write!(f, "redis+unix://{}", path.display()),
            Place::Server(address) => write!(f, "{scheme}://{address}/{}", self.db),
            Place::Sentinel { sentinels, service, .. } => {
                write!(f, "{scheme}-sentinel://{}/{service}/{}", List(sentinels), self.db)
            }
            Place::Cluster(seeds) => write!(f, "{scheme}-cluster://{}", List(seeds)),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

struct List<'a>(&'a [Address]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.0.iter().enumerate() {
            write!(f, "{}{address}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}
