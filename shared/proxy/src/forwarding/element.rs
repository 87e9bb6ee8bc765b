//! Entries of Forwarded (RFC 7239 section 4), and the addresses in them (section 6). It knows no request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::str::{self, FromStr};

use http::header::{FORWARDED, HeaderMap, HeaderValue};

use crate::lines::LineValue;

/// What stands for an address that is not known.
pub(super) const UNKNOWN: &[u8] = b"unknown";

/// One hop's entry.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element<'m> {
    /// Whom the request came from, without quotes.
    pub(super) node: Option<&'m [u8]>,
    pub(super) proto: Option<&'m [u8]>,
    pub(super) host: Option<&'m [u8]>,
}

/// A Forwarded that is none: an entry behind it might be read as a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The entries of a head, from all lines.
pub(super) fn elements(fields: &HeaderMap) -> impl Iterator<Item = Result<Element<'_>, Malformed>> {
    let lines = fields.get_all(FORWARDED).iter().map(HeaderValue::as_bytes);
    let elements = lines.flat_map(|line| outside_quotes(line, b',')).map(<[u8]>::trim_ascii);
    elements.filter(|element| !element.is_empty()).map(Element::read)
}

impl<'m> Element<'m> {
    fn read(text: &'m [u8]) -> Result<Self, Malformed> {
        let mut element = Self::default();
        for pair in outside_quotes(text, b';').map(<[u8]>::trim_ascii) {
            let equals = pair.iter().position(|&byte| byte == b'=').ok_or(Malformed)?;
            let (name, value) = (&pair[..equals], unquoted(&pair[equals + 1..])?);
            if !is_token(name) {
                return Err(Malformed);
            }
            let place = match name.to_ascii_lowercase().as_slice() {
                b"for" => &mut element.node,
                b"proto" => &mut element.proto,
                b"host" => &mut element.host,
                _ => continue,
            };
            // Each is there once at most.
            if place.replace(value).is_some() {
                return Err(Malformed);
            }
        }
        Ok(element)
    }
}

/// The parts of a text between separators that stand in no quotes.
fn outside_quotes(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut in_quotes = false;
    text.split(move |&byte| {
        in_quotes ^= byte == b'"';
        byte == separator && !in_quotes
    })
}

/// A value out of its quotes, if it has any. Escapes have no place in what is read here.
fn unquoted(value: &[u8]) -> Result<&[u8], Malformed> {
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    match inner {
        Some(inner) if !inner.contains(&b'"') && !inner.contains(&b'\\') => Ok(inner),
        None if is_token(value) => Ok(value),
        _ => Err(Malformed),
    }
}

fn is_token(text: &[u8]) -> bool {
    let of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(of_token)
}

/// How a hop's address is written.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    Plain,
    InQuotes,
    InBracketsAndQuotes,
    /// It is none.
    Unknown,
}

impl Form {
    fn of(address: &[u8]) -> Self {
        let is_hidden = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
        match address {
            _ if parsed::<Ipv4Addr>(address).is_some() => Self::Plain,
            _ if parsed::<Ipv6Addr>(address).is_some() => Self::InBracketsAndQuotes,
            _ if parsed::<SocketAddrV4>(address).is_some() => Self::InQuotes,
            _ if parsed::<SocketAddrV6>(address).is_some() => Self::InQuotes,
            [b'[', inner @ .., b']'] if parsed::<Ipv6Addr>(inner).is_some() => Self::InQuotes,
            [b'_', rest @ ..] if !rest.is_empty() && rest.iter().all(is_hidden) => Self::Plain,
            _ if address.eq_ignore_ascii_case(UNKNOWN) => Self::Plain,
            _ => Self::Unknown,
        }
    }
}

pub(super) fn parsed<T: FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// The address in an entry of either form, where it is one.
pub(super) fn ip(entry: &[u8]) -> Option<IpAddr> {
    parsed(as_address(entry))
}

/// Writes an address of X-Forwarded-For as Forwarded has it.
pub(super) fn put_node(value: &mut LineValue<'_>, address: &[u8]) {
    let (before, after) = match Form::of(address) {
        Form::Plain => ("", ""),
        Form::InQuotes => ("\"", "\""),
        Form::InBracketsAndQuotes => ("\"[", "]\""),
        Form::Unknown => return value.text(UNKNOWN),
    };
    value.constant(before);
    value.text(address);
    value.constant(after);
}

/// An address of Forwarded as X-Forwarded-For has it.
pub(super) fn as_address(node: &[u8]) -> &[u8] {
    match (node, Form::of(node)) {
        (_, Form::Unknown) => UNKNOWN,
        ([b'[', inner @ .., b']'], _) => inner,
        _ => node,
    }
}

/// Whether an entry of X-Forwarded-For and one of Forwarded are the same address.
pub(super) fn is_same(address: &[u8], node: &[u8]) -> bool {
    let inner = node.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    // Mostly one hop before this one has written both.
    address == node || inner == Some(address) || as_address(address).eq_ignore_ascii_case(as_address(node))
}

/// Writes a host, in quotes where it is no token.
pub(super) fn put_host(value: &mut LineValue<'_>, host: &[u8]) {
    let quote = if is_token(host) { "" } else { "\"" };
    value.constant(quote);
    value.text(host);
    value.constant(quote);
}
