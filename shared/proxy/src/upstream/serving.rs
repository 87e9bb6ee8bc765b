//! What a connection serves: one request on its way out, and what is known of its answer so far. It knows no pool.

use std::io;

use http::Method;

use super::upload::Upload;
use crate::replay::ReplayBody;

/// One exchange's part of a connection. It lies beside the connection, in the same box, so that whoever hands an
/// exchange on moves a pointer.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) upload: Upload,
    pub(super) way_out: WayOut,
    pub(super) method: Method,
    /// Whether a 101 was asked for.
    pub(super) upgrade: bool,
    /// Whether the request may log the connection in.
    pub(super) logs_in: bool,
    /// Whether the connection may serve another exchange, as far as the heads of both say.
    pub(super) keep_alive: bool,
    pub(super) n_interim: u32,
    /// How many bytes of the head that is awaited have been looked at.
    pub(super) n_seen: usize,
}

/// How the request's way out stands.
#[derive(Debug)]
pub(super) enum WayOut {
    Open,
    Done,
    /// The other side takes no more. It may have answered all the same.
    Failed(io::Error),
}

impl Serving {
    pub(super) fn new(upload: Upload, method: Method, upgrade: bool) -> Self {
        Self {
            upload,
            way_out: WayOut::Open,
            method,
            upgrade,
            logs_in: false,
            keep_alive: false,
            n_interim: 0,
            n_seen: 0,
        }
    }

    /// Nothing, between two exchanges.
    pub(super) fn nothing() -> Self {
        Self::new(Upload::new(ReplayBody::empty().attempt()), Method::GET, false)
    }
}
