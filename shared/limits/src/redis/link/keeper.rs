//! Keeps a connection to one server, or to whom the sentinels name: opens it in the background, and another one when it
//! has ended. While there is none, who asks is told so at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use rand::RngExt;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use super::connect::{ConnectError, Driver, Entry, connect};
use super::counters::{Counters, add_one};
use super::endpoint::Address;
use super::error::LinkError;
use super::live::{Live, load_first};
use super::sentinel::Sentinels;
use super::server::{Policy, Server};
use super::trouble::StoreTrouble;
use crate::redis::breaker::{Breaker, Tally};
use crate::redis::script::Script;

/// How long a connection may take to be made, sign in and load the script.
// Both together are less than a second, so that within one after its link is back a router is where the others are.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
const MIN_PAUSE: Duration = Duration::from_millis(25);
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// A connection that lasted that long was a good one: the next pause is the shortest again.
const SETTLED: Duration = Duration::from_secs(1);

/// What all connections of a link share.
pub(super) struct Context {
    pub(super) entry: Entry,
    pub(super) script: Script,
    pub(super) counters: Counters,
    /// What the breakers of all its servers have done.
    pub(super) tally: Arc<Tally>,
    /// Told of every connection that begins or ends.
    pub(super) changed: watch::Sender<()>,
    /// Whether servers that are connected refuse what they are called for.
    pub(super) refused: Refused,
}

/// What servers that are connected refuse calls for, until one is answered.
#[derive(Default)]
pub(super) struct Refused {
    is_any: AtomicBool,
    last: Mutex<Option<(StoreTrouble, String)>>,
}

impl Refused {
    /// Takes note of what came of a call, and logs what has changed.
    pub(super) fn note<T>(&self, result: &Result<T, LinkError>) {
        match result {
            Ok(_) if self.is_any.load(Ordering::Relaxed) => {
                self.is_any.store(false, Ordering::Relaxed);
                if self.last.lock().take().is_some() {
                    tracing::info!("the store takes calls again: limits are shared");
                }
            }
            Ok(_) => {}
            Err(error) => {
                let Some(trouble) = StoreTrouble::of_call(error) else { return };
                self.is_any.store(true, Ordering::Relaxed);
                let mut last = self.last.lock();
                if last.as_ref().is_none_or(|(known, _)| *known != trouble) {
                    tracing::warn!(
                        trouble = trouble.as_str(),
                        "limits are not shared, and this router's share decides: the store is connected, but {}: {error}",
                        trouble.what()
                    );
                }
                *last = Some((trouble, error.to_string()));
            }
        }
    }

    pub(super) fn last(&self) -> Option<(StoreTrouble, String)> {
        self.last.lock().clone()
    }
}

/// Whom to connect to.
pub(super) enum Route {
    /// One that takes writes.
    Master(Address),
    /// A server of a cluster, which says by itself what it does not take.
    Member(Address),
    /// Whom these name.
    Sentinels(Sentinels),
}

/// Keeps one connection. Dropping it ends that.
pub(super) struct Keeper {
    /// Whether the server answers in time.
    pub(super) breaker: Arc<Breaker>,
    kept: Arc<Kept>,
    task: AbortHandle,
}

/// What the task that keeps the connection and those who use it both see.
#[derive(Default)]
struct Kept {
    live: ArcSwapOption<Live>,
    last_error: Mutex<Option<(StoreTrouble, String)>>,
}

impl Keeper {
    /// Begins on the current runtime.
    pub(super) fn start(route: Route, context: Arc<Context>) -> Self {
        let (kept, breaker) = (Arc::<Kept>::default(), Arc::new(Breaker::new(Arc::clone(&context.tally))));
        let task = tokio::spawn(keep(Arc::clone(&kept), route, context)).abort_handle();
        Self { breaker, kept, task }
    }

    pub(super) fn live(&self) -> Option<Arc<Live>> {
        self.kept.live.load_full()
    }

    pub(super) fn last_error(&self) -> Option<(StoreTrouble, String)> {
        self.kept.last_error.lock().clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(kept: Arc<Kept>, route: Route, context: Arc<Context>) {
    let _end = End(&kept, &context);
    let mut pause = MIN_PAUSE;
    loop {
        let error = match timeout(CONNECT_TIMEOUT, begin(&route, &context)).await {
            Ok(Ok((live, driver))) => {
                let began = Instant::now();
                let why = serve(&kept, &context, Arc::new(live), driver).await;
                if began.elapsed() >= SETTLED {
                    pause = MIN_PAUSE;
                }
                (StoreTrouble::Unreachable, format!("{}: {why}", route.name()))
            }
            Ok(Err(error)) => (StoreTrouble::of_connect(&error), format!("{}: {error}", route.name())),
            Err(_) => (StoreTrouble::Unreachable, format!("{}: {}", route.name(), ConnectError::Late)),
        };
        kept.failed(error);
        // Many routers lose a server at the same moment, and shall not come back at the same moment.
        let jittered = pause.mul_f64(rand::rng().random_range(0.5..1.0));
        sleep(jittered).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Opens a connection that can be called on at once.
async fn begin(route: &Route, context: &Context) -> Result<(Live, Driver), ConnectError> {
    let (address, may_be_replica) = match route {
        Route::Master(address) => (address.clone(), false),
        Route::Member(address) => (address.clone(), true),
        Route::Sentinels(sentinels) => (sentinels.master().await?, false),
    };
    let (connection, mut driver) = connect(&address, &context.entry).await?;
    let greeting = async {
        let server = Server::ask(&connection).await?;
        if server.is_replica && !may_be_replica {
            return Err(ConnectError::Replica);
        }
        load_first(&connection, &context.script).await?;
        Ok(server)
    };
    let server = tokio::select! {
        biased;
        server = greeting => server?,
        () = &mut driver => return Err(ConnectError::Closed),
    };
    Ok((Live::new(connection, address, server), driver))
}

/// Lets everybody use a connection until it ends; says why it did.
async fn serve(kept: &Kept, context: &Context, live: Arc<Live>, driver: Driver) -> String {
    let (address, version) = (&live.address, live.server.version.as_deref().unwrap_or("of unknown version"));
    tracing::info!("connected to the store at {address}, {version}: limits are shared");
    match &live.server.policy {
        Policy::NoEviction => {}
        Policy::Evicts(policy) => tracing::warn!(
            "the store at {address} evicts by {policy} when its memory is full, and limits with it; set \
             maxmemory-policy to noeviction"
        ),
        Policy::Unknown => tracing::info!("the store at {address} does not say its maxmemory-policy"),
    }
    kept.live.store(Some(Arc::clone(&live)));
    add_one(&context.counters.connections);
    context.changed.send_replace(());
    let why = tokio::select! {
        () = driver => "it closed the connection",
        why = live.given_up() => why,
    };
    kept.live.store(None);
    add_one(&context.counters.disconnections);
    context.changed.send_replace(());
    format!("{address}: {why}")
}

impl Kept {
    /// Remembers why there is no connection, and logs it unless that was the last thing that was logged.
    fn failed(&self, error: (StoreTrouble, String)) {
        let mut last = self.last_error.lock();
        if last.as_ref() != Some(&error) {
            let (trouble, text) = &error;
            tracing::warn!(
                trouble = trouble.as_str(),
                "limits are not shared, and this router's share decides: no connection to the store, {}: {text}",
                trouble.what()
            );
        }
        *last = Some(error);
    }
}

impl Route {
    fn name(&self) -> String {
        match self {
            Self::Master(address) | Self::Member(address) => address.to_string(),
            Self::Sentinels(sentinels) => sentinels.to_string(),
        }
    }
}

/// A runtime that ends takes its connections with it, and whoever calls from another one has to know.
struct End<'a>(&'a Kept, &'a Context);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.live.store(None);
        self.1.changed.send_replace(());
    }
}
