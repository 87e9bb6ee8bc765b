//! The reference of admission and of compartments: `try_acquire` and drop of a tokio semaphore.

use std::hint::black_box;

use tokio::sync::Semaphore;

use crate::contest::{self, Runner};

pub(crate) const NAME: &str = "tokio semaphore";

/// More permits than are ever held, as with everything beside it.
const N_PERMITS: usize = 10_000;

pub(crate) fn alone() -> Runner {
    let semaphore = Semaphore::new(N_PERMITS);
    contest::alone(move |_| acquire_and_release(&semaphore))
}

pub(crate) fn in_two_threads() -> Runner {
    let semaphore = Semaphore::new(N_PERMITS);
    contest::in_two_threads(move |_| acquire_and_release(&semaphore))
}

fn acquire_and_release(semaphore: &Semaphore) {
    drop(black_box(semaphore.try_acquire().expect("permits are left")));
}
