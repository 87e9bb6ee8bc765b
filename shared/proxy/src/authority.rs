//! The grammar of hosts, ports and schemes (RFC 3986 sections 3.1 and 3.2), strictly: the URI parser reads more leniently.

use std::net::Ipv6Addr;

/// The most bytes of a host and its port. A name of DNS has 253 at most.
const MAX_HOST: usize = 320;

/// Which bytes most hosts consist of.
const IS_OF_NAME: [bool; 256] = table(b"-._");

/// Which bytes else the name of a host may have; the percent sign is not among them, since nobody resolves such names.
const IS_OF_REG_NAME: [bool; 256] = table(b"-._~!$&'()*+,;=");

/// Letters, digits and `more`.
const fn table(more: &[u8]) -> [bool; 256] {
    let mut is_in = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        is_in[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut at = 0;
    while at < more.len() {
        is_in[more[at] as usize] = true;
        at += 1;
    }
    is_in
}

/// Whether `text` is a host and perhaps a port, as Host and `:authority` have them: no user, no empty host.
pub(crate) fn is_host_and_port(text: &[u8]) -> bool {
    if text.len() > MAX_HOST {
        return false;
    }
    // Nearly all have nothing else.
    let n = text.iter().take_while(|&&byte| IS_OF_NAME[usize::from(byte)]).count();
    match &text[n..] {
        [] => n > 0,
        [b':', port @ ..] if n > 0 => is_port(port),
        [b'[', literal @ ..] if n == 0 => is_literal_and_port(literal),
        _ => is_reg_name_and_port(text),
    }
}

/// The rest behind an opening bracket.
fn is_literal_and_port(text: &[u8]) -> bool {
    let Some(end) = text.iter().position(|&byte| byte == b']') else { return false };
    let is_behind = match &text[end + 1..] {
        [] => true,
        [b':', port @ ..] => is_port(port),
        _ => false,
    };
    is_behind && (is_ipv6(&text[..end]) || is_future(&text[..end]))
}

fn is_ipv6(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
}

/// An address of a version to come: `v`, its number in hexadecimal digits, a dot, and what that version defines.
fn is_future(text: &[u8]) -> bool {
    let [b'v' | b'V', rest @ ..] = text else { return false };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let [b'.', address @ ..] = &rest[digits..] else { return false };
    let is_of_address = |&byte: &u8| byte == b':' || IS_OF_REG_NAME[usize::from(byte)];
    digits > 0 && !address.is_empty() && address.iter().all(is_of_address)
}

fn is_reg_name_and_port(text: &[u8]) -> bool {
    let n = text.iter().take_while(|&&byte| IS_OF_REG_NAME[usize::from(byte)]).count();
    match &text[n..] {
        [] => n > 0,
        [b':', port @ ..] => n > 0 && is_port(port),
        _ => false,
    }
}

/// Digits of a number of sixteen bits, or nothing.
fn is_port(port: &[u8]) -> bool {
    let digits = |port: &[u8]| {
        port.iter().try_fold(0_u16, |n, byte| n.checked_mul(10)?.checked_add((byte - b'0').into()))
    };
    port.iter().all(u8::is_ascii_digit) && digits(port).is_some()
}

/// Whether `text` is a scheme: a letter, then letters, digits, and three signs.
pub(crate) fn is_scheme(text: &[u8]) -> bool {
    let is_in = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(is_in)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_port_has_sixteen_bits() {
        for host in [
            "a",
            "a.example",
            "A-b_c.example:80",
            "10.0.0.7:65535",
            "localhost:1",
            "-",
            "1",
            "a:",
            "a:0",
            "a:00080",
            "[::1]",
            "[::1]:80",
            "[::ffff:10.0.0.7]",
            "[v1.a:b]",
            "a!b",
            "a,b:80",
            "a~b",
        ] {
            assert!(is_host_and_port(host.as_bytes()), "{host}");
        }
        for host in [
            "",
            ":80",
            ":",
            "a:8o",
            "a:65536",
            "a:99999999999999999999",
            "a:+80",
            "a:-1",
            "a: 80",
            "a:80:80",
            "user@a",
            "a/b",
            "a b",
            "a%20b",
            "a#b",
            "a?b",
            "[]",
            "[::g]",
            "[::1",
            "::1",
            "[::1]]",
            "[[::1]]",
            "[::1]a",
            "a[::1]",
            "[10.0.0.7]",
            "[::1]:65536",
            "[v.a]",
            "[v1.]",
            "[fe80::1%25eth0]",
            "a\u{e9}",
        ] {
            assert!(!is_host_and_port(host.as_bytes()), "{host}");
        }
        assert!(is_host_and_port("a".repeat(MAX_HOST).as_bytes()));
        assert!(!is_host_and_port("a".repeat(MAX_HOST + 1).as_bytes()));
    }

    #[test]
    fn a_scheme_begins_with_a_letter() {
        for (scheme, is) in [
            ("http", true),
            ("h2+c.d-e", true),
            ("", false),
            ("1a", false),
            ("a~", false),
            ("a:", false),
            ("+a", false),
        ] {
            assert_eq!(is_scheme(scheme.as_bytes()), is, "{scheme}");
        }
    }
}
