//! The store in Redis or Valkey: the script that decides, the names of its keys, and the calls that it takes.
//!
//! One script decides everything, in one step. A [`Call`] carries operations on keys of one slot; operations of one group
//! are granted all or none. Its arguments do not name the server: whoever sends a call puts the server's run id in front.
//!
//! The crate `redis` is `::redis` in here.

mod call;
mod keys;
pub mod link;
mod op;
mod reply;
mod script;

pub use call::{Call, CallBuilder, CallError};
pub use keys::{BUCKETS, Fleet, FleetError, Key, RouteKey};
pub use op::{Op, Permits, Report, Session, SessionError, Shape, Tokens, Window};
pub use reply::{PermitsReply, Replies, Reply, ReplyError, Room, ShapeReply, TokensReply, WindowReply};
pub use script::Script;
