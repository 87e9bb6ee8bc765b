//! How a request came to this hop.

use std::net::IpAddr;

/// The protocol of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// In clear text.
    Http,
    /// Over TLS.
    Https,
}

/// The connection by which a request came.
#[derive(Debug, Clone, Copy)]
pub struct Came {
    /// The other end.
    pub peer: IpAddr,
    /// Whether the peer is believed in what it says of earlier hops.
    pub trusted: bool,
    /// The connection's own protocol, for a peer that says nothing else or is not trusted.
    pub scheme: Scheme,
}
