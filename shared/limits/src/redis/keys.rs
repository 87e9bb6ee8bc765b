//! Names: of the fleet, of its buckets, and of every key. What a key holds is the script's affair.
//!
//! A tenant's keys share the hash tag of its bucket, which is a number and never the tenant's id, so that they lie in one
//! slot and a tenant cannot choose its neighbours. The ceiling and each route's shape have tags of their own.

use std::fmt;
use std::sync::Arc;

use cofferdam_model::{Alphabet, FleetName, NameError, TenantId};
use twox_hash::XxHash3_64;

use super::op::Session;
use super::subject::MeterKey;
use crate::RouteKey;

/// How many buckets a fleet's tenants are spread over. Changing it moves every tenant to fresh keys.
pub const BUCKETS: u16 = 1024;

/// The fleet's name, which all its keys carry: two fleets may share a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fleet(Arc<str>);

/// A key of the store. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    text: Arc<str>,
    // Invariant: the tag with its braces is `text[..tag_len]`.
    tag_len: usize,
}

/// Which limit of a subject a message names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recalled {
    Permits,
    Tokens(MeterKey),
}

/// Why text is not a fleet's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the fleet's name: {0}")]
pub struct FleetError(#[from] NameError);

impl Fleet {
    /// The fleet of that name. No [`FleetName`] has a brace or a colon, which would break the hash tag of its keys.
    pub fn new(name: &FleetName) -> Self {
        Self(name.as_str().into())
    }

    /// The same out of text, which is held to what a [`FleetName`] may be.
    pub fn parse(name: &str) -> Result<Self, FleetError> {
        Ok(Self::new(&FleetName::parse(name)?))
    }

    /// The bucket of a tenant, below [`BUCKETS`].
    pub fn bucket(&self, tenant: &TenantId) -> u16 {
        // The remainder is below 1024.
        (XxHash3_64::oneshot(tenant.as_bytes()) % u64::from(BUCKETS)) as u16
    }

    /// The epoch of a bucket's slot.
    pub fn epoch(&self, bucket: u16) -> Key {
        self.key(bucket, format_args!("e"))
    }

    /// A tenant's permits.
    pub fn permits(&self, tenant: &TenantId) -> Key {
        self.key(self.bucket(tenant), format_args!("p:{tenant}"))
    }

    /// A tenant's tokens.
    pub fn tokens(&self, tenant: &TenantId) -> Key {
        self.key(self.bucket(tenant), format_args!("t:{tenant}"))
    }

    /// A tenant's tokens on one route.
    pub fn route_tokens(&self, route: RouteKey, tenant: &TenantId) -> Key {
        self.key(self.bucket(tenant), format_args!("r:{route}:{tenant}"))
    }

    /// A tenant's quota over windows of so many seconds.
    pub fn window(&self, window_s: u32, tenant: &TenantId) -> Key {
        self.key(self.bucket(tenant), format_args!("w{window_s}:{tenant}"))
    }

    /// The epoch of the ceiling's slot.
    pub fn ceiling_epoch(&self) -> Key {
        self.key("ceiling", format_args!("e"))
    }

    /// The ceiling's permits.
    pub fn ceiling_permits(&self) -> Key {
        self.key("ceiling", format_args!("p"))
    }

    /// The ceiling's tokens.
    pub fn ceiling_tokens(&self) -> Key {
        self.key("ceiling", format_args!("t"))
    }

    /// The roll of the fleet's sessions.
    pub fn roll(&self) -> Key {
        self.key("roll", format_args!("p"))
    }

    /// The epoch of the roll's slot.
    pub fn roll_epoch(&self) -> Key {
        self.key("roll", format_args!("e"))
    }

    /// The channel on which a session hears what others are short of; `recall.lua` has the same name.
    pub(super) fn recalls(&self, session: &Session) -> String {
        format!("{{{}:recall}}{session}", self.0)
    }

    /// Whose limit a key is, and which.
    pub(super) fn read(&self, key: &str) -> Option<(Option<TenantId>, Recalled)> {
        let (part, rest) = key.strip_prefix(&format!("{{{}:", self.0))?.split_once('}')?;
        if part == "ceiling" {
            return Some((
                None,
                if rest == "p" { Recalled::Permits } else { Recalled::Tokens(MeterKey::Plan) },
            ));
        }
        let (kind, rest) = rest.split_once(':')?;
        let (recalled, tenant) = match kind {
            "p" => (Recalled::Permits, rest),
            "t" => (Recalled::Tokens(MeterKey::Plan), rest),
            "r" => {
                let (route, tenant) = rest.split_once(':')?;
                let route = RouteKey(u64::from_str_radix(route, 16).ok()?);
                (Recalled::Tokens(MeterKey::Route(route)), tenant)
            }
            window => (Recalled::Tokens(MeterKey::Window(window.strip_prefix('w')?.parse().ok()?)), rest),
        };
        // Of all characters that any fleet may allow.
        let alphabet = Alphabet::with_extra("_.~@+").ok()?;
        Some((Some(TenantId::parse(tenant.as_bytes(), &alphabet).ok()?), recalled))
    }

    /// What is overridden of one kind, and its version.
    pub fn overrides(&self, kind: &str) -> [Key; 2] {
        let key = |rest: &str| self.key("overrides", format_args!("{kind}{rest}"));
        [key(""), key(":version")]
    }

    /// The fleet file that was accepted last.
    pub fn accepted(&self) -> Key {
        self.key("placement", format_args!("accepted"))
    }

    /// How far the change of its table is let loose.
    pub fn release(&self) -> Key {
        self.key("placement", format_args!("release"))
    }

    /// The shape of a route, over all its tenants.
    pub fn shape(&self, route: RouteKey) -> Key {
        self.key(format_args!("s{route}"), format_args!("s"))
    }

    /// The epoch of the slot of a route's shape.
    pub fn shape_epoch(&self, route: RouteKey) -> Key {
        self.key(format_args!("s{route}"), format_args!("e"))
    }

    fn key(&self, part: impl fmt::Display, rest: fmt::Arguments<'_>) -> Key {
        let tag = format!("{{{}:{part}}}", self.0);
        Key { tag_len: tag.len(), text: format!("{tag}{rest}").into() }
    }
}

impl fmt::Display for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Key {
    /// The key as Redis has it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The hash tag with its braces: keys with the same one lie in one slot.
    pub fn tag(&self) -> &str {
        &self.text[..self.tag_len]
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme() -> TenantId {
        TenantId::parse(b"acme", &Alphabet::default()).unwrap()
    }

    #[test]
    fn a_tenants_keys_share_its_buckets_tag() {
        let (fleet, route) = (Fleet::parse("f").unwrap(), RouteKey(0x5e));
        // 0x44ad98655d8858e1 is the hash of `acme`.
        assert_eq!(fleet.bucket(&acme()), 0x0e1);
        let keys = [
            (fleet.epoch(225), "{f:225}e".to_owned()),
            (fleet.permits(&acme()), "{f:225}p:acme".to_owned()),
            (fleet.tokens(&acme()), "{f:225}t:acme".to_owned()),
            (fleet.route_tokens(route, &acme()), format!("{{f:225}}r:{route}:acme")),
            (fleet.window(86_400, &acme()), "{f:225}w86400:acme".to_owned()),
        ];
        for (key, text) in &keys {
            assert_eq!((key.as_str(), key.tag()), (text.as_str(), "{f:225}"));
        }
        let tokens = |key| Some((Some(acme()), Recalled::Tokens(key)));
        let all = [
            None,
            Some((Some(acme()), Recalled::Permits)),
            tokens(MeterKey::Plan),
            tokens(MeterKey::Route(route)),
            tokens(MeterKey::Window(86_400)),
        ];
        assert_eq!(keys.map(|(key, _)| fleet.read(key.as_str())), all);
        let ceiling = [fleet.ceiling_permits(), fleet.ceiling_tokens()].map(|key| fleet.read(key.as_str()));
        assert_eq!(ceiling, [Recalled::Permits, Recalled::Tokens(MeterKey::Plan)].map(|it| Some((None, it))));
        assert_eq!(fleet.read("{g:225}p:acme"), None, "another fleet's");
    }

    #[test]
    fn the_ceiling_and_each_shape_have_slots_of_their_own() {
        let (fleet, route) = (Fleet::parse("f").unwrap(), RouteKey(0xab));
        let ceiling = [fleet.ceiling_permits(), fleet.ceiling_tokens(), fleet.ceiling_epoch()];
        assert_eq!(ceiling.each_ref().map(Key::as_str), ["{f:ceiling}p", "{f:ceiling}t", "{f:ceiling}e"]);
        assert_eq!(fleet.shape(route).as_str(), "{f:s00000000000000ab}s");
        assert_eq!(fleet.shape_epoch(route).tag(), fleet.shape(route).tag());
    }

    #[test]
    fn a_name_that_would_break_the_tag_is_refused() {
        for bad in ["", "a}b", "a{b", "a:b", "a b", "ä", &"x".repeat(65)] {
            assert!(Fleet::parse(bad).is_err(), "{bad}");
        }
        for good in ["eu-west_1.prod", &"x".repeat(33), &"x".repeat(64)] {
            assert!(Fleet::parse(good).is_ok(), "{good}");
        }
    }
}
