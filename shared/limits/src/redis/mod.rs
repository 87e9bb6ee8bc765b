//! The store in Redis or Valkey: the script that decides, the names of its keys, and the calls that it takes; and what a
//! process keeps on loan from it, so that most requests need no call.
//!
//! One script decides everything, in one step. A [`Call`] carries operations on keys of one slot; operations of one group
//! are granted all or none. Its arguments do not name the server: whoever sends a call puts the server's run id in front.
//!
//! The crate `redis` is `::redis` in here.

mod accepted;
mod alone;
mod answer;
mod apply;
mod ask;
mod begin;
mod breaker;
mod call;
mod compose;
mod contest;
mod core;
mod due;
mod exchange;
mod figures;
mod fresh;
mod keys;
mod lease;
mod ledger;
pub mod link;
mod measure;
mod needs;
mod op;
mod overrides;
mod patience;
mod piecemeal;
mod probe;
mod queue;
mod recall;
mod release;
mod reply;
mod roll;
mod script;
mod settle;
mod share;
mod stand;
mod store;
mod subject;
mod syncer;
mod table;
mod take;
mod terms;
mod want;
mod words;
#[cfg(test)]
mod words_checked;

pub use accepted::{AcceptedBook, AcceptedFile};
pub use call::{Call, CallBuilder, CallError};
pub use figures::{Loan, LocalShare, SharingMetrics};
pub use keys::{BUCKETS, Fleet, FleetError, Key};
pub use op::{Dealing, Keeps, Op, Permits, Report, Session, SessionError, Shape, Tokens, Window};
pub use overrides::{All, Kept, Look, MAX_OVERRIDES, OverrideBook, Swap, Swapped, Version};
pub use release::{ReleaseBook, ReleaseName, ReleaseProgress, ReleaseState, ReleaseTerms};
pub use reply::{
    Contention, PermitsReply, Replies, Reply, ReplyError, Room, ShapeReply, TokensReply, WindowReply,
};
pub use script::Script;
pub use store::{RedisStore, Sharing};
pub use terms::{DEFAULT_TTL, Mode};
