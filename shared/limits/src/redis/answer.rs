//! What is read of the store's replies, whatever limit they are about. It changes nothing.

use super::reply::{Contention, PermitsReply, Reply, Room, TokensReply, WindowReply};
use crate::Wait;
use crate::refusal::Refused;

/// What there is to hope for, for one who was short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Hope {
    /// Nothing: the store has said no.
    #[default]
    None,
    /// A permit may be on its way back from another router, or somebody here was faster: it is worth asking once more.
    Once,
    /// Others were asked to return what idles with them.
    Returns,
}

/// What is read of an answer about tokens, whatever measures them.
pub(super) struct TokensAnswer {
    pub(super) stale: bool,
    pub(super) granted: u32,
    pub(super) level: i64,
    pub(super) outstanding: u64,
    pub(super) room: Room,
    pub(super) contention: Contention,
}

impl TokensAnswer {
    pub(super) fn of(reply: &Reply) -> Option<Self> {
        match *reply {
            Reply::Tokens(TokensReply { stale, granted, level, outstanding, room, contention, .. }) => {
                Some(Self { stale, granted, level, outstanding, room, contention })
            }
            Reply::Window(WindowReply { stale, granted, used, room, outstanding, contention }) => {
                let level = i64::try_from(used).unwrap_or(i64::MAX);
                Some(Self { stale, granted, level, outstanding, room, contention })
            }
            Reply::Permits(_) | Reply::Shape(_) => None,
        }
    }
}

pub(super) fn is_stale(reply: &Reply) -> bool {
    match reply {
        Reply::Permits(PermitsReply { stale, .. }) => *stale,
        reply => TokensAnswer::of(reply).is_some_and(|answer| answer.stale),
    }
}

/// What a reply says of waiting; nothing where what was needed was there.
pub(super) fn wait_of(room: Room) -> Option<Wait> {
    match room {
        Room::Now => None,
        Room::In(wait) => Some(Wait::Until(wait)),
        Room::Never => Some(Wait::Never),
    }
}

/// What was said of one who waits, to that one alone.
#[derive(Default)]
pub(super) struct Word {
    pub(super) refused: Vec<Refused>,
    pub(super) stale: bool,
    pub(super) hope: Hope,
}

impl Word {
    pub(super) fn add(&mut self, reply: &Reply, refusal: Option<Refused>, hope: Hope) {
        self.refused.extend(refusal);
        self.hope = self.hope.max(hope);
        self.stale |= is_stale(reply);
    }
}
