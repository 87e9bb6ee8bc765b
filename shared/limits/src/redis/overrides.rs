//! What operators have overridden, for every router of a fleet: one value for each tenant, which ends by itself, and a version
//! that tells when to look again. It knows no limit: what a value says is the affair of who reads it.

use ::redis::FromRedisValue;

use super::keys::{Fleet, Key};
use super::link::{Link, LinkError, read};
use super::script::Script;

/// The most values that a fleet may have of one kind.
pub const MAX_OVERRIDES: usize = 10_000;

/// Values in one call.
const MAX_IN_CALL: usize = 500;

/// The values of one kind in the store.
#[derive(Debug)]
pub struct OverrideBook {
    link: Link,
    script: Script,
    /// The hash, and its version.
    keys: [Key; 2],
}

/// Which state the values are in. It outlives every one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// When the store first had a version, in microseconds since 1970. Another one means that it has forgotten everything
    /// between, whoever has written since.
    pub birth_us: u64,
    /// Grows with every change.
    pub number: u64,
}

/// Every value, as all are at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct All {
    /// As a [`Look`] has it.
    pub version: Option<Version>,
    /// By tenant; what has ended may still be there.
    pub values: Vec<(String, String)>,
}

/// What the store says at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    /// The store's own time, in milliseconds since 1970.
    pub now_ms: u64,
    /// Another version than before means that something changed; none, that nothing was ever written, or that the store has
    /// forgotten it.
    pub version: Option<Version>,
    /// The value that was asked for, where there is one; it may have ended.
    pub value: Option<String>,
}

/// A value that takes another's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Swap<'a> {
    /// What has to be there: nothing, or this text.
    pub expected: Option<&'a str>,
    /// What is there then. It has to open with `{"until_ms":`, its end in milliseconds since 1970.
    pub value: Option<&'a str>,
    /// The store's time after which nothing is done any more, in milliseconds since 1970.
    pub not_after_ms: Option<u64>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Swapped {
    /// It is there.
    Done,
    /// Something else than expected is there, and stays.
    Changed,
    /// There are [`MAX_OVERRIDES`] already.
    Full,
    /// It is too late.
    Late,
}

/// What came of values that were to be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// How many were not there, and are now.
    pub done: usize,
    /// How many found no room: there are [`MAX_OVERRIDES`] already.
    pub left_out: usize,
}

impl OverrideBook {
    /// The values of `kind`, a word of letters, over `link`.
    pub fn new(link: Link, fleet: &Fleet, kind: &str) -> Self {
        Self { link, script: Script::overrides(), keys: fleet.overrides(kind) }
    }

    /// What the time is there, whether anything changed, and what `tenant` has.
    pub async fn look(&self, tenant: Option<&str>) -> Result<Look, LinkError> {
        let field = tenant.unwrap_or_default().as_bytes();
        let (now_ms, number, birth_us, value): (u64, u64, u64, String) = self.run(&[b"look", field]).await?;
        let value = Some(value).filter(|value| !value.is_empty());
        Ok(Look { now_ms, version: Version::read(number, birth_us), value })
    }

    /// Everything, in one step with its version.
    pub async fn all(&self) -> Result<All, LinkError> {
        let (number, birth_us, values) = self.run(&[b"all"]).await?;
        Ok(All { version: Version::read(number, birth_us), values })
    }

    /// Puts a tenant's value in the place of another, in one step. What has ended counts for nothing, and is taken away by the
    /// way.
    pub async fn swap(&self, tenant: &str, swap: Swap<'_>) -> Result<Swapped, LinkError> {
        let most = MAX_OVERRIDES.to_string();
        let late = swap.not_after_ms.unwrap_or(0).to_string();
        let [expected, value] = [swap.expected, swap.value].map(|text| text.unwrap_or_default().as_bytes());
        let args = [b"swap", most.as_bytes(), tenant.as_bytes(), expected, value, late.as_bytes()];
        match self.run(&args).await? {
            1 => Ok(Swapped::Done),
            0 => Ok(Swapped::Changed),
            2 => Ok(Swapped::Full),
            3 => Ok(Swapped::Late),
            other => Err(LinkError::Unexpected(format!("{other} of a swap"))),
        }
    }

    /// Writes values by tenant where there are none, which have to open as a [`Swap`]'s. That may be several steps, and where
    /// it breaks off some are written.
    pub async fn keep(&self, values: &[(&str, &str)]) -> Result<Kept, LinkError> {
        let most = MAX_OVERRIDES.to_string();
        let mut kept = Kept { done: 0, left_out: 0 };
        for part in values.chunks(MAX_IN_CALL) {
            let mut args: Vec<&[u8]> = vec![b"keep", most.as_bytes()];
            args.extend(part.iter().flat_map(|(tenant, value)| [tenant.as_bytes(), value.as_bytes()]));
            let (done, left_out): (usize, usize) = self.run(&args).await?;
            kept.done += done;
            kept.left_out += left_out;
        }
        Ok(kept)
    }

    async fn run<T: FromRedisValue>(&self, args: &[&[u8]]) -> Result<T, LinkError> {
        read(self.link.run(&self.script, &self.keys, args).await?)
    }
}

impl Version {
    fn read(number: u64, birth_us: u64) -> Option<Self> {
        (number > 0).then_some(Self { birth_us, number })
    }
}
