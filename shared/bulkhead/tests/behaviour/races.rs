//! Cancel, timeout, grant, release and a change of limits at the same instants, 10^5 times: in paused time, where a seed decides the
//! order, and on several threads, where no outcome is expected but that the limits hold and nothing is left.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, TenantShare};
use futures_util::future::join_all;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::support::{class, ms, queued, tenant};

const RACES: usize = 100_000;
const CEILINGS: [u32; 3] = [6, 3, 4];
const CELL: u32 = 8;

/// What the callers themselves count: the compartments' own counts are not asked.
#[derive(Clone, Default)]
struct Held {
    cell: Arc<AtomicU32>,
    classes: Arc<[AtomicU32; 3]>,
}

impl Held {
    fn enter(&self, class: usize) {
        assert!(self.cell.fetch_add(1, Ordering::SeqCst) < CELL);
        assert!(self.classes[class].fetch_add(1, Ordering::SeqCst) < CEILINGS[class]);
    }

    fn leave(&self, class: usize) {
        self.cell.fetch_sub(1, Ordering::SeqCst);
        self.classes[class].fetch_sub(1, Ordering::SeqCst);
    }
}

/// Leaves the count just before the place itself is released, however the caller ends.
struct Counted<'a>(&'a Held, usize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// The widest layout, and two narrower ones: whatever was changed last, no more may be held than the widest allows.
fn layout(max_tenants: usize, narrower: u32) -> Layout {
    let classes: Vec<ClassLayout> = vec![
        queued(class("a", 2 - narrower, CEILINGS[0] - narrower), 8 - 3 * narrower, ms(3)),
        queued(class("b", 1, CEILINGS[1] - narrower), 4, ms(2)),
        queued(class("c", narrower, CEILINGS[2] - narrower), 6 + narrower, ms(5)),
    ];
    let share = TenantShare::from_thousandths(if narrower == 1 { 250 } else { 500 }).unwrap();
    Layout::new(CELL - narrower, share, max_tenants, classes).unwrap()
}

fn compartments(max_tenants: usize) -> Compartments {
    Compartments::new(layout(max_tenants, 0))
}

/// One request whose caller may have left before it is granted, served or refused.
async fn race(cell: &Compartments, held: &Held, random: &mut StdRng) {
    let (class, name) = (random.random_range(0..3), format!("t{}", random.random_range(0..12)));
    let hold = ms(random.random_range(0..4));
    let deadline = random.random_bool(0.3).then(|| Instant::now() + ms(random.random_range(0..16)));
    let attempt = async {
        if let Ok(_place) = cell.acquire(class, &tenant(&name), deadline).await {
            held.enter(class);
            let _counted = Counted(held, class);
            if hold.is_zero() { tokio::task::yield_now().await } else { sleep(hold).await }
        }
    };
    // The caller leaves, the queue's patience ends and places come free at the same instants, in whole milliseconds;
    // the caller is asked first, so that some leave when they have just been granted.
    let patience = sleep(ms(random.random_range(0..6)));
    tokio::select! { biased; () = patience => {}, () = attempt => {} }
}

/// Moves one ceiling below what its layout says, and frees the one before, as a limit that follows the latency does.
fn move_ceilings(cell: &Compartments, n: u32) {
    let (class, before) = ((n % 3) as usize, ((n + 2) % 3) as usize);
    cell.move_ceiling(class, 1 + n / 3 % 2, 2);
    cell.free_ceiling(before);
}

fn nothing_is_left(cell: &Compartments) {
    let seen = cell.snapshot();
    assert_eq!((seen.used, seen.tenants, seen.shared_places), (0, 0, 0));
    for (class, ceiling) in seen.classes.iter().zip(CEILINGS) {
        assert_eq!((class.used, class.queued, class.oldest_wait), (0, 0, Duration::ZERO));
        assert!(class.peak_used <= ceiling);
        assert!(class.granted > 0 && class.timeouts > 0 && class.abandoned > 0, "every outcome was met");
    }
    assert_eq!(cell.saturations().cell().thousandths(), 0);
}

#[tokio::test(start_paused = true)]
async fn races_in_one_thread_leave_nothing_held() {
    let cell = compartments(5);
    let held = Held::default();
    let callers = (0..50).map(|seed| {
        let (cell, held) = (cell.clone(), held.clone());
        tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(seed);
            for _ in 0..RACES / 50 {
                race(&cell, &held, &mut random).await;
            }
        })
    });
    let changes = tokio::spawn({
        let cell = cell.clone();
        async move {
            for n in 0.. {
                cell.change(layout(5, n % 3));
                move_ceilings(&cell, n);
                sleep(ms(7)).await;
            }
        }
    });
    join_all(callers).await.into_iter().for_each(|caller| caller.unwrap());
    changes.abort();
    cell.change(layout(5, 0));
    (0..3).for_each(|class| cell.free_ceiling(class));
    nothing_is_left(&cell);
}

#[test]
fn races_between_threads_leave_nothing_held() {
    // Each thread has a runtime of its own, as the workers of an agent have. Its waiters are cancelled by a count of
    // polls, never by a clock. Meanwhile the limits change, and in the end all is closed.
    let cell = compartments(5);
    let held = Held::default();
    std::thread::scope(|scope| {
        let changing = cell.clone();
        scope.spawn(move || {
            for n in 0..2000 {
                changing.change(layout(5, n % 3));
                move_ceilings(&changing, n);
                std::thread::yield_now();
            }
        });
        for seed in 0..4 {
            let (cell, held) = (cell.clone(), held.clone());
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                runtime.block_on(join_all((0..4).map(|n| cancel_by_polls(&cell, &held, seed * 4 + n))));
            });
        }
    });
    let seen = cell.snapshot();
    assert_eq!((seen.used, seen.tenants, seen.shared_places), (0, 0, 0));
    assert!(seen.classes.iter().all(|class| class.used == 0 && class.queued == 0));
}

async fn cancel_by_polls(cell: &Compartments, held: &Held, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for n in 0..RACES / 16 {
        if seed == 0 && n == RACES / 16 - 100 {
            cell.close();
        }
        let (class, name) = (random.random_range(0..3), format!("t{}", random.random_range(0..12)));
        let attempt = async {
            if let Ok(_place) = cell.acquire(class, &tenant(&name), None).await {
                held.enter(class);
                let _counted = Counted(held, class);
                tokio::task::yield_now().await;
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
