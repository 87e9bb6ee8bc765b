//! Small layouts and callers for the tests. It asserts nothing.

use std::time::Duration;

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, Refused, TenantShare};
use cofferdam_model::{Alphabet, CellReason, ClassName, TenantId};
use tokio::time::Instant;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
}

/// A class of priority 1 without a queue.
pub(crate) fn class(name: &str, floor: u32, ceiling: u32) -> ClassLayout {
    let name = ClassName::parse(name).unwrap();
    ClassLayout { name, priority: 1, floor, ceiling, queue: 0, max_wait: Duration::ZERO }
}

/// The same class with a queue.
pub(crate) fn queued(class: ClassLayout, queue: u32, max_wait: Duration) -> ClassLayout {
    ClassLayout { queue, max_wait, ..class }
}

/// Compartments in which one tenant may have all of a class.
pub(crate) fn cell(max_in_flight: u32, classes: Vec<ClassLayout>) -> Compartments {
    Compartments::new(Layout::new(max_in_flight, TenantShare::WHOLE, 1000, classes).unwrap())
}

/// Compartments in which a tenant may have a quarter of a class.
pub(crate) fn quartered(max_in_flight: u32, classes: Vec<ClassLayout>) -> Compartments {
    Compartments::new(Layout::new(max_in_flight, TenantShare::default(), 1000, classes).unwrap())
}

/// A call that holds its place for a while.
pub(crate) async fn call(cell: &Compartments, class: usize, hold: Duration) -> Result<(), Refused> {
    let place = cell.acquire(class, &tenant("acme"), None).await?;
    tokio::time::sleep(hold).await;
    drop(place);
    Ok(())
}

/// A caller that calls again as soon as it was served, and 50 ms after a refusal; how often it was served and
/// refused until `end`.
pub(crate) async fn caller(cell: Compartments, class: usize, hold: Duration, end: Instant) -> (u32, u32) {
    let (mut served, mut refused) = (0, 0);
    while Instant::now() < end {
        match call(&cell, class, hold).await {
            Ok(()) => served += 1,
            Err(_) => {
                refused += 1;
                tokio::time::sleep(ms(50)).await;
            }
        }
    }
    (served, refused)
}

/// The reason of a refusal.
pub(crate) fn reason<T>(result: Result<T, Refused>) -> Option<CellReason> {
    match result {
        Err(Refused::Full { reason, .. }) => Some(reason),
        Err(Refused::ShutDown) | Ok(_) => None,
    }
}

/// Places held of each class.
pub(crate) fn used(cell: &Compartments) -> Vec<u32> {
    cell.snapshot().classes.iter().map(|class| class.used).collect()
}
