//! Why a call brought no answer. A store error is never "limit exceeded".

use std::time::Duration;

use ::redis::{FromRedisValue, RedisError, Value, from_redis_value};

/// A call without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// Nothing was sent.
    #[error("no connection to the store")]
    NotConnected,
    /// It was sent, and may have been executed, or still be.
    #[error("no answer from the store within {0:?}")]
    Late(Duration),
    /// It was sent, perhaps, and may have been executed, or still be.
    #[error("the connection to the store broke under the call: {0}")]
    Broken(String),
    /// The server answered with an error.
    #[error("the store refused: {code} {text}")]
    Refused {
        /// The error's first word, such as `OOM`.
        code: String,
        /// The rest.
        text: String,
    },
    /// The answer is none to what was asked.
    #[error("an answer of the store that means nothing here: {0}")]
    Unexpected(String),
}

/// What a server answered, as a `T`.
pub(in crate::redis) fn read<T: FromRedisValue>(answer: Value) -> Result<T, LinkError> {
    from_redis_value(answer).map_err(|error| LinkError::Unexpected(error.to_string()))
}

impl LinkError {
    /// Whether nothing can have been written because of this call.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::NotConnected => true,
            Self::Late(_) | Self::Broken(_) | Self::Unexpected(_) => false,
            // Said before a script begins; any other may come out of its midst.
            Self::Refused { code, .. } => matches!(
                code.as_str(),
                "NOSCRIPT"
                    | "MOVED"
                    | "ASK"
                    | "TRYAGAIN"
                    | "CLUSTERDOWN"
                    | "CROSSSLOT"
                    | "READONLY"
                    | "LOADING"
                    | "MASTERDOWN"
                    | "NOAUTH"
                    | "NOPERM"
                    | "BUSY"
                    | "NOREPLICAS"
                    | "MISCONF"
            ),
        }
    }

    /// Whether no answer came, and none will.
    pub(in crate::redis) fn is_silence(&self) -> bool {
        matches!(self, Self::NotConnected | Self::Late(_) | Self::Broken(_))
    }

    pub(super) fn is(&self, wanted: &str) -> bool {
        matches!(self, Self::Refused { code, .. } if code == wanted)
    }
}

impl From<RedisError> for LinkError {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some(code) => {
                Self::Refused { code: code.to_owned(), text: error.detail().unwrap_or_default().to_owned() }
            }
            None => Self::Broken(error.to_string()),
        }
    }
}
