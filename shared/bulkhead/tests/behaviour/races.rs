//! Cancel, timeout, grant, release, a change of limits and the end at the same instants, a million times: in paused time, where a
//! seed decides the order, and on several threads, where no order is expected, but that the limits hold, nothing is left, and
//! every outcome is met. Each of several cells is closed while its last callers go on.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, Refused, TenantShare};
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::support::{class, ms, queued, tenant};

/// In each of both tests.
const CELLS: u64 = 10;
/// In each cell.
const RACES: usize = 50_000;
const CEILINGS: [u32; 3] = [6, 3, 4];
const CELL: u32 = 8;

/// What the callers of a cell themselves count: the compartments' own counts are not asked.
#[derive(Default)]
struct Callers {
    cell: AtomicU32,
    classes: [AtomicU32; 3],
    begun: AtomicUsize,
    closed: AtomicBool,
    /// How many heard that all is shut down.
    told: AtomicU32,
    /// Those of them who had come before it was.
    told_in_line: AtomicU32,
}

impl Callers {
    /// One more comes, unless all have; one of the last closes the cell before.
    fn come(&self, cell: &Compartments) -> bool {
        let begun = self.begun.fetch_add(1, SeqCst);
        if begun == RACES - RACES / 20 {
            self.closed.store(true, SeqCst);
            cell.close();
        }
        begun < RACES
    }

    fn enter(&self, class: usize) -> Counted<'_> {
        assert!(self.cell.fetch_add(1, SeqCst) < CELL);
        assert!(self.classes[class].fetch_add(1, SeqCst) < CEILINGS[class]);
        Counted(self, class)
    }

    fn refused(&self, refused: &Refused, was_open: bool) {
        if *refused == Refused::ShutDown {
            self.told.fetch_add(1, SeqCst);
            self.told_in_line.fetch_add(u32::from(was_open), SeqCst);
        }
    }
}

/// Leaves the count just before the place itself is released, however the caller ends.
struct Counted<'a>(&'a Callers, usize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.cell.fetch_sub(1, SeqCst);
        self.0.classes[self.1].fetch_sub(1, SeqCst);
    }
}

/// The widest layout, and two narrower ones: whatever was changed last, no more may be held than the widest allows.
fn layout(narrower: u32) -> Layout {
    let classes: Vec<ClassLayout> = vec![
        queued(class("a", 2 - narrower, CEILINGS[0] - narrower), 8 - 3 * narrower, ms(3)),
        queued(class("b", 1, CEILINGS[1] - narrower), 4, ms(2)),
        queued(class("c", narrower, CEILINGS[2] - narrower), 6 + narrower, ms(5)),
    ];
    let share = TenantShare::from_thousandths(if narrower == 1 { 250 } else { 500 }).unwrap();
    Layout::new(CELL - narrower, share, 5, classes).unwrap()
}

/// Changes the limits for the nth time: the layout, and one ceiling, which is moved below what its layout says while the one before
/// is freed, as limits that follow the latency are.
fn change(cell: &Compartments, n: u32) {
    cell.change(layout(n % 3));
    let (class, before) = ((n % 3) as usize, ((n + 2) % 3) as usize);
    cell.move_ceiling(class, 1 + n / 3 % 2, 2);
    cell.free_ceiling(before);
}

fn any_request(random: &mut StdRng) -> (usize, String) {
    (random.random_range(0..3), format!("t{}", random.random_range(0..12)))
}

/// One request whose caller may have left before it is granted, served or refused.
async fn race(cell: &Compartments, callers: &Callers, random: &mut StdRng) {
    let (class, name) = any_request(random);
    let hold = ms(random.random_range(0..4));
    let deadline = random.random_bool(0.3).then(|| Instant::now() + ms(random.random_range(0..16)));
    let was_open = !callers.closed.load(SeqCst);
    let attempt = async {
        match cell.acquire(class, &tenant(&name), deadline).await {
            Ok(_place) => {
                let _counted = callers.enter(class);
                if hold.is_zero() { tokio::task::yield_now().await } else { sleep(hold).await }
            }
            Err(refused) => {
                callers.refused(&refused, was_open);
                // Whoever came again at once would leave no races to the others.
                sleep(ms(1)).await;
            }
        }
    };
    // The caller leaves, the queue's patience ends and places come free at the same instants, in whole milliseconds;
    // the caller is asked first, so that some leave when they have just been granted.
    let patience = sleep(ms(random.random_range(0..6)));
    tokio::select! { biased; () = patience => {}, () = attempt => {} }
}

fn nothing_is_left(cell: &Compartments, callers: &Callers) {
    cell.change(layout(0));
    (0..3).for_each(|class| cell.free_ceiling(class));
    let seen = cell.snapshot();
    assert_eq!((seen.used, seen.tenants, seen.shared_places), (0, 0, 0));
    for (class, ceiling) in seen.classes.iter().zip(CEILINGS) {
        assert_eq!((class.used, class.queued, class.oldest_wait), (0, 0, Duration::ZERO));
        assert!(class.peak_used <= ceiling);
        assert!(class.granted > 0 && class.abandoned > 0, "{class:?}");
    }
    assert_eq!(cell.saturations().cell().thousandths(), 0);
    assert!(callers.told.load(SeqCst) > 0, "somebody came after the end");
}

#[tokio::test(start_paused = true)]
async fn races_in_one_thread_leave_nothing_held() {
    let mut told_in_line = 0;
    for n in 0..CELLS {
        let (cell, callers) = (Compartments::new(layout(0)), Arc::new(Callers::default()));
        let calling = (0..50).map(|seed| {
            let (cell, callers) = (cell.clone(), Arc::clone(&callers));
            tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(n * 50 + seed);
                while callers.come(&cell) {
                    race(&cell, &callers, &mut random).await;
                }
            })
        });
        let changing = tokio::spawn({
            let cell = cell.clone();
            async move {
                for n in 0.. {
                    change(&cell, n);
                    sleep(ms(7)).await;
                }
            }
        });
        join_all(calling).await.into_iter().for_each(|caller| caller.unwrap());
        changing.abort();
        nothing_is_left(&cell, &callers);
        assert!(cell.snapshot().classes.iter().all(|class| class.timeouts > 0));
        told_in_line += callers.told_in_line.load(SeqCst);
    }
    // Whether one waits in the moment that a single cell closes is chance: tables hash tenants by seeds of their own.
    assert!(told_in_line > 0, "somebody waited as one of them ended");
}

#[test]
fn races_between_threads_leave_nothing_held() {
    // Each thread has a runtime of its own, as the workers of an agent have. Its waiters are cancelled by a count of
    // polls, never by a clock. Meanwhile the limits change.
    for n in 0..CELLS {
        let (cell, callers) = (Compartments::new(layout(0)), Callers::default());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0.. {
                    change(&cell, n);
                    if is_over.load(SeqCst) {
                        break;
                    }
                    std::thread::yield_now();
                }
            });
            let (cell, callers) = (&cell, &callers);
            let calling: Vec<_> = (0..4)
                .map(|thread| {
                    let seeds = (0..4).map(move |task| n * 16 + thread * 4 + task);
                    scope.spawn(move || {
                        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                        let calls = seeds.map(|seed| cancel_by_polls(cell, callers, seed));
                        runtime.unwrap().block_on(join_all(calls));
                    })
                })
                .collect();
            let ended: Vec<_> = calling.into_iter().map(|caller| caller.join()).collect();
            is_over.store(true, SeqCst);
            ended.into_iter().for_each(|caller| caller.unwrap());
        });
        nothing_is_left(&cell, &callers);
    }
}

async fn cancel_by_polls(cell: &Compartments, callers: &Callers, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    while callers.come(cell) {
        let (class, name) = any_request(&mut random);
        let attempt = async {
            match cell.acquire(class, &tenant(&name), None).await {
                Ok(_place) => {
                    let _counted = callers.enter(class);
                    tokio::task::yield_now().await;
                }
                Err(refused) => {
                    callers.refused(&refused, false);
                    tokio::task::yield_now().await;
                }
            }
        };
        let polls = random.random_range(0..4);
        let cancel = async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! { biased; () = attempt => {}, () = cancel => {} }
    }
}
