//! The connections to Redis: to one server, to whom Sentinel names, or to a cluster. It knows no limits; it brings calls of
//! the script there and answers back.
//!
//! - Nothing here waits for a connection. It is opened in the background, and again when it has ended; meanwhile a call
//!   fails at once. A connection from which nothing came while a call waited in vain is given up.
//! - A call is executed once at most. It is sent again only where the server says that it executed nothing: it did not
//!   know the script, or somebody else of the cluster has the key. A call that is late or whose connection broke may have
//!   been executed, or may be yet.
//! - A [`Link`] can be called on from any thread and runtime; the runtime that opened it does the reading and writing.
//!
//! What a user of the server's access lists must be allowed, and no more: see [`ACL_RULE`].

mod cluster;
mod connect;
mod counters;
mod credentials;
mod endpoint;
mod error;
mod hear;
mod keeper;
mod live;
mod sentinel;
mod server;
mod slots;
mod state;
mod tls;
mod trouble;
mod url;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::redis::{Cmd, Value};
use tokio::sync::watch;

pub use counters::{LATENCY_BOUNDS_US, LinkMetrics};
pub use endpoint::Endpoint;
pub use error::LinkError;
pub(super) use error::read;
pub use server::Policy;
pub use state::LinkState;
pub use trouble::StoreTrouble;
pub use url::EndpointError;

use self::cluster::Cluster;
use self::connect::Entry;
use self::counters::Counters;
use self::endpoint::Place;
use self::keeper::{Context, Keeper, Refused, Route};
use self::live::{Deadline, Order};
use self::sentinel::Sentinels;
use super::breaker::{Breaker, Tally};
use super::call::Call;
use super::keys::Key;
use super::script::Script;

/// How long a call may take unless said otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(250);

/// The connections to a store. Clones share them.
#[derive(Clone)]
pub struct Link(Arc<Inner>);

struct Inner {
    endpoint: Endpoint,
    context: Arc<Context>,
    way: Way,
    timeout: Duration,
    /// Of slots that nobody has.
    nobody: Arc<Breaker>,
}

enum Way {
    One(Keeper),
    Cluster(Cluster),
}

impl Link {
    /// Begins to connect, on the current tokio runtime, and returns at once. Where there is no runtime it panics.
    pub fn open(endpoint: Endpoint, script: Script) -> Self {
        Self::open_with_timeout(endpoint, script, DEFAULT_TIMEOUT)
    }

    /// The same where a call may take that long.
    pub fn open_with_timeout(endpoint: Endpoint, script: Script, timeout: Duration) -> Self {
        let Endpoint { place, credentials, db, tls } = endpoint.clone();
        let entry = Entry { credentials, db, tls: tls.clone() };
        let (changed, counters, tally) = (watch::Sender::new(()), Counters::default(), Arc::default());
        let context =
            Arc::new(Context { entry, script, counters, tally, changed, refused: Refused::default() });
        let keep = |route| Way::One(Keeper::start(route, Arc::clone(&context)));
        let way = match place {
            Place::Server(address) => keep(Route::Master(address)),
            Place::Sentinel { sentinels: addresses, service, credentials } => {
                let entry = Entry { credentials, db: 0, tls };
                keep(Route::Sentinels(Sentinels { addresses, service, entry }))
            }
            Place::Cluster(seeds) => Way::Cluster(Cluster::start(seeds, Arc::clone(&context))),
        };
        let nobody = Arc::new(Breaker::nobody());
        Self(Arc::new(Inner { endpoint, context, way, timeout, nobody }))
    }

    /// Runs the script once at most.
    pub async fn call(&self, call: &Call) -> Result<Value, LinkError> {
        let key = call.keys().first().map(|key| key.as_str().as_bytes());
        self.send(key, Order::Script(&self.0.context.script, call)).await
    }

    /// Runs another script once at most, which has the server's run id in front of `args`.
    pub async fn run(&self, script: &Script, keys: &[Key], args: &[&[u8]]) -> Result<Value, LinkError> {
        let key = keys.first().map(|key| key.as_str().as_bytes());
        self.send(key, Order::Other(script, keys, args)).await
    }

    /// Sends a plain command once at most. In a cluster it goes to whom its first argument, as a key, belongs; without
    /// an argument to any server.
    pub async fn command(&self, cmd: Cmd) -> Result<Value, LinkError> {
        let key = cmd.args_iter().nth(1).and_then(|arg| match arg {
            ::redis::Arg::Simple(key) => Some(key),
            _ => None,
        });
        self.send(key, Order::Command(&cmd)).await
    }

    async fn send(&self, key: Option<&[u8]>, order: Order<'_>) -> Result<Value, LinkError> {
        let (begun, deadline) = (Instant::now(), Deadline::after(self.0.timeout));
        let counters = &self.0.context.counters;
        let result = match &self.0.way {
            Way::One(keeper) => match keeper.live() {
                Some(live) => live.send(order, false, deadline, counters).await,
                None => Err(LinkError::NotConnected),
            },
            Way::Cluster(cluster) => cluster.send(key.map(slots::slot_of), order, deadline).await,
        };
        counters.count(&result, begun.elapsed());
        self.0.context.refused.note(&result);
        result
    }

    /// The slot of a key, which says whose it is in a cluster.
    pub(super) fn slot(key: &Key) -> u16 {
        slots::slot_of(key.as_str().as_bytes())
    }

    /// Whether the server that has `slot` answers in time.
    pub(super) fn breaker(&self, slot: u16) -> Arc<Breaker> {
        match &self.0.way {
            Way::One(keeper) => Arc::clone(&keeper.breaker),
            Way::Cluster(cluster) => cluster.breaker(slot).unwrap_or_else(|| Arc::clone(&self.0.nobody)),
        }
    }

    /// What the breakers of all servers have done.
    pub(super) fn tally(&self) -> &Tally {
        &self.0.context.tally
    }

    /// How many servers there are, as far as is known.
    pub(super) fn n_servers(&self) -> usize {
        match &self.0.way {
            Way::One(_) => 1,
            Way::Cluster(cluster) => cluster.n_members(),
        }
    }

    /// How many connections were made since it was opened.
    pub(super) fn n_connections(&self) -> u64 {
        self.0.context.counters.connections.load(Ordering::Relaxed)
    }

    /// How the connections are now.
    pub fn state(&self) -> LinkState {
        match &self.0.way {
            Way::One(keeper) => LinkState::of([keeper], true, self.0.context.refused.last()),
            Way::Cluster(cluster) => {
                let (masters, is_covered) = cluster.masters();
                let masters = masters.iter().map(|master| &*master.keeper);
                LinkState::of(masters, is_covered, self.0.context.refused.last())
            }
        }
    }

    /// What was counted since it was opened.
    pub fn metrics(&self) -> LinkMetrics {
        self.0.context.counters.snapshot()
    }

    /// Where the store is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.0.endpoint
    }

    /// Waits until everything that belongs to the store is connected.
    pub async fn connected(&self) {
        let mut changed = self.0.context.changed.subscribe();
        while !self.state().is_connected() {
            // The sender is this link's own.
            let _ = changed.changed().await;
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Link").field(&self.0.endpoint).finish()
    }
}

/// What a user of the link must be allowed, as rules for `ACL SETUSER name on >password ...`, where `f` stands for the
/// fleet's name.
///
/// The link loads the script, calls it and asks for `INFO`; the script asks for the time, and reads and writes strings and
/// hashes that expire. What idles at one router and is short at another is recalled by messages on channels that have the fleet's
/// name; a user that may not send or hear them shares all the same, and refuses a little more where it need not. The last two
/// are for a cluster alone.
pub const ACL_RULE: &str = "~{f:* &{f:* +publish +subscribe +evalsha +script|load +info +time +get +set +del +hget +hgetall +hset +hdel +pexpire \
                            +cluster|slots +asking";
