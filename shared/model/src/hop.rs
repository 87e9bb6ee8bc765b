//! The hop between router and agent: one struct, one set of headers.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::{Alphabet, ClassName, Digest, Revision, TenantError, TenantId, headers};

/// What a router tells an agent about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Whose request it is.
    pub tenant: TenantId,
    /// The class that the router found by the fleet's routes.
    pub class: ClassName,
    /// Which attempt this is of those that may have reached a backend, from 1.
    pub attempt: u8,
    /// Where else the request may go.
    pub resort: Resort,
    /// Time left until the caller's deadline; whole milliseconds on the wire, rounded down.
    pub remaining: Duration,
    /// The revision of the router's fleet file.
    pub revision: Revision,
    /// The digest of the router's placement table.
    pub digest: Digest,
}

/// Where else a request may go that an agent refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Resort {
    /// To another cell of its shard.
    #[default]
    Another,
    /// Nowhere that is believed up: what stands in for its answer is better than a refusal.
    Last,
    /// Nowhere, and here it is not let in: all cells of its shard are too full for its class. Only what stands in for its
    /// answer is asked for.
    Shed,
}

/// Why headers are not a hop.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HopError {
    /// A header is missing or there twice.
    #[error("hop header {0} is not there exactly once")]
    Once(&'static str),
    /// A header's value is not what it should be.
    #[error("hop header {0} has an unusable value")]
    Value(&'static str),
    /// The tenant does not parse.
    #[error(transparent)]
    Tenant(#[from] TenantError),
}

impl Hop {
    /// Writes the hop's headers, in the place of any that were there.
    pub fn write(&self, map: &mut HeaderMap) {
        map.insert(headers::TENANT, value(self.tenant.as_str()));
        map.insert(headers::CLASS, value(self.class.as_str()));
        map.insert(headers::ATTEMPT, HeaderValue::from(u16::from(self.attempt)));
        match self.resort.as_str() {
            Some(word) => map.insert(headers::RESORT, HeaderValue::from_static(word)),
            None => map.remove(headers::RESORT),
        };
        map.insert(headers::REMAINING_MS, HeaderValue::from(self.remaining.as_millis() as u64));
        map.insert(headers::REVISION, HeaderValue::from(self.revision.0));
        map.insert(headers::DIGEST, value(&self.digest.to_string()));
    }

    /// Reads the tenant alone, from a peer whose other words count for nothing.
    pub fn read_tenant(map: &HeaderMap, alphabet: &Alphabet) -> Result<TenantId, HopError> {
        HopFields::of(map).tenant(alphabet)
    }

    /// Reads the remaining time alone, which may not be there.
    ///
    /// # Errors
    ///
    /// Where it is there twice, or is no number of milliseconds.
    pub fn read_remaining(map: &HeaderMap) -> Result<Option<Duration>, HopError> {
        let fields = HopFields::of(map);
        match fields.remaining {
            Said::Never => Ok(None),
            _ => Ok(Some(fields.remaining()?)),
        }
    }

    /// Reads the hop's headers.
    pub fn read(map: &HeaderMap, alphabet: &Alphabet) -> Result<Self, HopError> {
        let fields = HopFields::of(map);
        fields.hop_of(fields.tenant(alphabet)?)
    }
}

impl Resort {
    /// The word on the wire; nothing for the one that is not said.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Another => None,
            Self::Last => Some("last"),
            Self::Shed => Some("shed"),
        }
    }
}

/// The fields of a head that may be a hop's, found in one look at each name: to look for each of them would cost a hash.
#[derive(Debug, Clone, Copy, Default)]
pub struct HopFields<'m> {
    tenant: Said<'m>,
    class: Said<'m>,
    attempt: Said<'m>,
    resort: Said<'m>,
    remaining: Said<'m>,
    revision: Said<'m>,
    digest: Said<'m>,
}

/// How often a field is there.
#[derive(Debug, Clone, Copy, Default)]
enum Said<'m> {
    #[default]
    Never,
    Once(&'m HeaderValue),
    Twice,
}

impl<'m> HopFields<'m> {
    /// Those of `map`.
    pub fn of(map: &'m HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in map {
            let Some(name) = name.as_str().strip_prefix(headers::PREFIX) else { continue };
            let said = match name {
                "tenant" => &mut fields.tenant,
                "class" => &mut fields.class,
                "attempt" => &mut fields.attempt,
                "resort" => &mut fields.resort,
                "remaining-ms" => &mut fields.remaining,
                "revision" => &mut fields.revision,
                "digest" => &mut fields.digest,
                _ => continue,
            };
            *said = match said {
                Said::Never => Said::Once(value),
                Said::Once(_) | Said::Twice => Said::Twice,
            };
        }
        fields
    }

    /// Whether a class is named, whatever it is.
    pub fn names_class(&self) -> bool {
        !matches!(self.class, Said::Never)
    }

    /// The tenant alone, from a peer whose other words count for nothing.
    ///
    /// # Errors
    ///
    /// Where it is not there exactly once, or is none of `alphabet`'s.
    pub fn tenant(&self, alphabet: &Alphabet) -> Result<TenantId, HopError> {
        Ok(TenantId::parse(self.tenant.once("cofferdam-tenant")?.as_bytes(), alphabet)?)
    }

    /// The whole hop of a tenant that was read already.
    ///
    /// # Errors
    ///
    /// Where any of the hop's other headers is not there exactly once, or cannot be used.
    pub fn hop_of(&self, tenant: TenantId) -> Result<Hop, HopError> {
        let (class, digest) = ("cofferdam-class", "cofferdam-digest");
        let attempt = "cofferdam-attempt";
        Ok(Hop {
            tenant,
            class: ClassName::parse(self.class.text(class)?).map_err(|_| HopError::Value(class))?,
            attempt: self.attempt.number(attempt)?.try_into().map_err(|_| HopError::Value(attempt))?,
            resort: self.resort()?,
            remaining: self.remaining()?,
            revision: Revision(self.revision.number("cofferdam-revision")?),
            digest: u64::from_str_radix(self.digest.text(digest)?, 16)
                .map(Digest)
                .map_err(|_| HopError::Value(digest))?,
        })
    }

    fn resort(&self) -> Result<Resort, HopError> {
        let name = "cofferdam-resort";
        match self.resort {
            Said::Never => Ok(Resort::Another),
            said => match said.text(name)? {
                "last" => Ok(Resort::Last),
                "shed" => Ok(Resort::Shed),
                // A newer router's word: the rest of the hop counts all the same.
                _ => Ok(Resort::Another),
            },
        }
    }

    fn remaining(&self) -> Result<Duration, HopError> {
        Ok(Duration::from_millis(self.remaining.number("cofferdam-remaining-ms")?))
    }
}

impl<'m> Said<'m> {
    fn once(self, name: &'static str) -> Result<&'m HeaderValue, HopError> {
        match self {
            Self::Once(value) => Ok(value),
            Self::Never | Self::Twice => Err(HopError::Once(name)),
        }
    }

    fn text(self, name: &'static str) -> Result<&'m str, HopError> {
        self.once(name)?.to_str().map_err(|_| HopError::Value(name))
    }

    fn number(self, name: &'static str) -> Result<u64, HopError> {
        self.text(name)?.parse().map_err(|_| HopError::Value(name))
    }
}

/// Every word of a hop is plain ASCII by its own parser.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop() -> Hop {
        Hop {
            tenant: TenantId::parse(b"acme", &Alphabet::default()).unwrap(),
            class: ClassName::parse("checkout").unwrap(),
            attempt: 2,
            resort: Resort::Last,
            remaining: Duration::from_millis(900),
            revision: Revision(42),
            digest: Digest(0xab),
        }
    }

    #[test]
    fn a_hop_reads_back_and_replaces_what_was_there() {
        let mut map = HeaderMap::new();
        map.append(headers::TENANT, HeaderValue::from_static("forged"));
        hop().write(&mut map);
        assert_eq!(Hop::read(&map, &Alphabet::default()), Ok(hop()));
        for resort in [Resort::Shed, Resort::Another] {
            let other = Hop { resort, ..hop() };
            other.write(&mut map);
            assert_eq!(Hop::read(&map, &Alphabet::default()), Ok(other));
        }
    }

    #[test]
    fn a_later_word_on_where_else_to_go_leaves_the_rest_of_the_hop() {
        let mut map = HeaderMap::new();
        hop().write(&mut map);
        map.insert(headers::RESORT, HeaderValue::from_static("later"));
        let read = Hop::read(&map, &Alphabet::default());
        assert_eq!(read, Ok(Hop { resort: Resort::Another, ..hop() }));
    }

    #[test]
    fn a_hop_with_a_header_missing_or_twice_is_refused() {
        let mut map = HeaderMap::new();
        hop().write(&mut map);
        map.append(headers::CLASS, HeaderValue::from_static("search"));
        assert_eq!(Hop::read(&map, &Alphabet::default()), Err(HopError::Once("cofferdam-class")));
        map.remove(headers::TENANT);
        assert_eq!(Hop::read(&map, &Alphabet::default()), Err(HopError::Once("cofferdam-tenant")));
    }
}
