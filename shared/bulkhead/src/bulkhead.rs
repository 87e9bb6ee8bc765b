//! One compartment by itself, for a service that has no cell, classes or tenants: a limit, a bounded queue in order of
//! arrival, and a longest wait. It knows nothing of what is called.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::TryAcquireError;
use tokio::time::Instant;

use crate::denied::Denied;
use crate::permits::{AtomicU32, AtomicU64, OwnedSemaphorePermit, Semaphore, timeout};

/// A cap on how many calls of one kind are in flight. Clones are the same one.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::{Bulkhead, Denied};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// // Two at once, one more waits for up to 50 ms.
/// let payment = Bulkhead::new("payment", 2).queue(1, Duration::from_millis(50));
/// assert_eq!(payment.run(async { "paid" }).await, Ok("paid"));
///
/// let hung = [payment.try_acquire().unwrap(), payment.try_acquire().unwrap()];
/// let denied = payment.run(async { "never called" }).await.unwrap_err();
/// assert_eq!(denied.to_string(), "bulkhead payment is full: 2 of 2 places in use, 0 of 1 queued");
///
/// drop(hung);
/// assert!(payment.try_acquire().is_ok());
/// # }
/// ```
///
/// It caps and does not reserve: bulkheads that together exceed what they all draw on do not isolate. A [`Pool`](crate::Pool)
/// reserves. A limit counts in this process alone: 2 on 20 instances are 40 calls.
#[derive(Clone)]
pub struct Bulkhead(Arc<Shared>);

/// A place in a bulkhead. Dropping it, on any thread, releases it.
#[must_use = "a place is released when it is dropped"]
pub struct BulkheadPlace {
    /// Given back by itself.
    _permit: OwnedSemaphorePermit,
}

/// A bulkhead at one moment, and what it has counted since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkheadSnapshot {
    /// The bulkhead.
    pub name: Arc<str>,
    /// Places held.
    pub active: u32,
    /// How many there are.
    pub limit: u32,
    /// Calls waiting.
    pub queued: u32,
    /// How many may wait.
    pub queue: u32,
    /// Calls that got a place.
    pub granted: u64,
    /// Calls that got none, those after a wait among them.
    pub refused: u64,
    /// Calls that got none in time.
    pub timeouts: u64,
    /// Whether it was closed.
    pub closed: bool,
}

struct Shared {
    name: Arc<str>,
    limit: u32,
    places: Arc<Semaphore>,
    queue: AtomicU32,
    max_wait_us: AtomicU64,
    queued: AtomicU32,
    granted: AtomicU64,
    refused: AtomicU64,
    timeouts: AtomicU64,
}

/// A place in the queue, given back when dropped.
struct Queued<'a>(&'a AtomicU32);

impl Bulkhead {
    /// A bulkhead of `limit` places without a queue: a place at once, or a refusal. A limit of 0 takes no call.
    pub fn new(name: &str, limit: u32) -> Self {
        Self(Arc::new(Shared {
            name: name.into(),
            limit,
            places: Arc::new(Semaphore::new(limit as usize)),
            queue: AtomicU32::new(0),
            max_wait_us: AtomicU64::new(0),
            queued: AtomicU32::new(0),
            granted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            timeouts: AtomicU64::new(0),
        }))
    }

    /// The same bulkhead, in which `queue` calls may wait for up to `max_wait` each: for clones too, and for whoever comes from
    /// now on. For steady traffic half as many as there are places is enough.
    pub fn queue(self, queue: u32, max_wait: Duration) -> Self {
        self.0.queue.store(queue, Relaxed);
        self.0.max_wait_us.store(u64::try_from(max_wait.as_micros()).unwrap_or(u64::MAX), Relaxed);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A place at once, or a refusal. It never waits.
    ///
    /// # Errors
    /// It is full or closed.
    pub fn try_acquire(&self) -> Result<BulkheadPlace, Denied> {
        self.take().ok_or_else(|| self.deny(Duration::ZERO))
    }

    /// A place at once if there is one, else after a wait in the queue. It must be polled where tokio's time is enabled.
    /// Dropping the future leaves the queue; a place that had just been given goes to the next.
    ///
    /// # Errors
    /// It is full and so is its queue, the wait was too long, or it is closed.
    pub async fn acquire(&self) -> Result<BulkheadPlace, Denied> {
        self.acquire_within(Duration::MAX).await
    }

    /// As [`acquire`](Self::acquire), with a wait of `patience` at most.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    pub async fn acquire_within(&self, patience: Duration) -> Result<BulkheadPlace, Denied> {
        if let Some(place) = self.take() {
            return Ok(place);
        }
        let shared = &*self.0;
        let Some(queued) = Queued::enter(&shared.queued, shared.queue.load(Relaxed)) else {
            return Err(self.deny(Duration::ZERO));
        };
        let since = Instant::now();
        let wait = patience.min(Duration::from_micros(shared.max_wait_us.load(Relaxed)));
        let outcome = timeout(wait, Arc::clone(&shared.places).acquire_owned()).await;
        drop(queued);
        match outcome {
            Ok(Ok(permit)) => Ok(self.granted(permit)),
            Ok(Err(_closed)) => Err(Denied::ShutDown(Arc::clone(&shared.name))),
            Err(_elapsed) => {
                let denied = self.deny(since.elapsed());
                if matches!(denied, Denied::Full { .. }) {
                    shared.timeouts.fetch_add(1, Relaxed);
                }
                Err(denied)
            }
        }
    }

    /// The outcome of `call`, which holds a place from its first poll to its end. The place is released once, whether the
    /// call ends, panics or is dropped.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); then `call` was never polled.
    pub async fn run<F: Future>(&self, call: F) -> Result<F::Output, Denied> {
        let _place = self.acquire().await?;
        // Awaiting moves the call to where it is dropped before the place is.
        Ok(call.await)
    }

    /// Everything, at about one moment.
    pub fn snapshot(&self) -> BulkheadSnapshot {
        let shared = &*self.0;
        BulkheadSnapshot {
            name: Arc::clone(&shared.name),
            active: self.active(),
            limit: shared.limit,
            queued: shared.queued.load(Relaxed),
            queue: shared.queue.load(Relaxed),
            granted: shared.granted.load(Relaxed),
            refused: shared.refused.load(Relaxed),
            timeouts: shared.timeouts.load(Relaxed),
            closed: shared.places.is_closed(),
        }
    }

    /// Closes: whoever waits and whoever comes is told [`Denied::ShutDown`]. Places that are held stay held.
    pub fn close(&self) {
        self.0.places.close();
    }

    /// A place that nobody else waits for; what that fails by, [`deny`](Self::deny) says.
    fn take(&self) -> Option<BulkheadPlace> {
        // The semaphore gives what comes free to those who wait, so nobody is overtaken.
        match Arc::clone(&self.0.places).try_acquire_owned() {
            Ok(permit) => Some(self.granted(permit)),
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => None,
        }
    }

    fn granted(&self, permit: OwnedSemaphorePermit) -> BulkheadPlace {
        self.0.granted.fetch_add(1, Relaxed);
        BulkheadPlace { _permit: permit }
    }

    fn deny(&self, waited: Duration) -> Denied {
        let shared = &*self.0;
        let name = Arc::clone(&shared.name);
        if shared.places.is_closed() {
            return Denied::ShutDown(name);
        }
        shared.refused.fetch_add(1, Relaxed);
        let (queued, queue) = (shared.queued.load(Relaxed), shared.queue.load(Relaxed));
        let (active, limit) = (self.active(), shared.limit);
        tracing::debug!(bulkhead = &*name, active, limit, queued, queue, "bulkhead is full");
        Denied::Full { name, active, limit, queued, queue, waited }
    }

    fn active(&self) -> u32 {
        // No more are free than there are places.
        self.0.limit - self.0.places.available_permits() as u32
    }
}

impl<'a> Queued<'a> {
    fn enter(queued: &'a AtomicU32, queue: u32) -> Option<Self> {
        let entered = queued.fetch_update(Relaxed, Relaxed, |queued| (queued < queue).then(|| queued + 1));
        entered.ok().map(|_| Self(queued))
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bulkhead").field(&self.snapshot()).finish()
    }
}

impl fmt::Debug for BulkheadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BulkheadPlace")
    }
}

#[cfg(test)]
mod checked;
