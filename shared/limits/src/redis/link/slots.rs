//! A cluster's slots: which slot a key lies in, and which server has which slots, as servers tell it. No I/O.

use ::redis::Value;

use super::endpoint::Address;

/// How many slots a cluster has.
pub(super) const N_SLOTS: u16 = 16384;

/// The slot of a key: CRC16 of what stands in its first braces, or of all of it.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) % N_SLOTS
}

fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let tag = &key[open + 1..];
    match tag.iter().position(|byte| *byte == b'}') {
        None | Some(0) => key,
        Some(close) => &tag[..close],
    }
}

/// CRC16 as XMODEM has it: polynomial 0x1021, nothing reflected.
const fn crc16(bytes: &[u8]) -> u16 {
    let (mut crc, mut at) = (0_u16, 0);
    while at < bytes.len() {
        crc = (crc << 8) ^ TABLE[((crc >> 8) as u8 ^ bytes[at]) as usize];
        at += 1;
    }
    crc
}

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let (mut table, mut byte) = ([0; 256], 0);
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// A run of slots, and who has it: its master first, then its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) servers: Vec<Address>,
}

/// Reads what CLUSTER SLOTS answered. A server without a host is the one that was `asked`, or is beside it.
pub(super) fn ranges(answer: Value, asked: &Address) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = answer else { return None };
    ranges.into_iter().map(|range| slot_range(range, asked)).collect()
}

fn slot_range(value: Value, asked: &Address) -> Option<SlotRange> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let mut slot = || match parts.next()? {
        Value::Int(slot) => u16::try_from(slot).ok().filter(|slot| *slot < N_SLOTS),
        _ => None,
    };
    let (first, last) = (slot()?, slot()?);
    let servers: Vec<_> = parts.map(|server| self::server(server, asked)).collect::<Option<_>>()?;
    (first <= last && !servers.is_empty()).then_some(SlotRange { first, last, servers })
}

fn server(value: Value, asked: &Address) -> Option<Address> {
    let Value::Array(parts) = value else { return None };
    let mut parts = parts.into_iter();
    let host = match parts.next()? {
        Value::BulkString(host) => String::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => String::new(),
        _ => return None,
    };
    let Value::Int(port) = parts.next()? else { return None };
    beside(asked, host, u16::try_from(port).ok()?)
}

/// The target of `MOVED` or `ASK`, from what follows that word: a slot, and `host:port`.
pub(super) fn target(text: &str, asked: &Address) -> Option<Address> {
    let (_, place) = text.trim().split_once(' ')?;
    let (host, port) = place.rsplit_once(':')?;
    beside(asked, host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?)
}

fn beside(asked: &Address, host: String, port: u16) -> Option<Address> {
    match asked {
        // A server that does not know its own name says `?`.
        Address::Tcp { host: known, .. } if host.is_empty() || host == "?" => {
            Some(Address::Tcp { host: known.clone(), port })
        }
        _ => Some(Address::Tcp { host, port }),
    }
}
