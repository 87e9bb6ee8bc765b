//! How a call in a pool can fail by the pool, and what a panic said.

use std::any::Any;
use std::sync::Arc;

use crate::denied::Denied;

/// Why a call in a pool has no outcome of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// It was not taken, or the pool was closed before it began.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// It panicked. The thread goes on with the next call.
    #[error("call in pool {pool} panicked: {message}")]
    Panicked {
        /// The pool.
        pool: Arc<str>,
        /// What the panic said.
        message: String,
    },
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("nothing that is text").to_owned()
}
