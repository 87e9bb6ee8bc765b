//! What the script answers, read with suspicion: anything that is not exactly of its shape is an error, and never a grant.

use std::time::Duration;

use ::redis::Value;

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replies {
    /// The server's time, in microseconds since 1970.
    pub now_us: u64,
    /// The epoch is younger than a TTL: permits are registered, and none are granted.
    pub learning: bool,
    /// One reply for each operation, in the call's order.
    pub ops: Vec<Reply>,
}

/// The answer to one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// To [`Permits`](super::Permits).
    Permits(PermitsReply),
    /// To [`Tokens`](super::Tokens).
    Tokens(TokensReply),
    /// To [`Window`](super::Window).
    Window(WindowReply),
    /// To [`Shape`](super::Shape).
    Shape(ShapeReply),
}

/// Where the permits of one key stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermitsReply {
    /// The call came too late: nothing changed, and nothing here may be taken over.
    pub stale: bool,
    /// What this session holds now, grant included.
    pub total: u64,
    /// What the other live sessions hold.
    pub others: u64,
    /// Live sessions, this one included.
    pub n_live: u32,
    /// Whether sessions compete for the key.
    pub contention: Contention,
}

/// Where a bucket stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokensReply {
    /// The call came too late: nothing changed.
    pub stale: bool,
    /// Tokens that were granted.
    pub granted: u32,
    /// What is left, in 1/P tokens of the policy asked with; below zero after a charge that it did not cover.
    pub level: i64,
    /// Tokens that all live sessions hold unspent, this one included.
    pub outstanding: u64,
    /// When `min` is there.
    pub room: Room,
    /// What all live sessions want, this one included.
    pub wanted: u64,
    /// Whether sessions compete for the key.
    pub contention: Contention,
}

/// Where a quota stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowReply {
    /// The call came too late: nothing changed.
    pub stale: bool,
    /// What was granted.
    pub granted: u32,
    /// What counts as used, the grant and what is outstanding included, rounded up.
    pub used: u64,
    /// When `min` is there.
    pub room: Room,
    /// What all live sessions hold unspent, this one included.
    pub outstanding: u64,
    /// Whether sessions compete for the key.
    pub contention: Contention,
}

/// Whether sessions compete for what is left of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contention {
    /// They do not.
    None,
    /// They do, or did within the last seconds; nobody holds anything idle that the store knows of.
    Contended,
    /// This call was short, and others may hold something idle: they were asked to return it.
    Recalled,
    /// The same, but the store's user may send no messages: they learn of it with their next call.
    Mute,
}

/// A place in a smoothed flow, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeReply {
    /// Go on after so long.
    Slot(Duration),
    /// Too many wait; there is room after so long.
    Refused(Duration),
}

/// When a `min` is there, if nobody else takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It is there.
    Now,
    /// After so long, and not a microsecond before.
    In(Duration),
    /// Never: it exceeds what there can be.
    Never,
}

/// Why a value is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// Something else than a list.
    #[error("the script's answer is not a list: {0}")]
    NotAList(String),
    /// Too short or too long.
    #[error("the script's answer has {got} numbers instead of {expected}")]
    Length {
        /// Numbers that the call's operations have.
        expected: usize,
        /// Numbers that came.
        got: usize,
    },
    /// A part that is no whole number.
    #[error("number {at} of the script's answer is {got}")]
    NotANumber {
        /// Which, from 0.
        at: usize,
        /// What came instead.
        got: String,
    },
    /// A number that its place does not allow.
    #[error("number {at} of the script's answer is out of range: {got}")]
    Range {
        /// Which, from 0.
        at: usize,
        /// What came.
        got: i64,
    },
}

/// What kind of answer an operation has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Permits,
    Tokens,
    Window,
    Shape,
}

impl Kind {
    fn n_numbers(self) -> usize {
        match self {
            Self::Permits => 5,
            Self::Tokens => 7,
            Self::Window => 6,
            Self::Shape => 2,
        }
    }
}

impl Replies {
    /// Reads the answer to a call of operations of these kinds.
    pub(super) fn read(kinds: &[Kind], value: &Value) -> Result<Self, ReplyError> {
        let Value::Array(values) = value else { return Err(ReplyError::NotAList(shown(value))) };
        let expected = 2 + kinds.iter().map(|kind| kind.n_numbers()).sum::<usize>();
        if values.len() != expected {
            return Err(ReplyError::Length { expected, got: values.len() });
        }
        let mut numbers = Numbers { values, at: 0 };
        let (now_us, learning) = (numbers.next()?, numbers.flag()?);
        let ops = kinds.iter().map(|kind| Reply::read(*kind, &mut numbers)).collect::<Result<_, _>>()?;
        Ok(Self { now_us, learning, ops })
    }
}

impl Reply {
    fn read(kind: Kind, numbers: &mut Numbers<'_>) -> Result<Self, ReplyError> {
        Ok(match kind {
            Kind::Permits => Self::Permits(PermitsReply {
                stale: numbers.flag()?,
                total: numbers.next()?,
                others: numbers.next()?,
                n_live: numbers.next()?,
                contention: numbers.contention()?,
            }),
            Kind::Tokens => Self::Tokens(TokensReply {
                stale: numbers.flag()?,
                granted: numbers.next()?,
                level: numbers.next()?,
                outstanding: numbers.next()?,
                room: numbers.room()?,
                wanted: numbers.next()?,
                contention: numbers.contention()?,
            }),
            Kind::Window => Self::Window(WindowReply {
                stale: numbers.flag()?,
                granted: numbers.next()?,
                used: numbers.next()?,
                room: numbers.room()?,
                outstanding: numbers.next()?,
                contention: numbers.contention()?,
            }),
            Kind::Shape => Self::Shape(match numbers.status(2)? {
                true => ShapeReply::Refused(numbers.duration()?),
                false => ShapeReply::Slot(numbers.duration()?),
            }),
        })
    }
}

/// The numbers of an answer, one after the other. Their count was checked.
struct Numbers<'a> {
    values: &'a [Value],
    at: usize,
}

impl Numbers<'_> {
    fn integer(&mut self) -> Result<i64, ReplyError> {
        let at = self.at;
        self.at += 1;
        match &self.values[at] {
            Value::Int(number) => Ok(*number),
            other => Err(ReplyError::NotANumber { at, got: shown(other) }),
        }
    }

    fn next<T: TryFrom<i64>>(&mut self) -> Result<T, ReplyError> {
        let got = self.integer()?;
        T::try_from(got).map_err(|_| ReplyError::Range { at: self.at - 1, got })
    }

    /// 0 is no, `yes` is yes, and there is nothing else.
    fn status(&mut self, yes: i64) -> Result<bool, ReplyError> {
        match self.integer()? {
            0 => Ok(false),
            got if got == yes => Ok(true),
            got => Err(ReplyError::Range { at: self.at - 1, got }),
        }
    }

    fn flag(&mut self) -> Result<bool, ReplyError> {
        self.status(1)
    }

    fn duration(&mut self) -> Result<Duration, ReplyError> {
        self.next().map(Duration::from_micros)
    }

    fn contention(&mut self) -> Result<Contention, ReplyError> {
        match self.integer()? {
            0 => Ok(Contention::None),
            1 => Ok(Contention::Contended),
            2 => Ok(Contention::Recalled),
            3 => Ok(Contention::Mute),
            got => Err(ReplyError::Range { at: self.at - 1, got }),
        }
    }

    fn room(&mut self) -> Result<Room, ReplyError> {
        match self.integer()? {
            -1 => Ok(Room::Never),
            0 => Ok(Room::Now),
            wait_us => match u64::try_from(wait_us) {
                Ok(wait_us) => Ok(Room::In(Duration::from_micros(wait_us))),
                Err(_) => Err(ReplyError::Range { at: self.at - 1, got: wait_us }),
            },
        }
    }
}

/// A value as a message may carry it: what a server sends has no bound.
fn shown(value: &Value) -> String {
    format!("{value:?}").chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kinds: &[Kind], numbers: &[i64]) -> Result<Replies, ReplyError> {
        Replies::read(kinds, &Value::Array(numbers.iter().map(|n| Value::Int(*n)).collect()))
    }

    #[test]
    fn each_kind_has_its_numbers_in_order() {
        let kinds = [Kind::Permits, Kind::Tokens, Kind::Window, Kind::Shape, Kind::Shape];
        let numbers = [1_790_000_000_000_000, 1];
        let ops =
            [&[0, 4, 2, 3, 0][..], &[0, 7, -9, 8, 200_000, 11, 2], &[1, 0, 5, -1, 6, 3], &[0, 50], &[2, 60]];
        let replies = read(&kinds, &[&numbers[..], &ops.concat()].concat()).unwrap();
        assert_eq!((replies.now_us, replies.learning), (1_790_000_000_000_000, true));
        let [us_50, us_60] = [50, 60].map(Duration::from_micros);
        let room = Room::In(Duration::from_millis(200));
        assert_eq!(
            replies.ops,
            [
                Reply::Permits(PermitsReply {
                    stale: false,
                    total: 4,
                    others: 2,
                    n_live: 3,
                    contention: Contention::None
                }),
                Reply::Tokens(TokensReply {
                    stale: false,
                    granted: 7,
                    level: -9,
                    outstanding: 8,
                    room,
                    wanted: 11,
                    contention: Contention::Recalled,
                }),
                Reply::Window(WindowReply {
                    stale: true,
                    granted: 0,
                    used: 5,
                    room: Room::Never,
                    outstanding: 6,
                    contention: Contention::Mute,
                }),
                Reply::Shape(ShapeReply::Slot(us_50)),
                Reply::Shape(ShapeReply::Refused(us_60)),
            ]
        );
    }

    #[test]
    fn whatever_is_not_of_the_shape_is_an_error() {
        let permits = [Kind::Permits];
        assert_eq!(read(&permits, &[1, 0, 0, 4, 2, 1]), Err(ReplyError::Length { expected: 7, got: 6 }));
        assert_eq!(read(&[], &[1, 0, 0]), Err(ReplyError::Length { expected: 2, got: 3 }));
        for (at, got, numbers) in [
            (0, -1, [-1, 0, 0, 4, 2, 1, 0]),
            (1, 2, [1, 2, 0, 4, 2, 1, 0]),
            (2, 2, [1, 0, 2, 4, 2, 1, 0]),
            (3, -4, [1, 0, 0, -4, 2, 1, 0]),
            (5, 1 << 32, [1, 0, 0, 4, 2, 1 << 32, 0]),
            (6, 4, [1, 0, 0, 4, 2, 1, 4]),
        ] {
            assert_eq!(read(&permits, &numbers), Err(ReplyError::Range { at, got }));
        }
        assert_eq!(
            read(&[Kind::Tokens], &[1, 0, 0, 0, 0, 0, -2, 0, 0]),
            Err(ReplyError::Range { at: 6, got: -2 })
        );
        assert_eq!(read(&[Kind::Shape], &[1, 0, 1, 0]), Err(ReplyError::Range { at: 2, got: 1 }));
        let text = Value::Array(vec![Value::Int(1), Value::BulkString(b"0".to_vec())]);
        assert!(matches!(Replies::read(&[], &text), Err(ReplyError::NotANumber { at: 1, .. })));
        assert!(matches!(Replies::read(&[], &Value::Nil), Err(ReplyError::NotAList(_))));
    }
}
