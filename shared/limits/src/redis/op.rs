//! What a call may ask for, one operation for each kind of limit. It knows no keys: an operation's key goes beside it.

use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use cofferdam_model::Rate;

use crate::BucketPolicy;

/// A process's id in every account, made when it starts: 8 to 16 small letters and digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Session(Box<str>);

/// Why text is not a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("session {0:?} is not 8 to 16 small letters and digits")]
pub struct SessionError(String);

/// One operation. Its key goes beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Holds permits.
    Permits(Permits),
    /// Takes tokens from a bucket.
    Tokens(Tokens),
    /// Takes from a quota over sliding windows.
    Window(Window),
    /// Takes a place in a smoothed flow.
    Shape(Shape),
}

/// Acquires, renews and releases permits, in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permits {
    /// How many all sessions may hold.
    pub limit: u32,
    /// Grows by at least one with each call for a key.
    pub seq: NonZeroU64,
    /// The cap that the session has bound itself to before it sends this. `None` is what the server has for it: only where
    /// the key came before in the same call.
    pub held: Option<u32>,
    /// How many more.
    pub want: u32,
    /// With fewer than these, the group gets nothing.
    pub min: u32,
    /// How what is left is dealt out.
    pub dealing: Dealing,
}

/// Takes tokens, and reports what became of those taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tokens {
    /// The bucket's rate and capacity.
    pub bucket: BucketPolicy,
    /// What became of tokens taken before.
    pub report: Report,
    /// How many are wanted.
    pub want: u32,
    /// With fewer than these, the group gets nothing.
    pub min: u32,
    /// How what is left is dealt out.
    pub dealing: Dealing,
}

/// Takes from a quota, and reports what became of what was taken before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// The window, in seconds; at least 1.
    pub window_s: u32,
    /// How many in one window; at least 1 and at most 2^36.
    pub limit: u64,
    /// What became of what was taken before.
    pub report: Report,
    /// How many are wanted.
    pub want: u32,
    /// With fewer than these, the group gets nothing.
    pub min: u32,
    /// How what is left is dealt out.
    pub dealing: Dealing,
}

/// How a call shares what is left with the other sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dealing {
    /// How many of what is wanted somebody waits for, at most `want`. Where these are not there, others are asked to return what
    /// idles with them.
    pub need: u32,
    /// What is wanted beyond that is at most one part in so many of what is left; at least 1.
    pub parts: u32,
    /// What the session keeps idle after this call.
    pub keeps: Keeps,
}

/// What a session keeps idle of a key, as it says with each call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Nothing: whatever idles goes back at once.
    Nothing,
    /// Something, perhaps: it can be asked for it.
    Spare,
    /// The same, but this call has returned all of it.
    Returned,
}

/// Takes the next free place of a flow of `rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How fast it flows.
    pub rate: Rate,
    /// How many may wait.
    pub depth: u32,
    /// How long any of them may wait.
    pub max_wait: Duration,
}

/// What a session says of tokens that it was granted before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// There is no account: what is granted is spent at once. What turned out to be spent beyond that is charged, what turned
    /// out to be spent less (below zero) is given back; 0 says nothing.
    Spent(i64),
    /// A lease: the session answers for what it was granted.
    Account {
        /// Grows by at least one with each call for a key.
        seq: NonZeroU64,
        /// What it holds unspent.
        held: u32,
        /// What it has spent in all, as long as it lives; refunds count down.
        spent: i64,
    },
}

impl Session {
    /// Checks a session's id.
    pub fn parse(text: &str) -> Result<Self, SessionError> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
        match text.len() {
            8..=16 if text.bytes().all(plain) => Ok(Self(text.into())),
            _ => Err(SessionError(text.to_owned())),
        }
    }

    /// The id as the script has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Dealing {
    /// Nobody waits, all that is left may be had, and nothing is kept.
    pub const PLAIN: Self = Self { need: 0, parts: 1, keeps: Keeps::Nothing };
}

impl Report {
    /// Nothing to say.
    pub const NOTHING: Self = Self::Spent(0);

    /// `seq`, `held` and `spent` on the wire.
    pub(super) fn numbers(self) -> [i128; 3] {
        match self {
            Self::Spent(spent) => [0, 0, spent.into()],
            Self::Account { seq, held, spent } => [seq.get().into(), held.into(), spent.into()],
        }
    }
}
