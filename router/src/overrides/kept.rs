//! Which overrides of one kind there are: kept here, written to the store where there is one, and followed there. Who is cut off
//! from the store keeps what it has; a store that has forgotten everything is told again by those who know.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use cofferdam_limits::redis::link::LinkError;
use cofferdam_limits::redis::{All, MAX_OVERRIDES, OverrideBook, Swap, Swapped, Version};
use cofferdam_model::TenantId;
use cofferdam_proxy::handover::HandedOn;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::clock::ClockError;
use super::from_disk::{FromDisk, from_disk};
use super::looking::again_and_again;
use super::said::Said;
use super::shared::Shared;
use crate::snapshot::Snapshot;

/// How often a change is tried while others change the same tenant.
const MAX_TRIES: usize = 16;

/// How often a store that has forgotten is told within one look.
const MAX_TELLINGS: usize = 3;

/// The overrides of one kind at one router.
#[derive(Debug)]
pub(crate) struct Kept<S: Said> {
    shared: Arc<Shared>,
    said: Arc<Mutex<HashMap<String, S>>>,
    fitted: ArcSwap<S::Fitted>,
    store: Option<Store>,
    /// Overrides of the store, or else of the disk, that say nothing that can be read here, or found no room.
    n_unreadable: AtomicU64,
    /// There is something that the disk has not.
    unsaved: Notify,
    /// There is something that whoever waits for changes has not seen.
    unseen: Notify,
}

#[derive(Debug)]
struct Store {
    book: OverrideBook,
    /// The version that was taken over, where one was; whoever looks holds it.
    seen: tokio::sync::Mutex<Option<Version>>,
    followed: Mutex<Followed>,
    looked_at: Mutex<Option<Instant>>,
}

/// How it went to follow the store.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Followed {
    /// The version that is in force; 0 for none.
    pub(crate) version: u64,
    /// How long ago the store last answered, where it has.
    pub(crate) age: Option<Duration>,
    /// Times that it did not.
    pub(super) n_errors: u64,
}

/// What becomes of what is said of a tenant.
#[derive(Debug)]
pub(super) struct Altered<S> {
    value: Option<S>,
    not_after_ms: Option<u64>,
}

/// Why nothing was altered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AlterError<E: Error> {
    #[error("{0}")]
    Refused(E),
    #[error("there are {MAX_OVERRIDES} overrides already, and no room for another")]
    Full,
    #[error(transparent)]
    Clock(ClockError),
    #[error("others change the same tenant at this moment: nothing was changed")]
    Contended,
    #[error(transparent)]
    HandedOn(#[from] HandedOn),
    #[error("{error}: {}", outcome(.error))]
    Store { error: LinkError },
}

fn outcome(error: &LinkError) -> &'static str {
    if error.changed_nothing() {
        "nothing was changed"
    } else {
        "it may have been changed or not: look again"
    }
}

impl<E: Error> From<LinkError> for AlterError<E> {
    fn from(error: LinkError) -> Self {
        Self::Store { error }
    }
}

impl<S> Altered<S> {
    /// Unless it is later than that, by the store's clock.
    pub(super) fn not_after(self, not_after_ms: Option<u64>) -> Self {
        Self { not_after_ms, ..self }
    }

    /// That it is this, or nothing.
    pub(super) fn to(value: Option<S>) -> Self {
        Self { value, not_after_ms: None }
    }
}

impl<S: Said> Kept<S> {
    /// Those that the disk has, and no others yet; those in `book` are taken by whoever follows it.
    pub(super) fn new(shared: Arc<Shared>, book: Option<OverrideBook>) -> Self {
        let FromDisk { said, n_left_out } = from_disk(&shared);
        let fitted = S::fit(&said, &shared.snapshots.load_full(), &shared.clock);
        let store = book.map(|book| {
            let (seen, followed, looked_at) = Default::default();
            Store { book, seen, followed, looked_at }
        });
        let (said, fitted) = (Arc::new(Mutex::new(said)), ArcSwap::from_pointee(fitted));
        let n_unreadable = AtomicU64::new(n_left_out);
        let (unsaved, unseen) = (Notify::new(), Notify::new());
        Self { shared, said, fitted, store, n_unreadable, unsaved, unseen }
    }

    /// What binds.
    pub(crate) fn fitted(&self) -> Arc<S::Fitted> {
        self.fitted.load_full()
    }

    /// The same, and whoever looks at the generation from now on sees that it is new.
    pub(crate) fn settled(&self) -> Arc<S::Fitted> {
        let _said = self.said.lock();
        self.fitted.load_full()
    }

    /// The time by which ends are judged, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.shared.clock.now_ms()
    }

    /// Waits for the next change; one waits at a time.
    pub(crate) async fn changed(&self) {
        self.unseen.notified().await;
    }

    /// Looks at once whether the store has anything new; where it does not answer, what is known stays.
    pub(crate) async fn catch_up(&self) {
        if let Some(store) = &self.store {
            let _ = self.look(store).await;
        }
    }

    /// The fleet file that is current now.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.shared.snapshots.load_full()
    }

    /// How it went to follow the store, where there is one.
    pub(crate) fn followed(&self) -> Option<Followed> {
        let store = self.store.as_ref()?;
        let age = store.looked_at.lock().map(|looked_at| looked_at.elapsed());
        Some(Followed { age, ..*store.followed.lock() })
    }

    /// How many there are that cannot be read here, or found no room.
    pub(super) fn n_unreadable(&self) -> u64 {
        self.n_unreadable.load(Ordering::Relaxed)
    }

    /// Whether they can be changed here: those that no store keeps are one process's affair.
    pub(crate) async fn may_change(&self) -> bool {
        self.store.is_some() || self.shared.ownership.is_ours().await
    }

    /// Whether every router of the fleet has them.
    pub(crate) fn are_shared(&self) -> bool {
        self.store.is_some()
    }

    /// Changes what is said of `tenant`, at every router or at none. `change` is told what is said now, where that has not ended,
    /// and the time, which is the store's; while others change the same tenant it is asked again.
    pub(super) async fn alter<R, E: Error>(
        &self,
        tenant: &TenantId,
        change: impl Fn(Option<S>, u64) -> Result<(Altered<S>, R), E>,
    ) -> Result<R, AlterError<E>> {
        match &self.store {
            Some(store) => self.alter_there(store, tenant.as_str(), change).await,
            None => self.alter_here(tenant.as_str(), change).await,
        }
    }

    async fn alter_here<R, E: Error>(
        &self,
        tenant: &str,
        change: impl Fn(Option<S>, u64) -> Result<(Altered<S>, R), E>,
    ) -> Result<R, AlterError<E>> {
        // Whoever takes this process's place reads the disk only once that has what was changed, and who asked may leave before.
        let owned = self.shared.ownership.hold().await?;
        let now_ms = self.shared.clock.now_ms();
        let result = self.change(|all| {
            all.retain(|_, said| !said.is_over(now_ms));
            let (altered, result) = change(all.get(tenant).cloned(), now_ms).map_err(AlterError::Refused)?;
            match altered.value {
                None => drop(all.remove(tenant)),
                // What has ended has made some.
                Some(_) if all.len() >= MAX_OVERRIDES && !all.contains_key(tenant) => {
                    return Err(AlterError::Full);
                }
                Some(said) => drop(all.insert(tenant.to_owned(), said)),
            }
            Ok(result)
        })?;
        let save = self.save();
        let saved = tokio::spawn(async move {
            save.await;
            drop(owned);
        });
        let _ = saved.await;
        Ok(result)
    }

    async fn alter_there<R, E: Error>(
        &self,
        store: &Store,
        tenant: &str,
        change: impl Fn(Option<S>, u64) -> Result<(Altered<S>, R), E>,
    ) -> Result<R, AlterError<E>> {
        // One that has forgotten everything is told first.
        self.look(store).await?;
        for _ in 0..MAX_TRIES {
            let question = self.shared.clock.ask();
            let look = store.book.look(Some(tenant)).await?;
            self.shared.clock.note(question, look.now_ms);
            self.shared.clock.check().map_err(AlterError::Clock)?;
            let there = look.value.filter(|value| ends_ms(value) > look.now_ms);
            // What cannot be read, from a later version, say, gives way.
            let old = there.as_deref().and_then(|value| serde_json::from_str(value).ok());
            let (Altered { value, not_after_ms }, result) =
                change(old, look.now_ms).map_err(AlterError::Refused)?;
            // What is said is numbers and text, which are always JSON.
            let value = value.map(|said| serde_json::to_string(&said).unwrap_or_default());
            let swap = Swap { expected: there.as_deref(), value: value.as_deref(), not_after_ms };
            match store.book.swap(tenant, swap).await? {
                Swapped::Done => {
                    // It is in force: whoever follows takes it over soon where this does not.
                    if let Err(error) = self.look(store).await {
                        tracing::debug!(%error, kind = S::KIND, "a change was made, and is taken over with the next look");
                    }
                    return Ok(result);
                }
                Swapped::Full => return Err(AlterError::Full),
                Swapped::Changed | Swapped::Late => {}
            }
        }
        Err(AlterError::Contended)
    }

    /// Fits everything to the snapshot that is current now.
    pub(super) fn refit(&self) {
        self.change(|_| ());
    }

    /// Takes over what the store has, and keeps it on disk, for ever.
    pub(super) async fn follow(self: Arc<Self>) {
        let follow = async {
            let Some(store) = &self.store else { return };
            again_and_again(|| self.look_or_count(store)).await;
        };
        let save = async {
            loop {
                self.unsaved.notified().await;
                self.save().await;
            }
        };
        tokio::join!(follow, save);
    }

    /// Whether it could look.
    async fn look_or_count(&self, store: &Store) -> bool {
        let looked = self.look(store).await;
        if let Err(error) = &looked {
            store.followed.lock().n_errors += 1;
            tracing::debug!(%error, kind = S::KIND, "could not look for overrides: those that are known stay");
        }
        looked.is_ok()
    }

    /// Looks whether anything changed, and takes it over.
    async fn look(&self, store: &Store) -> Result<(), LinkError> {
        let mut seen = store.seen.lock().await;
        let question = self.shared.clock.ask();
        let look = store.book.look(None).await?;
        self.shared.clock.note(question, look.now_ms);
        let may_be_told = || look.version.is_none() && !self.said.lock().is_empty();
        if look.version != *seen || may_be_told() {
            let Some(all) = self.told(store, *seen).await? else { return Ok(()) };
            if all.version != *seen {
                self.take(store, all.values, all.version);
                *seen = all.version;
            }
        }
        *store.looked_at.lock() = Some(Instant::now());
        Ok(())
    }

    /// What the store has, once that has everything which this router knows if the store has forgotten since `seen`; others that
    /// know less may have written meanwhile. `None` where it goes on forgetting: the next look begins anew.
    async fn told(&self, store: &Store, seen: Option<Version>) -> Result<Option<All>, LinkError> {
        for _ in 0..MAX_TELLINGS {
            let all = store.book.all().await?;
            // A version outlives every value: a store without one has forgotten, or never had any.
            let has_forgotten = match (all.version, seen) {
                (Some(version), Some(seen)) => version.birth_us != seen.birth_us,
                (version, _) => version.is_none(),
            };
            let missing = if has_forgotten { self.missing(&all.values) } else { Vec::new() };
            if missing.is_empty() {
                return Ok(Some(all));
            }
            let (n_overrides, kind) = (missing.len(), S::KIND);
            tracing::warn!(
                n_overrides,
                kind,
                "the store has forgotten overrides, and is told those that are known"
            );
            let values: Vec<_> = missing.iter().map(|(tenant, said)| (&**tenant, &**said)).collect();
            if store.book.keep(&values).await?.left_out > 0 {
                return store.book.all().await.map(Some);
            }
        }
        Ok(None)
    }

    /// What is known and has not ended, of tenants who are not among `values`.
    fn missing(&self, values: &[(String, String)]) -> Vec<(String, String)> {
        let there: HashSet<&str> = values.iter().map(|(tenant, _)| &**tenant).collect();
        let (now_ms, said) = (self.shared.clock.now_ms(), self.said.lock());
        let live = said.iter().filter(|(tenant, said)| !said.is_over(now_ms) && !there.contains(&***tenant));
        live.filter_map(|(tenant, said)| Some((tenant.clone(), serde_json::to_string(said).ok()?))).collect()
    }

    /// Takes over what the store has.
    fn take(&self, store: &Store, values: Vec<(String, String)>, version: Option<Version>) {
        let n_said = values.len();
        let read = |(tenant, value): (String, String)| match serde_json::from_str(&value) {
            Ok(said) => Some((tenant, said)),
            Err(error) => {
                tracing::warn!(tenant, %error, kind = S::KIND, "an override in the store cannot be read, and does not bind");
                None
            }
        };
        let all: HashMap<_, _> = values.into_iter().filter_map(read).collect();
        tracing::info!(n_overrides = all.len(), kind = S::KIND, "overrides taken over from the store");
        self.n_unreadable.store((n_said - all.len()) as u64, Ordering::Relaxed);
        store.followed.lock().version = version.map_or(0, |version| version.number);
        self.change(|said| *said = all);
        self.unsaved.notify_one();
    }

    /// Changes what is said, and what binds with it.
    fn change<R>(&self, change: impl FnOnce(&mut HashMap<String, S>) -> R) -> R {
        let mut said = self.said.lock();
        let result = change(&mut said);
        // Under the lock, so that the last one to fit has seen the last snapshot and the last word.
        let shared = &self.shared;
        self.fitted.store(Arc::new(S::fit(&said, &shared.snapshots.load_full(), &shared.clock)));
        shared.generation.fetch_add(1, Ordering::Release);
        self.unseen.notify_one();
        result
    }

    /// Writes what is said to disk, where there is one.
    fn save(&self) -> impl Future<Output = ()> + Send + use<S> {
        let (shared, said) = (Arc::clone(&self.shared), Arc::clone(&self.said));
        async move {
            if let Some(saved) = &shared.saved {
                saved.write(S::KIND, || serde_json::to_value(&*said.lock()).unwrap_or_default()).await;
            }
        }
    }
}

/// When a value of the store ends; one that does not say so has ended.
fn ends_ms(value: &str) -> u64 {
    let digits = value.strip_prefix(r#"{"until_ms":"#).unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(0)
}
