//! What is true of a request's way so far, out of what its head says and of who says it.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

use http::header::{HeaderMap, HeaderValue};

use super::came::{Came, Scheme};
use super::element::{UNKNOWN, elements, ip, is_same, parsed};
use super::family::{X_FORWARDED_FOR, is_forwarding};
use crate::fields::entries;

/// The protocols that are taken over from a trusted peer, and their usual ports.
const PROTOCOLS: [(&str, u16); 4] = [("http", 80), ("https", 443), ("ws", 80), ("wss", 443)];

/// The longest host that is taken over.
const MAX_HOST: usize = 255;

/// Which fields a request has that say where it came from.
#[derive(Default)]
pub(super) struct Earlier<'m> {
    host: Option<&'m HeaderValue>,
    forwarded: bool,
    x_for: bool,
    x_host: Option<&'m HeaderValue>,
    x_proto: Option<&'m HeaderValue>,
    pub(super) x_port: Option<&'m HeaderValue>,
    pub(super) x_real_ip: Option<&'m HeaderValue>,
    /// Whether a stranger says others of the kind.
    pub(super) strange: bool,
}

/// The hops before the peer.
#[derive(Debug)]
pub(super) enum Hops<'m> {
    /// None that is known.
    None,
    /// Those of X-Forwarded-For; whether Forwarded says the same and goes on as it was said.
    Addresses { as_said: bool },
    /// Those of Forwarded alone.
    Elements { nodes: Vec<&'m [u8]>, as_said: bool },
}

/// The one word.
#[derive(Debug)]
pub(super) struct Word<'m> {
    /// The protocol that the client used.
    pub(super) proto: &'static str,
    /// The host that the client used, with its port unless it is the usual one.
    pub(super) authority: Cow<'m, [u8]>,
    pub(super) hops: Hops<'m>,
}

impl<'m> Earlier<'m> {
    /// One look at each name, since looking for each of them costs a hash.
    pub(super) fn read(fields: &'m HeaderMap, trusted: bool) -> Self {
        let mut earlier = Self::default();
        for (name, value) in fields {
            let place = match name.as_str() {
                "host" => &mut earlier.host,
                "x-forwarded-host" => &mut earlier.x_host,
                "x-forwarded-proto" => &mut earlier.x_proto,
                "x-forwarded-port" => &mut earlier.x_port,
                "x-real-ip" => &mut earlier.x_real_ip,
                "forwarded" => {
                    earlier.forwarded = true;
                    continue;
                }
                "x-forwarded-for" => {
                    earlier.x_for = true;
                    continue;
                }
                _ => {
                    earlier.strange |= !trusted && is_forwarding(name);
                    continue;
                }
            };
            place.get_or_insert(value);
        }
        earlier
    }
}

impl<'m> Word<'m> {
    pub(super) fn of(earlier: &Earlier<'m>, fields: &'m HeaderMap, came: Came) -> Self {
        let host = earlier.host.map_or(&b""[..], HeaderValue::as_bytes);
        let of_connection = match came.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        if !came.trusted {
            return Self { proto: of_connection, authority: host.into(), hops: Hops::None };
        }
        let port = earlier.x_port.and_then(|port| parsed(first(port))).filter(|port| *port > 0);
        if earlier.x_for || earlier.x_proto.is_some() || earlier.x_host.is_some() {
            let proto = earlier.x_proto.and_then(|proto| protocol(first(proto))).unwrap_or(of_connection);
            let said = earlier.x_host.map(first).filter(|host| is_host(host));
            let authority = authority(said, host, port, proto);
            let as_said = earlier.forwarded && agrees(fields, proto, &authority);
            let hops = if earlier.x_for { Hops::Addresses { as_said } } else { Hops::None };
            return Self { proto, authority, hops };
        }
        let elements = if earlier.forwarded { elements(fields).collect() } else { Ok(Vec::new()) };
        // What cannot be read says nothing.
        let elements = elements.unwrap_or_default();
        let (said, host_said) =
            (elements.iter().find_map(|it| it.proto), elements.iter().find_map(|it| it.host));
        let proto = said.and_then(protocol).unwrap_or(of_connection);
        let authority = authority(host_said.filter(|host| is_host(host)), host, port, proto);
        let hops = if elements.is_empty() {
            Hops::None
        } else {
            let as_said = is_one_word(said, host_said, proto, &authority);
            Hops::Elements { nodes: elements.iter().map(|it| it.node.unwrap_or(UNKNOWN)).collect(), as_said }
        };
        Self { proto, authority, hops }
    }

    /// The port that the client used.
    pub(super) fn port(&self) -> u16 {
        split_port(&self.authority).1.unwrap_or_else(|| usual_port(self.proto))
    }

    /// The address of whoever the last trusted peer was asked by.
    pub(super) fn client(&self, earlier: &Earlier<'_>, fields: &HeaderMap, came: Came) -> IpAddr {
        let said = earlier.x_real_ip.filter(|_| came.trusted).and_then(|said| ip(first(said)));
        let last = || match &self.hops {
            Hops::None => None,
            Hops::Addresses { .. } => entries(fields, &X_FORWARDED_FOR).last().and_then(ip),
            Hops::Elements { nodes, .. } => nodes.last().and_then(|node| ip(node)),
        };
        said.or_else(last).unwrap_or(came.peer)
    }
}

/// Whether Forwarded has the hops of X-Forwarded-For, and nothing else of the client's protocol and host.
fn agrees(fields: &HeaderMap, proto: &str, authority: &[u8]) -> bool {
    let mut addresses = entries(fields, &X_FORWARDED_FOR);
    let (mut said, mut host) = (None, None);
    for element in elements(fields) {
        let (Ok(element), Some(address)) = (element, addresses.next()) else { return false };
        if !is_same(address, element.node.unwrap_or(UNKNOWN)) {
            return false;
        }
        (said, host) = (said.or(element.proto), host.or(element.host));
    }
    addresses.next().is_none() && is_one_word(said, host, proto, authority)
}

/// Whether what the entries say first is what is true.
fn is_one_word(said: Option<&[u8]>, host: Option<&[u8]>, proto: &str, authority: &[u8]) -> bool {
    said.is_none_or(|said| said.eq_ignore_ascii_case(proto.as_bytes()))
        && host.is_none_or(|host| host.eq_ignore_ascii_case(authority))
}

/// The host that the client used: what is `said` of it, else this request's own, with the port. What is said of the port alone
/// stands behind the one that is said with the host.
fn authority<'m>(said: Option<&'m [u8]>, own: &'m [u8], port: Option<u16>, proto: &str) -> Cow<'m, [u8]> {
    let host = said.unwrap_or(own);
    let (name, with_host) = split_port(host);
    match port {
        _ if name.is_empty() || said.is_some() && with_host.is_some() => host.into(),
        None => host.into(),
        Some(port) if with_host.unwrap_or_else(|| usual_port(proto)) == port => host.into(),
        Some(port) if port == usual_port(proto) => name.into(),
        Some(port) => [name, format!(":{port}").as_bytes()].concat().into(),
    }
}

/// A host's name, and its port if there is one.
fn split_port(host: &[u8]) -> (&[u8], Option<u16>) {
    match host.iter().rposition(|&byte| byte == b':') {
        // Within brackets it is a part of an address.
        Some(at) if !host[at..].contains(&b']') => (&host[..at], parsed(&host[at + 1..])),
        _ => (host, None),
    }
}

fn usual_port(proto: &str) -> u16 {
    PROTOCOLS.iter().find(|(name, _)| *name == proto).map_or(80, |(_, port)| *port)
}

fn protocol(said: &[u8]) -> Option<&'static str> {
    let known = PROTOCOLS.iter().find(|(name, _)| said.eq_ignore_ascii_case(name.as_bytes()));
    known.map(|(name, _)| *name)
}

/// The first entry of what may be a list: the client's.
fn first(value: &HeaderValue) -> &[u8] {
    value.as_bytes().split(|&byte| byte == b',').next().unwrap_or_default().trim_ascii()
}

/// Whether this may stand for a host, with a port or without.
fn is_host(host: &[u8]) -> bool {
    let (name, _) = split_port(host);
    let of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    let is_name = match name {
        [b'[', inner @ .., b']'] => parsed::<Ipv6Addr>(inner).is_some(),
        _ => !name.is_empty() && name.iter().all(of_name),
    };
    is_name && host.len() <= MAX_HOST
}
