//! Which overrides there are: kept here, written to the store where there is one, and followed there. Who is cut off from the
//! store keeps what it has; a store that has forgotten everything is told again by those who know.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cofferdam_limits::redis::link::LinkError;
use cofferdam_limits::redis::{Change, MAX_OVERRIDES, OverrideBook};
use cofferdam_model::TenantId;
use parking_lot::Mutex;

use super::fitted::{Fitted, Overridden, plan_of};
use super::record::{Override, now_ms};
use crate::limits::LimitsError;
use crate::snapshot::Snapshot;

/// How often the store is asked whether anything changed; and how often until it first answers.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_EVERY_AT_FIRST: Duration = Duration::from_millis(20);

/// The overrides of one router.
#[derive(Debug)]
pub(crate) struct Overrides {
    snapshots: Arc<ArcSwap<Snapshot>>,
    said: Mutex<HashMap<String, Override>>,
    fitted: ArcSwap<Fitted>,
    /// Grows when `fitted` was replaced.
    generation: AtomicU64,
    store: Option<Store>,
}

#[derive(Debug)]
struct Store {
    book: OverrideBook,
    /// The version that was taken over, where one was; whoever looks holds it.
    seen: tokio::sync::Mutex<Seen>,
    followed: Mutex<Followed>,
    looked_at: Mutex<Option<Instant>>,
}

/// How it went to follow the store.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Followed {
    /// The version that is in force; 0 for none.
    pub(super) version: u64,
    /// How long ago the store last answered, where it has.
    pub(super) age: Option<Duration>,
    /// Times that it did not.
    pub(super) n_errors: u64,
    /// Overrides that say nothing that can be read here.
    pub(super) n_unreadable: u64,
}

#[derive(Debug, Default)]
struct Seen {
    version: Option<u64>,
    is_answered: bool,
}

/// Why an override was not made, or not taken away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OverrideError {
    #[error("tenant {0} is not in this fleet")]
    UnknownTenant(TenantId),
    #[error("with the rest of the plan, {0}")]
    Limits(#[from] LimitsError),
    #[error("there are {MAX_OVERRIDES} overrides already, and no room for another")]
    Full,
    #[error("tenant {0} has no override")]
    Nothing(TenantId),
    #[error("{error}: {}", outcome(.error))]
    Store {
        #[from]
        error: LinkError,
    },
}

fn outcome(error: &LinkError) -> &'static str {
    if error.changed_nothing() {
        "nothing was changed"
    } else {
        "it may have been changed or not: look again"
    }
}

impl Overrides {
    /// None yet; those in `book` are taken by whoever follows it.
    pub(crate) fn new(snapshots: Arc<ArcSwap<Snapshot>>, book: Option<OverrideBook>) -> Self {
        let store = book.map(|book| {
            let (seen, followed, looked_at) = Default::default();
            Store { book, seen, followed, looked_at }
        });
        let (said, fitted) = (Mutex::default(), ArcSwap::default());
        Self { snapshots, said, fitted, generation: AtomicU64::new(0), store }
    }

    /// Grows with every change: who has seen it needs not look at the rest.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What binds.
    pub(crate) fn fitted(&self) -> Arc<Fitted> {
        self.fitted.load_full()
    }

    /// How it went to follow the store, where there is one.
    pub(super) fn followed(&self) -> Option<Followed> {
        let store = self.store.as_ref()?;
        let age = store.looked_at.lock().map(|looked_at| looked_at.elapsed());
        Some(Followed { age, ..*store.followed.lock() })
    }

    /// Whether every router of the fleet has them.
    pub(crate) fn are_shared(&self) -> bool {
        self.store.is_some()
    }

    /// Puts `said` in the place of any override that `tenant` has.
    pub(crate) async fn put(&self, tenant: &TenantId, said: Override) -> Result<(), OverrideError> {
        {
            let snapshot = self.snapshots.load();
            let fleet = &snapshot.fleet;
            let plan = plan_of(tenant, fleet).ok_or(OverrideError::UnknownTenant(*tenant))?;
            Overridden::new(&said, plan, fleet)?;
        }
        let Some(store) = &self.store else {
            return match self.change(|all| put_here(all, tenant, said)) {
                true => Ok(()),
                false => Err(OverrideError::Full),
            };
        };
        // An override is numbers and text, which are always JSON.
        let value = serde_json::to_string(&said).unwrap_or_default();
        let done = store.book.change(Change::Put, &[(tenant.as_str(), &value)]).await?;
        if done.left_out > 0 {
            return Err(OverrideError::Full);
        }
        Ok(self.look(store).await?)
    }

    /// Takes the override of `tenant` away.
    pub(crate) async fn clear(&self, tenant: &TenantId) -> Result<(), OverrideError> {
        let is_done = match &self.store {
            None => {
                let gone = self.change(|all| all.remove(tenant.as_str()));
                gone.is_some_and(|gone| !gone.is_over(now_ms()))
            }
            Some(store) => {
                let done = store.book.change(Change::Drop, &[(tenant.as_str(), "")]).await?.done;
                self.look(store).await?;
                done > 0
            }
        };
        if is_done { Ok(()) } else { Err(OverrideError::Nothing(*tenant)) }
    }

    /// Fits everything to the snapshot that is current now.
    pub(crate) fn refit(&self) {
        self.change(|_| ());
    }

    /// Takes over what the store has, for ever.
    pub(crate) async fn follow(self: Arc<Self>) {
        let Some(store) = &self.store else { return };
        loop {
            if let Err(error) = self.look(store).await {
                store.followed.lock().n_errors += 1;
                tracing::debug!(%error, "could not look for overrides: those that are known stay");
            }
            let is_answered = store.seen.lock().await.is_answered;
            tokio::time::sleep(if is_answered { LOOK_EVERY } else { LOOK_EVERY_AT_FIRST }).await;
        }
    }

    /// Looks whether anything changed, and takes it over.
    async fn look(&self, store: &Store) -> Result<(), LinkError> {
        let mut seen = store.seen.lock().await;
        let mut version = store.book.version().await?;
        seen.is_answered = true;
        if version.is_none() {
            // A version outlives every value: a store without one has forgotten, or never had any.
            self.tell_again(store).await?;
            version = store.book.version().await?;
        }
        if version == seen.version {
            *store.looked_at.lock() = Some(Instant::now());
            return Ok(());
        }
        let all = store.book.all().await?;
        let n_said = all.len();
        let read = |(tenant, value): (String, String)| match serde_json::from_str(&value) {
            Ok(said) => Some((tenant, said)),
            Err(error) => {
                tracing::warn!(tenant, %error, "an override in the store cannot be read, and does not bind");
                None
            }
        };
        let all: HashMap<_, _> = all.into_iter().filter_map(read).collect();
        tracing::info!(n_overrides = all.len(), "overrides of limits taken over from the store");
        {
            let mut followed = store.followed.lock();
            followed.n_unreadable = (n_said - all.len()) as u64;
            followed.version = version.unwrap_or(0);
        }
        self.change(|said| *said = all);
        seen.version = version;
        *store.looked_at.lock() = Some(Instant::now());
        Ok(())
    }

    /// Writes what is known to a store that knows nothing.
    async fn tell_again(&self, store: &Store) -> Result<(), LinkError> {
        let now_ms = now_ms();
        let known: Vec<(String, String)> = {
            let said = self.said.lock();
            let live = said.iter().filter(|(_, said)| !said.is_over(now_ms));
            live.filter_map(|(tenant, said)| Some((tenant.clone(), serde_json::to_string(said).ok()?)))
                .collect()
        };
        if known.is_empty() {
            return Ok(());
        }
        tracing::warn!(n_overrides = known.len(), "the store has forgotten the overrides, and is told again");
        let known: Vec<_> = known.iter().map(|(tenant, said)| (tenant.as_str(), said.as_str())).collect();
        store.book.change(Change::Keep, &known).await.map(drop)
    }

    /// Changes what is said, and what binds with it.
    fn change<R>(&self, change: impl FnOnce(&mut HashMap<String, Override>) -> R) -> R {
        let mut said = self.said.lock();
        let result = change(&mut said);
        // Under the lock, so that the last one to fit has seen the last snapshot and the last word.
        self.fitted.store(Arc::new(Fitted::new(&said, &self.snapshots.load().fleet)));
        self.generation.fetch_add(1, Ordering::Release);
        result
    }
}

/// Puts it where there is room; what has ended makes some.
fn put_here(all: &mut HashMap<String, Override>, tenant: &TenantId, said: Override) -> bool {
    let now_ms = now_ms();
    all.retain(|_, said| !said.is_over(now_ms));
    if all.len() >= MAX_OVERRIDES && !all.contains_key(tenant.as_str()) {
        return false;
    }
    all.insert(tenant.as_str().to_owned(), said);
    true
}
