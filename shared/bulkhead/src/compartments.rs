//! The handle that every worker shares. It knows no rule of admission: those are the core's.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use cofferdam_model::TenantId;
use tokio::time::Instant;

use crate::claim::Claim;
use crate::core::{Entered, Moved, Woken};
use crate::indices::Indices;
use crate::layout::Layout;
use crate::place::{Place, Shared};
use crate::refusal::Refused;
use crate::snapshot::{Saturations, Snapshot};
use crate::waiting::Waiting;

/// A cell's compartments. Clones are handles to the same places, for any thread and any runtime.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, TenantShare};
/// use cofferdam_model::{Alphabet, ClassName, TenantId};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // 12 places: checkout has 5 for certain, and may borrow up to 12; search may have 8.
/// let class = |name, floor, ceiling| -> Result<ClassLayout, Box<dyn std::error::Error>> {
///     let name = ClassName::parse(name)?;
///     Ok(ClassLayout { name, priority: 1, floor, ceiling, queue: 6, max_wait: Duration::from_millis(50) })
/// };
/// let classes = vec![class("checkout", 5, 12)?, class("search", 0, 8)?];
/// let cell = Compartments::new(Layout::new(12, TenantShare::WHOLE, 1_000, classes)?);
///
/// let acme = TenantId::parse(b"acme", &Alphabet::default())?;
/// let searches: Vec<_> = (0..).map_while(|_| cell.try_acquire(1, &acme).ok()).collect();
/// assert_eq!(searches.len(), 7, "what checkout does not use is lent, but its 5 are not");
/// assert_eq!(cell.try_acquire(1, &acme).unwrap_err().to_string(),
///     "cell is full for class search: 7 of 7 places in use, 0 of 6 queued");
/// assert!(cell.try_acquire(0, &acme).is_ok());
/// # Ok(())
/// # }
/// ```
///
/// # Panics
///
/// The methods that take a class's index panic where there is no such class.
#[derive(Clone)]
pub struct Compartments {
    shared: Arc<Shared>,
}

/// What became of a claim at once.
pub(crate) enum Attempt<'a> {
    Placed(Place),
    Queued(Waiting<'a>, Instant),
}

impl Compartments {
    /// Empty compartments.
    pub fn new(layout: Layout) -> Self {
        Self { shared: Arc::new(Shared::new(layout)) }
    }

    /// The division that holds now.
    pub fn layout(&self) -> Arc<Layout> {
        Arc::clone(&self.shared.lock().layout)
    }

    /// Where the classes and caps of the layout that holds now are.
    pub fn indices(&self) -> Indices {
        self.shared.lock().core.indices.clone()
    }

    /// Divides the cell anew, at once: whatever is above a limit now drains, who holds a place keeps it, and who waits
    /// stays in line or is given what there is now. By the indices that are returned, claims name the new layout's
    /// classes and caps; the old layout's go on to be understood, until the next change.
    pub fn change(&self, layout: Layout) -> Indices {
        let (layout, mut woken) = (Arc::new(layout), Woken::default());
        let mut state = self.shared.lock();
        state.core.change(&layout, Instant::now(), &mut woken);
        state.layout = layout;
        let indices = state.core.indices.clone();
        drop(state);
        woken.wake();
        indices
    }

    /// Lets a class hold no more than so many places from now on, at least one, whatever its floor and its layout's ceiling:
    /// who holds more keeps them, and nobody is admitted until there are fewer. A tenant's share is of `shared` places. It
    /// holds through every [`change`](Self::change), until the ceiling is [freed](Self::free_ceiling).
    pub fn move_ceiling(&self, class: usize, ceiling: u32, shared: u32) {
        self.move_to(class, Some(Moved { ceiling, shared }));
    }

    /// Lets a class hold what its layout says again.
    pub fn free_ceiling(&self, class: usize) {
        self.move_to(class, None);
    }

    fn move_to(&self, class: usize, to: Option<Moved>) {
        let mut woken = Woken::default();
        self.shared.lock().core.move_ceiling(class, to, Instant::now(), &mut woken);
        woken.wake();
    }

    /// A place at once, or a refusal. It never waits.
    ///
    /// # Errors
    /// A compartment is full, or all are closed.
    pub fn try_acquire(&self, class: usize, tenant: &TenantId) -> Result<Place, Refused> {
        self.try_claim(&Claim::new(class, tenant))
    }

    /// A place at once if there is one, else after a wait; see [`claim`](Self::claim).
    ///
    /// # Errors
    /// As [`claim`](Self::claim).
    pub async fn acquire(
        &self,
        class: usize,
        tenant: &TenantId,
        deadline: Option<Instant>,
    ) -> Result<Place, Refused> {
        self.claim(&Claim { deadline, ..Claim::new(class, tenant) }).await
    }

    /// As [`try_acquire`](Self::try_acquire), with all that a claim may say.
    ///
    /// # Errors
    /// A compartment is full, or all are closed.
    pub fn try_claim(&self, claim: &Claim<'_>) -> Result<Place, Refused> {
        let admitted = self.shared.lock().core.admit_or_refuse(claim);
        admitted.map(|held| Place::new(&self.shared, held))
    }

    /// A place at once if there is one, else after a wait in the class's queue of at most `max_wait` and a quarter of
    /// what is left until the deadline. It must be polled where tokio's time is enabled. Dropping the future leaves the
    /// queue; a place that had just been granted goes to the next waiter.
    ///
    /// # Errors
    /// A compartment is full and so is its queue, the wait would be too long or was, or all are closed.
    pub async fn claim(&self, claim: &Claim<'_>) -> Result<Place, Refused> {
        let attempt = poll_fn(|context| Poll::Ready(self.enter(claim, context.waker()))).await?;
        match attempt {
            Attempt::Placed(place) => Ok(place),
            Attempt::Queued(mut waiting, until) => match tokio::time::timeout_at(until, &mut waiting).await {
                Ok(outcome) => outcome,
                Err(_) => waiting.finish(),
            },
        }
    }

    /// A place, or a wait until then at most, whose end is told to `waker`: that of the task that polls the wait at once.
    pub(crate) fn enter(&self, claim: &Claim<'_>, waker: &Waker) -> Result<Attempt<'_>, Refused> {
        let entered = self.shared.lock().core.enter(claim, waker, Instant::now);
        match entered {
            Entered::Admitted(held) => Ok(Attempt::Placed(Place::new(&self.shared, held))),
            Entered::Refused(refused) => Err(refused),
            Entered::Waiting(ticket, until) => Ok(Attempt::Queued(Waiting::new(&self.shared, ticket), until)),
        }
    }

    /// Closes: whoever waits and whoever comes is told [`Refused::ShutDown`], which is not counted as a refusal.
    /// Places that are held stay held.
    pub fn close(&self) {
        let mut woken = Woken::default();
        self.shared.lock().core.close(&mut woken);
        woken.wake();
    }

    /// Everything, at one moment.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.shared.lock();
        state.sequence += 1;
        let snapshot = state.core.snapshot(Instant::now());
        Snapshot { epoch: self.shared.epoch, sequence: state.sequence, ..snapshot }
    }

    /// How saturated the cell and its classes are, for the header of an answer.
    pub fn saturations(&self) -> Saturations {
        self.shared.lock().core.saturations()
    }

    /// The same as if a `place` were free already, unless somebody waits for one: for the header of the answer that it was held
    /// for, since whoever reads that comes when it is.
    pub fn saturations_without(&self, place: &Place) -> Saturations {
        self.shared.lock().core.saturations_without(place.held())
    }
}

// The counts are behind the lock, which a line of the log is no reason to take.

impl fmt::Debug for Compartments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compartments").field("epoch", &self.shared.epoch).finish_non_exhaustive()
    }
}
