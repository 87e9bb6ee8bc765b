//! A call of next to nothing that holds a place: under a bulkhead, in a pool of threads, and in a runtime of its own, each
//! beside a call under a tokio semaphore. What the last two take is the way to another thread and back.

use std::future::Future;
use std::hint::black_box;

use cofferdam_bulkhead::{Bulkhead, Pool};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::contest::{Contest, Runner, alone};
use crate::semaphore;

/// More than one call ever needs.
const N_PLACES: u32 = 2;

pub(crate) fn contests() -> Vec<Contest> {
    let mut contests = vec![contest("under a bulkhead", under_a_bulkhead())];
    contests.extend(calls_in_pools_beside_one_under_a_semaphore());
    contests
}

// P19
fn calls_in_pools_beside_one_under_a_semaphore() -> [Contest; 2] {
    [contest("in a pool of threads", in_a_pool()), contest("in a runtime of its own", in_a_runtime())]
}

fn contest(circumstances: &str, ours: Runner) -> Contest {
    Contest {
        name: format!("call, {circumstances}"),
        ours,
        reference_name: semaphore::NAME,
        reference: under_a_semaphore(),
        target: None,
    }
}

fn under_a_semaphore() -> Runner {
    let (caller, semaphore) = (caller(), Semaphore::new(N_PLACES as usize));
    alone(move |run| {
        wait(&caller, async {
            let _permit = semaphore.acquire().await.expect("it is open");
            work(run)
        });
    })
}

fn under_a_bulkhead() -> Runner {
    let (caller, bulkhead) = (caller(), Bulkhead::new("bench", N_PLACES));
    alone(move |run| {
        wait(&caller, async { bulkhead.run(async { work(run) }).await.expect("there are places") });
    })
}

fn in_a_pool() -> Runner {
    let pool = Pool::new("bench", N_PLACES, 0).expect("threads can be started");
    let caller = caller();
    alone(move |run| {
        wait(&caller, async { pool.run(move || work(run)).await.expect("there are threads") });
    })
}

fn in_a_runtime() -> Runner {
    let pool = Pool::runtime("bench", N_PLACES, N_PLACES).expect("threads can be started");
    let caller = caller();
    alone(move |run| {
        wait(&caller, async { pool.run(async move { work(run) }).await.expect("there are places") });
    })
}

fn caller() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime can be built")
}

fn wait(caller: &Runtime, call: impl Future<Output = usize>) {
    black_box(caller.block_on(call));
}

fn work(run: usize) -> usize {
    black_box(run) + 1
}
