//! The hop between router and agent: one struct, one set of headers.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{Alphabet, ClassName, Digest, Revision, TenantError, TenantId, headers};

/// What a router tells an agent about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// Whose request it is.
    pub tenant: TenantId,
    /// The class that the router found by the fleet's routes.
    pub class: ClassName,
    /// Which attempt this is, from 1.
    pub attempt: u8,
    /// Time left until the caller's deadline; whole milliseconds on the wire, rounded down.
    pub remaining: Duration,
    /// The revision of the router's fleet file.
    pub revision: Revision,
    /// The digest of the router's placement table.
    pub digest: Digest,
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
        map.insert(headers::REMAINING_MS, HeaderValue::from(self.remaining.as_millis() as u64));
        map.insert(headers::REVISION, HeaderValue::from(self.revision.0));
        map.insert(headers::DIGEST, value(&self.digest.to_string()));
    }

    /// Reads the tenant alone, from a peer whose other words count for nothing.
    pub fn read_tenant(map: &HeaderMap, alphabet: &Alphabet) -> Result<TenantId, HopError> {
        Ok(TenantId::parse(one(map, &TENANT)?.as_bytes(), alphabet)?)
    }

    /// Reads the remaining time alone, which may not be there.
    ///
    /// # Errors
    ///
    /// Where it is there twice, or is no number of milliseconds.
    pub fn read_remaining(map: &HeaderMap) -> Result<Option<Duration>, HopError> {
        // It seldom is: a look at each name costs less than the hash of one.
        if !map.keys().any(|name| *name == REMAINING_MS.0) {
            return Ok(None);
        }
        Ok(Some(Duration::from_millis(number(map, &REMAINING_MS)?)))
    }

    /// Reads the hop's headers.
    pub fn read(map: &HeaderMap, alphabet: &Alphabet) -> Result<Self, HopError> {
        Self::read_for(Self::read_tenant(map, alphabet)?, map)
    }

    /// Reads the rest of the hop of a tenant that was read already.
    ///
    /// # Errors
    ///
    /// Where any of the hop's other headers is not there exactly once, or cannot be used.
    pub fn read_for(tenant: TenantId, map: &HeaderMap) -> Result<Self, HopError> {
        let class = ClassName::parse(text(map, &CLASS)?).map_err(|_| HopError::Value(CLASS.1))?;
        let digest = u64::from_str_radix(text(map, &DIGEST)?, 16);
        Ok(Self {
            tenant,
            class,
            attempt: number(map, &ATTEMPT)?.try_into().map_err(|_| HopError::Value(ATTEMPT.1))?,
            remaining: Duration::from_millis(number(map, &REMAINING_MS)?),
            revision: Revision(number(map, &REVISION)?),
            digest: Digest(digest.map_err(|_| HopError::Value(DIGEST.1))?),
        })
    }
}

/// A header as it is looked up, and as errors name it: to make a name of a text costs more than to look it up.
type Field = (HeaderName, &'static str);

static TENANT: Field = (headers::TENANT, "cofferdam-tenant");
static CLASS: Field = (headers::CLASS, "cofferdam-class");
static ATTEMPT: Field = (headers::ATTEMPT, "cofferdam-attempt");
static REMAINING_MS: Field = (headers::REMAINING_MS, "cofferdam-remaining-ms");
static REVISION: Field = (headers::REVISION, "cofferdam-revision");
static DIGEST: Field = (headers::DIGEST, "cofferdam-digest");

/// Every word of a hop is plain ASCII by its own parser.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(""))
}

fn one<'a>(map: &'a HeaderMap, field: &Field) -> Result<&'a HeaderValue, HopError> {
    let mut values = map.get_all(&field.0).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        _ => Err(HopError::Once(field.1)),
    }
}

fn text<'a>(map: &'a HeaderMap, field: &Field) -> Result<&'a str, HopError> {
    one(map, field)?.to_str().map_err(|_| HopError::Value(field.1))
}

fn number(map: &HeaderMap, field: &Field) -> Result<u64, HopError> {
    text(map, field)?.parse().map_err(|_| HopError::Value(field.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop() -> Hop {
        Hop {
            tenant: TenantId::parse(b"acme", &Alphabet::default()).unwrap(),
            class: ClassName::parse("checkout").unwrap(),
            attempt: 2,
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
