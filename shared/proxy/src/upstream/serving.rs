//! What a connection serves: one request on its way out, and what is known of its answer so far. It knows no pool.

use std::io;

use http::{HeaderName, Method};

use super::head::Head;
use super::limits::HeadLimits;
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
    /// Bounds on the answer's head.
    pub(super) limits: HeadLimits,
    /// Which fields stay here, also of what an upstream hints at.
    pub(super) withheld: fn(&HeaderName) -> bool,
    /// How much of the request had come from the client when the deadline passed.
    pub(super) late_at: Option<u64>,
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
    pub(super) fn new(upload: Upload, head: &Head<'_>, limits: HeadLimits) -> Self {
        let (method, withheld, upgrade) = (head.method.clone(), head.withheld, head.upgrade);
        Self { method, withheld, upgrade, upload, limits, ..Self::nothing() }
    }

    /// Nothing, between two exchanges.
    pub(super) fn nothing() -> Self {
        Self {
            upload: Upload::new(ReplayBody::empty().attempt()),
            way_out: WayOut::Open,
            method: Method::GET,
            upgrade: false,
            logs_in: false,
            keep_alive: false,
            n_interim: 0,
            n_seen: 0,
            limits: HeadLimits::OF_A_HOP,
            withheld: |_| true,
            late_at: None,
        }
    }
}
