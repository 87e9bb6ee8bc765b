//! Where requests come in and go out, a door for each worker: who of which tenant is inside, exactly, and whose requests have to
//! wait outside because their tenant is being moved. Why it is moved is not known here.
//!
//! Whoever holds a tenant at all doors and then finds nobody of it inside knows that nobody comes in until the doors are opened to
//! it again: both are looked at under a door's own lock, which is taken by its own worker else, and so costs next to nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cofferdam_model::TenantId;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The most requests of one tenant that wait outside of one router.
pub(crate) const MAX_WAITING: u32 = 1_000;

/// The doors of one router. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Doors(Arc<Mutex<Vec<Arc<Door>>>>);

/// One worker's door.
#[derive(Debug, Default)]
pub(crate) struct Door(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    /// A place for each request that is inside; it grows to the most that ever were.
    inside: Vec<Option<TenantId>>,
    /// Places that nobody has.
    free: Vec<u32>,
    held: HashMap<TenantId, Arc<Hold>>,
}

/// One request inside. It is out when this is dropped.
#[derive(Debug)]
pub(crate) struct Inside {
    door: Arc<Door>,
    place: u32,
}

/// A tenant whose requests wait outside.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Nobody waits for longer.
    ends: Instant,
    waiting: AtomicU32,
    open: watch::Sender<bool>,
}

/// Why a request that waited did not come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLetIn {
    #[error("{MAX_WAITING} requests of the tenant wait already while it is moved to other cells")]
    Full,
    #[error("the tenant is being moved to other cells, and that takes too long for this request")]
    Late,
}

impl Doors {
    /// A door for one more worker.
    pub(crate) fn worker(&self) -> Arc<Door> {
        let door = Arc::<Door>::default();
        self.0.lock().push(Arc::clone(&door));
        door
    }

    /// Has requests of `tenant` wait outside from now on, for so long at most.
    pub(crate) fn hold(&self, tenant: &TenantId, at_most: Duration) {
        let (waiting, open) = (AtomicU32::new(0), watch::Sender::new(false));
        let hold = Arc::new(Hold { ends: Instant::now() + at_most, waiting, open });
        for door in &*self.0.lock() {
            door.0.lock().held.insert(*tenant, Arc::clone(&hold));
        }
    }

    /// Lets in who waits, and everybody who comes.
    pub(crate) fn open(&self, tenant: &TenantId) {
        let take = |door: &Arc<Door>| door.0.lock().held.remove(tenant);
        let taken: Vec<_> = self.0.lock().iter().filter_map(take).collect();
        // Only now, when none holds it any more: whoever hears of it comes back at once, and would else come back for ever.
        for hold in taken {
            hold.open.send_replace(true);
        }
    }

    /// How many requests of `tenant` are inside.
    pub(crate) fn n_inside(&self, tenant: &TenantId) -> u32 {
        let of_tenant = |door: &Arc<Door>| {
            let ledger = door.0.lock();
            ledger.inside.iter().filter(|inside| inside.as_ref() == Some(tenant)).count() as u32
        };
        self.0.lock().iter().map(of_tenant).sum()
    }

    /// How many requests wait outside.
    pub(crate) fn n_waiting(&self) -> u32 {
        // All doors have the same holds.
        let doors = self.0.lock();
        let first = doors.first().map(|door| door.0.lock());
        first.map_or(0, |ledger| ledger.held.values().map(|hold| hold.waiting.load(Ordering::Relaxed)).sum())
    }
}

impl Door {
    /// Lets a request in, or says what it has to wait for.
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>, tenant: &TenantId) -> Result<Inside, Arc<Hold>> {
        let mut ledger = self.0.lock();
        if !ledger.held.is_empty()
            && let Some(hold) = ledger.held.get(tenant)
        {
            return Err(Arc::clone(hold));
        }
        let place = match ledger.free.pop() {
            Some(place) => {
                ledger.inside[place as usize] = Some(*tenant);
                place
            }
            None => {
                ledger.inside.push(Some(*tenant));
                // A process has far fewer connections and streams.
                (ledger.inside.len() - 1) as u32
            }
        };
        Ok(Inside { door: Arc::clone(self), place })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut ledger = self.door.0.lock();
        ledger.inside[self.place as usize] = None;
        ledger.free.push(self.place);
    }
}

impl Hold {
    /// Waits until the door is open, and no longer than `until`.
    pub(crate) async fn wait(&self, until: Instant) -> Result<(), NotLetIn> {
        let _waiting = Waiting::new(&self.waiting).ok_or(NotLetIn::Full)?;
        let mut open = self.open.subscribe();
        let opened = open.wait_for(|is_open| *is_open);
        // The sender is this hold's own.
        let opened = tokio::time::timeout_at(until.min(self.ends).into(), opened).await;
        opened.map(drop).map_err(|_| NotLetIn::Late)
    }
}

/// One who waits.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn new(waiting: &'a AtomicU32) -> Option<Self> {
        let is_room = |n| (n < MAX_WAITING).then_some(n + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_room).ok().map(|_| Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn who_is_inside_is_counted_at_all_doors_and_places_are_used_again() {
        let (doors, [acme, globex]) = (Doors::default(), ["acme", "globex"].map(tenant));
        let (one, two) = (doors.worker(), doors.worker());
        let first = one.enter(&acme).unwrap();
        let others = [two.enter(&acme).unwrap(), two.enter(&globex).unwrap()];
        assert_eq!((doors.n_inside(&acme), doors.n_inside(&globex)), (2, 1));
        drop(first);
        let again = one.enter(&globex).unwrap();
        assert_eq!((doors.n_inside(&acme), doors.n_inside(&globex)), (1, 2));
        assert_eq!(one.0.lock().inside.len(), 1);
        drop((others, again));
        assert_eq!((doors.n_inside(&acme), doors.n_inside(&globex)), (0, 0));
    }

    #[tokio::test]
    async fn who_is_held_waits_until_the_doors_are_open_and_others_do_not_notice() {
        let (doors, [acme, globex]) = (Doors::default(), ["acme", "globex"].map(tenant));
        let (one, two) = (doors.worker(), doors.worker());
        let before = one.enter(&acme).unwrap();
        doors.hold(&acme, LONG);
        assert_eq!(doors.n_inside(&acme), 1, "who was inside stays");
        let (hold, other) = (one.enter(&acme).unwrap_err(), two.enter(&acme).unwrap_err());
        assert!(one.enter(&globex).is_ok());
        let soon = Instant::now() + LONG;
        let waits = tokio::spawn(async move { tokio::join!(hold.wait(soon), other.wait(soon)) });
        tokio::task::yield_now().await;
        assert_eq!(doors.n_waiting(), 2);
        doors.open(&acme);
        assert_eq!(waits.await.unwrap(), (Ok(()), Ok(())));
        drop(before);
        assert!(two.enter(&acme).is_ok() && doors.n_waiting() == 0);
    }

    #[test]
    fn whoever_hears_that_the_doors_are_open_comes_in_by_any() {
        let (doors, acme) = (Doors::default(), tenant("acme"));
        let workers: Vec<_> = (0..256).map(|_| doors.worker()).collect();
        let last = &workers[255];
        for _ in 0..50 {
            doors.hold(&acme, LONG);
            let hold = last.enter(&acme).unwrap_err();
            std::thread::scope(|threads| {
                let comes = threads.spawn(|| {
                    let open = hold.open.subscribe();
                    while !*open.borrow() {
                        std::hint::spin_loop();
                    }
                    last.enter(&acme).is_ok()
                });
                doors.open(&acme);
                assert!(comes.join().unwrap());
            });
        }
    }

    #[tokio::test]
    async fn nobody_waits_for_ever_and_no_more_than_there_is_room_for() {
        let (doors, acme) = (Doors::default(), tenant("acme"));
        let door = doors.worker();
        doors.hold(&acme, LONG);
        let hold = door.enter(&acme).unwrap_err();
        let now = Instant::now();
        assert_eq!(hold.wait(now).await, Err(NotLetIn::Late), "its own time is over");
        let mut waits = tokio::task::JoinSet::new();
        for _ in 0..MAX_WAITING {
            let hold = Arc::clone(&hold);
            waits.spawn(async move { hold.wait(now + 2 * LONG).await });
        }
        while doors.n_waiting() < MAX_WAITING {
            tokio::task::yield_now().await;
        }
        assert_eq!(hold.wait(now + LONG).await, Err(NotLetIn::Full));
        doors.open(&acme);
        assert!(waits.join_all().await.into_iter().all(|waited| waited == Ok(())));
        // The hold itself ends, though nobody opens.
        doors.hold(&acme, Duration::from_millis(10));
        let hold = door.enter(&acme).unwrap_err();
        assert_eq!(hold.wait(now + 2 * LONG).await, Err(NotLetIn::Late));
        assert_eq!(doors.n_waiting(), 0);
    }
}
