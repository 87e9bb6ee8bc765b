//! Waiting for a place: 64 tasks that want the same few places, beside a tokio semaphore; a grant with 10,000 tenants in
//! line beside one with 10; and what a waiter takes of memory.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, Place, Refused, TenantShare};
use cofferdam_model::{Alphabet, ClassName, TenantId};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::contest::{Contest, Runner};

const N_TASKS: usize = 64;
/// Few beside the tasks, so that most of them wait.
const N_PLACES: u32 = 16;

const PATIENCE: Duration = Duration::from_secs(1 << 20);

type Wait = Pin<Box<dyn Future<Output = Result<Place, Refused>>>>;

pub(crate) fn contests() -> Vec<Contest> {
    vec![
        Contest {
            name: format!("{N_TASKS} tasks on a class of {N_PLACES} places"),
            ours: tasks_on_a_class(),
            reference_name: "tokio semaphore",
            reference: tasks_on_a_semaphore(),
            target: Some(1.0),
        },
        Contest {
            name: "a grant with 10000 tenants in line".to_owned(),
            ours: grants(10_000),
            reference_name: "with 10 in line",
            reference: grants(10),
            target: Some(4.0),
        },
    ]
}

/// What each of 100,000 waiters, of as many tenants, takes: in the compartments, and in the future that waits.
pub(crate) fn bytes_of_a_waiter() -> u64 {
    const N: usize = 100_000;
    let runtime = runtime();
    let _time = runtime.enter();
    let tenants: Vec<_> = (0..N).map(tenant).collect();
    let cell = cell(1, N as u32);
    let _place = cell.try_acquire(0, &tenant(N)).expect("the first");
    let mut waits: Vec<Wait> = Vec::with_capacity(N);
    let before = resident();
    for tenant in tenants {
        let mut wait = wait(&cell, tenant);
        let polled = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        waits.push(wait);
    }
    (resident() - before) / N as u64
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages");
    pages * 4096
}

fn tenant(n: usize) -> TenantId {
    TenantId::parse(format!("tenant-{n:08}").as_bytes(), &Alphabet::default()).expect("a plain name")
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime")
}

fn cell(places: u32, queue: u32) -> Compartments {
    let name = ClassName::parse("all").expect("a plain name");
    // Longer than 10,000 waiters behind the first place seem to wait, which is held until the contest begins.
    let max_wait = PATIENCE;
    let class = ClassLayout { name, priority: 0, floor: 0, ceiling: places, queue, max_wait };
    let layout = Layout::new(places, TenantShare::WHOLE, 1 << 20, vec![class]);
    Compartments::new(layout.expect("a class that fits"))
}

fn wait(cell: &Compartments, tenant: TenantId) -> Wait {
    let cell = cell.clone();
    Box::pin(async move { cell.acquire(0, &tenant, None).await })
}

/// Runs `n_runs` turns of as many tasks as there are, each a place that is held while another task is run.
fn in_tasks<F: Future<Output = ()> + Send + 'static>(
    runtime: &Runtime,
    n_runs: u64,
    turns: impl Fn(usize, u64) -> F,
) -> Duration {
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for task in 0..N_TASKS {
            let extra = u64::from((task as u64) < n_runs % N_TASKS as u64);
            tasks.spawn(turns(task, n_runs / N_TASKS as u64 + extra));
        }
        let start = Instant::now();
        while let Some(ended) = tasks.join_next().await {
            ended.expect("a task that ends");
        }
        start.elapsed()
    })
}

fn tasks_on_a_class() -> Runner {
    let (runtime, cell) = (runtime(), cell(N_PLACES, 1000));
    Box::new(move |n_runs| {
        in_tasks(&runtime, n_runs, |task, n_turns| {
            let (cell, tenant) = (cell.clone(), tenant(task));
            async move {
                for _ in 0..n_turns {
                    let place = cell.acquire(0, &tenant, None).await.expect("a long queue");
                    tokio::task::yield_now().await;
                    drop(place);
                }
            }
        })
    })
}

fn tasks_on_a_semaphore() -> Runner {
    let (runtime, semaphore) = (runtime(), Arc::new(Semaphore::new(N_PLACES as usize)));
    Box::new(move |n_runs| {
        in_tasks(&runtime, n_runs, |_, n_turns| {
            let semaphore = Arc::clone(&semaphore);
            async move {
                for _ in 0..n_turns {
                    // As long a patience as ours, since a wait without an end is no bulkhead's.
                    let permit = tokio::time::timeout(PATIENCE, semaphore.acquire()).await;
                    let permit = permit.expect("in time").expect("an open semaphore");
                    tokio::task::yield_now().await;
                    drop(permit);
                }
            }
        })
    })
}

/// Who was woken, by number.
type Woken = Arc<Mutex<Vec<usize>>>;

struct Numbered(usize, Woken);

impl Wake for Numbered {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("no panics").push(self.0);
    }
}

/// One place, and a waiter of each of so many tenants: the place goes to the next in turn, who comes again behind it.
fn grants(n_tenants: usize) -> Runner {
    let (runtime, cell, woken) = (runtime(), cell(1, n_tenants as u32 + 1), Woken::default());
    let tenants: Vec<_> = (0..n_tenants).map(tenant).collect();
    let wakers: Vec<Waker> =
        (0..n_tenants).map(|n| Arc::new(Numbered(n, Arc::clone(&woken))).into()).collect();
    let mut place = Some(cell.try_acquire(0, &tenant(n_tenants)).expect("the first"));
    let mut waits: Vec<Wait> = Vec::with_capacity(n_tenants);
    {
        let _time = runtime.enter();
        for n in 0..n_tenants {
            let mut wait = wait(&cell, tenants[n]);
            assert!(wait.as_mut().poll(&mut Context::from_waker(&wakers[n])).is_pending());
            waits.push(wait);
        }
    }
    Box::new(move |n_runs| {
        let _time = runtime.enter();
        let start = Instant::now();
        for _ in 0..n_runs {
            drop(place.take());
            let n = woken.lock().expect("no panics").pop().expect("one freed place wakes one");
            match waits[n].as_mut().poll(&mut Context::from_waker(&wakers[n])) {
                Poll::Ready(granted) => place = granted.ok(),
                Poll::Pending => panic!("who was woken has its place"),
            }
            waits[n] = wait(&cell, tenants[n]);
            assert!(waits[n].as_mut().poll(&mut Context::from_waker(&wakers[n])).is_pending());
        }
        start.elapsed()
    })
}
