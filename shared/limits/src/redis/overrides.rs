//! What operators have overridden, for every router of a fleet: one value for each tenant, which ends by itself, and a version
//! that tells when to look again. It knows no limit: what a value says is the affair of who reads it.

use ::redis::{FromRedisValue, Value, cmd, from_redis_value};

use super::keys::{Fleet, Key};
use super::link::{Link, LinkError};
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

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// In the place of whatever is there.
    Put,
    /// Only where nothing is.
    Keep,
    /// Nothing: what is there goes.
    Drop,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// How many were done as was asked.
    pub done: usize,
    /// How many found no room: there are [`MAX_OVERRIDES`] already.
    pub left_out: usize,
}

impl OverrideBook {
    /// The values of `kind`, a word of letters, over `link`.
    pub fn new(link: Link, fleet: &Fleet, kind: &str) -> Self {
        Self { link, script: Script::overrides(), keys: fleet.overrides(kind) }
    }

    /// The version: another one than before means that something changed; none, that nothing was ever written, or that the
    /// store has forgotten it.
    pub async fn version(&self) -> Result<Option<u64>, LinkError> {
        let [_, version] = &self.keys;
        read(self.link.command(cmd("GET").arg(version.as_str()).to_owned()).await?)
    }

    /// Everything, by tenant; what has ended may still be there.
    pub async fn all(&self) -> Result<Vec<(String, String)>, LinkError> {
        let [hash, _] = &self.keys;
        read(self.link.command(cmd("HGETALL").arg(hash.as_str()).to_owned()).await?)
    }

    /// Writes values by tenant, which have to open with `{"until_ms":`, the end in milliseconds since 1970. What has ended is
    /// taken away by the way.
    pub async fn change(&self, change: Change, values: &[(&str, &str)]) -> Result<Changed, LinkError> {
        let what: &[u8] = match change {
            Change::Put => b"put",
            Change::Keep => b"keep",
            Change::Drop => b"drop",
        };
        let most = MAX_OVERRIDES.to_string();
        let mut changed = Changed { done: 0, left_out: 0 };
        for part in values.chunks(MAX_IN_CALL) {
            let mut args = vec![what, most.as_bytes()];
            args.extend(part.iter().flat_map(|(tenant, value)| [tenant.as_bytes(), value.as_bytes()]));
            let (done, left_out, _): (usize, usize, usize) =
                read(self.link.run(&self.script, &self.keys, &args).await?)?;
            changed.done += done;
            changed.left_out += left_out;
        }
        Ok(changed)
    }
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, LinkError> {
    from_redis_value(value).map_err(|error| LinkError::Unexpected(error.to_string()))
}
