//! What is wrong between this process and the store, as a closed set: for the log, for metrics, and for an operator who has
//! to know whether to look at the network or at a password.

use ::redis::{ErrorKind, RedisError};

use super::connect::ConnectError;
use super::error::LinkError;

/// What keeps the store from being used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreTrouble {
    /// No server answers: refused, silent, closed, or no sentinel knows one.
    Unreachable,
    /// The server wants another password, or the password cannot be read.
    Unauthorised,
    /// The user may not do what limits need, by the server's access list.
    Forbidden,
    /// The server does not have the database that the URL names.
    Database,
    /// TLS does not come to be: a certificate, a name or a protocol.
    Tls,
    /// The server is a replica, which takes no writes.
    Replica,
    /// The server refuses for another reason, such as a full memory.
    Refusing,
}

impl StoreTrouble {
    /// Every one.
    pub const ALL: [Self; 7] = [
        Self::Unreachable,
        Self::Unauthorised,
        Self::Forbidden,
        Self::Database,
        Self::Tls,
        Self::Replica,
        Self::Refusing,
    ];

    /// Its word in metrics and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Unauthorised => "unauthorised",
            Self::Forbidden => "forbidden",
            Self::Database => "wrong_database",
            Self::Tls => "tls_failure",
            Self::Replica => "replica",
            Self::Refusing => "refusing",
        }
    }

    /// What an operator reads.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Unreachable => "it cannot be reached",
            Self::Unauthorised => "it does not take this router's password",
            Self::Forbidden => "its access list forbids what limits need",
            Self::Database => "it does not have this database",
            Self::Tls => "TLS fails",
            Self::Replica => "it is a replica",
            Self::Refusing => "it refuses",
        }
    }

    /// Why there is no connection.
    pub(super) fn of_connect(error: &ConnectError) -> Self {
        match error {
            ConnectError::Io(_)
            | ConnectError::Late
            | ConnectError::Closed
            | ConnectError::NoMaster { .. } => Self::Unreachable,
            ConnectError::Secret(_) => Self::Unauthorised,
            ConnectError::Tls(_) => Self::Tls,
            ConnectError::Server(error) => Self::of_server(error),
            ConnectError::Replica => Self::Replica,
            ConnectError::OtherScript => Self::Refusing,
        }
    }

    /// Why a call was refused on a connection that stands; nothing where that is the call's own affair, or passes by itself.
    pub(super) fn of_call(error: &LinkError) -> Option<Self> {
        let LinkError::Refused { code, .. } = error else { return None };
        match code.as_str() {
            "NOAUTH" | "WRONGPASS" => Some(Self::Unauthorised),
            "NOPERM" => Some(Self::Forbidden),
            "READONLY" => Some(Self::Replica),
            "OOM" | "MISCONF" | "NOREPLICAS" => Some(Self::Refusing),
            _ => None,
        }
    }

    fn of_server(error: &RedisError) -> Self {
        if error.kind() == ErrorKind::AuthenticationFailed
            || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
        {
            return Self::Unauthorised;
        }
        if error.code() == Some("NOPERM") {
            return Self::Forbidden;
        }
        let said = error.to_string();
        if said.contains("switch database") || said.contains("DB index") {
            return Self::Database;
        }
        if error.is_io_error() { Self::Unreachable } else { Self::Refusing }
    }
}
