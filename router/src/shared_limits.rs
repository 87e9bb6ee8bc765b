//! Limits for this router alone, or shared with others through a store: which of the two, and on what terms.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_fleet::{Fleet, LimitMode};
use cofferdam_limits::redis::link::{DEFAULT_TIMEOUT, Endpoint, Link};
use cofferdam_limits::redis::{
    self, AcceptedBook, Mode, OverrideBook, RedisStore, ReleaseBook, Script, Session, SessionError, Sharing,
};
use cofferdam_limits::{Clock, Embedded, Limits};

use crate::overrides::limits::Override;
use crate::overrides::placement::Record;
use crate::overrides::{Books, Said};

/// A store that routers share.
#[derive(Debug, Clone)]
pub struct SharedStore {
    /// Where it is.
    pub endpoint: Endpoint,
    /// How long a request waits for it.
    pub budget: Duration,
}

/// Why limits cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum SharingError {
    /// No name could be made for this process.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// The limits of one router.
pub(crate) struct RouterLimits {
    pub(crate) limits: Limits,
    /// The store that is shared, where there is one.
    pub(crate) shared: Option<Arc<RedisStore>>,
    /// Where it keeps what operators have changed.
    pub(crate) books: Option<Books>,
    /// Where it keeps the accepted file.
    pub(crate) accepted: Option<AcceptedBook>,
    /// Where it counts how far a release is.
    pub(crate) release: Option<ReleaseBook>,
}

impl RouterLimits {
    /// Limits for `fleet`. A store's calls run on the current tokio runtime; it need not be there yet.
    pub(crate) fn start(fleet: &Fleet, store: Option<&SharedStore>) -> Result<Self, SharingError> {
        let max_tenants = fleet.limits.max_tenants as usize;
        let Some(SharedStore { endpoint, budget }) = store else {
            let limits = Limits::embedded(Embedded::with_tenants(Clock::monotonic(), max_tenants));
            return Ok(Self { limits, shared: None, books: None, accepted: None, release: None });
        };
        let (mode, routers) = terms(fleet);
        let name = redis::Fleet::new(&fleet.name);
        let sharing = Sharing { mode, routers, max_tenants, budget: *budget, ..Sharing::new(name.clone()) };
        let session = Session::parse(&format!("{:016x}", rand::random::<u64>()))?;
        tracing::info!(store = %endpoint, %session, routers, "limits are to be shared: connecting to the store");
        // A call that is given up before the request that waits for it would make its budget a word.
        let link = Link::open_with_timeout(endpoint.clone(), Script::sync(), DEFAULT_TIMEOUT.max(*budget));
        let book = |kind| OverrideBook::new(link.clone(), &name, kind);
        let books = Some(Books { limits: book(Override::KIND), placement: book(Record::KIND) });
        let accepted = Some(AcceptedBook::new(link.clone(), &name));
        let release = Some(ReleaseBook::new(link.clone(), &name));
        let store = Arc::new(RedisStore::start(sharing, link, session, Clock::suspending()));
        Ok(Self {
            limits: Limits::new(store.clone(), *budget),
            shared: Some(store),
            books,
            accepted,
            release,
        })
    }
}

/// How the limits of `fleet` are held to in a store, and how many routers share them at least.
fn terms(fleet: &Fleet) -> (Mode, u32) {
    let mode = match fleet.limits.mode {
        LimitMode::Exact => Mode::Exact,
        LimitMode::Lease => Mode::Lease,
        // Where nothing is limited, nobody asks.
        LimitMode::Auto | LimitMode::Off => Mode::Auto,
    };
    (mode, fleet.limits.routers.unwrap_or(1))
}

/// Takes the terms of another fleet file.
pub(crate) fn change_terms(store: &RedisStore, fleet: &Fleet) {
    let (mode, routers) = terms(fleet);
    store.change(mode, routers);
}
