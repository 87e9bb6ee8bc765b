//! Where a request came from, as the next hop is told: Forwarded (RFC 7239), and the X-Forwarded fields that are older.
//!
//! Both forms say the same of the client's protocol and host, and of every hop's address: some servers read the first entry of
//! Forwarded and some the last, so each entry that is written here says the protocol and the host that the client used. What a
//! stranger says goes. Of a trusted peer X-Forwarded-For, -Proto and -Host decide where it says any of them, since most
//! balancers make those and pass on a Forwarded that is their client's; else Forwarded decides.

mod came;
mod element;
mod family;
mod word;

use std::net::IpAddr;

use http::header::{FORWARDED, HeaderMap};

pub use self::came::{Came, Scheme};
use self::element::{put_host, put_node};
pub(crate) use self::family::is_forwarding;
pub use self::family::is_said_anew;
use self::family::{X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PORT, X_FORWARDED_PROTO, X_REAL_IP};
use self::word::{Earlier, Hops, Word};
use crate::fields::{before, entries, remove_where};
use crate::lines::{FieldLines, LineValue};

/// Which of the fields that are made anew go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarding {
    forwarded: bool,
    x_for: bool,
    x_host: bool,
    x_proto: bool,
    x_port: Writing,
    x_real_ip: Writing,
}

/// When a field is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    Always,
    /// Where a trusted peer has said it.
    IfSaid,
    Never,
}

impl Default for Forwarding {
    /// Forwarded, X-Forwarded-For, -Host and -Proto always; the others where a trusted peer says them.
    fn default() -> Self {
        let (always, said) = (true, Writing::IfSaid);
        Self {
            forwarded: always,
            x_for: always,
            x_host: always,
            x_proto: always,
            x_port: said,
            x_real_ip: said,
        }
    }
}

impl Forwarding {
    /// Exactly the fields of these names.
    pub fn only<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let (no, never) = (false, Writing::Never);
        let none =
            Self { forwarded: no, x_for: no, x_host: no, x_proto: no, x_port: never, x_real_ip: never };
        names.into_iter().fold(none, |chosen, name| match name {
            "forwarded" => Self { forwarded: true, ..chosen },
            "x-forwarded-for" => Self { x_for: true, ..chosen },
            "x-forwarded-host" => Self { x_host: true, ..chosen },
            "x-forwarded-proto" => Self { x_proto: true, ..chosen },
            "x-forwarded-port" => Self { x_port: Writing::Always, ..chosen },
            "x-real-ip" => Self { x_real_ip: Writing::Always, ..chosen },
            _ => chosen,
        })
    }
}

/// Says where a request came from, in lines that stand for what `fields` has of the kind (see [`is_said_anew`]). What else a
/// stranger says of it is taken out of `fields`.
pub fn say(fields: &mut HeaderMap, lines: &mut FieldLines, came: Came, which: &Forwarding) {
    let mut earlier = Earlier::read(fields, came.trusted);
    if earlier.strange {
        remove_where(fields, |name| is_forwarding(name) && !is_said_anew(name));
        earlier = Earlier::read(fields, came.trusted);
    }
    let word = Word::of(&earlier, fields, came);
    if which.x_for {
        lines.push_with(&X_FORWARDED_FOR, |value| {
            match &word.hops {
                Hops::None => {}
                Hops::Addresses { .. } => before(value, fields, &X_FORWARDED_FOR),
                Hops::Elements { nodes, .. } => nodes.iter().for_each(|node| {
                    value.text(element::as_address(node));
                    value.constant(", ");
                }),
            }
            value.address(came.peer);
        });
    }
    if which.forwarded {
        lines.push_with(&FORWARDED, |value| put_forwarded(value, fields, &word, came.peer));
    }
    if which.x_proto {
        lines.push_text(&X_FORWARDED_PROTO, word.proto);
    }
    if which.x_host && !word.authority.is_empty() {
        lines.push_text(&X_FORWARDED_HOST, &word.authority);
    }
    let is_due = |writing, said: bool| match writing {
        Writing::Always => true,
        Writing::IfSaid => said && came.trusted,
        Writing::Never => false,
    };
    if is_due(which.x_port, earlier.x_port.is_some()) {
        lines.push_number(&X_FORWARDED_PORT, word.port().into());
    }
    if is_due(which.x_real_ip, earlier.x_real_ip.is_some()) {
        lines.push_with(&X_REAL_IP, |value| value.address(word.client(&earlier, fields, came)));
    }
}

/// The entries of the earlier hops, as they were said or made anew, and this hop's own.
fn put_forwarded(value: &mut LineValue<'_>, fields: &HeaderMap, word: &Word<'_>, peer: IpAddr) {
    match &word.hops {
        Hops::None => {}
        Hops::Addresses { as_said: true } | Hops::Elements { as_said: true, .. } => {
            before(value, fields, &FORWARDED);
        }
        Hops::Addresses { as_said: false } => put_hops(value, entries(fields, &X_FORWARDED_FOR), word),
        Hops::Elements { nodes, as_said: false } => put_hops(value, nodes.iter().copied(), word),
    }
    let (before, after) = if peer.is_ipv6() { ("for=\"[", "]\"") } else { ("for=", "") };
    value.constant(before);
    value.address(peer);
    value.constant(after);
    put_origin(value, word);
}

/// Entries for addresses; the first says what the client used.
fn put_hops<'m>(value: &mut LineValue<'_>, hops: impl Iterator<Item = &'m [u8]>, word: &Word<'_>) {
    for (at, hop) in hops.enumerate() {
        value.constant("for=");
        put_node(value, hop);
        if at == 0 {
            put_origin(value, word);
        }
        value.constant(", ");
    }
}

/// The protocol and the host that the client used.
fn put_origin(value: &mut LineValue<'_>, word: &Word<'_>) {
    value.constant(";proto=");
    value.constant(word.proto);
    if !word.authority.is_empty() {
        value.constant(";host=");
        put_host(value, &word.authority);
    }
}

#[cfg(test)]
mod tests;
