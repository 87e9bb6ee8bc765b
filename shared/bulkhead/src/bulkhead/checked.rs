//! A bulkhead under a model checker: every order in which callers, a release, timeouts and a close can come to it.

use loom::future::block_on;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

use super::*;

/// What a caller does.
type Act = Box<dyn Fn(&Bulkhead) -> Result<BulkheadPlace, Denied> + Send>;

const PATIENT: Duration = Duration::from_secs(60);

/// Runs two callers beside a place that is given back, and sees to it that no more were inside than may be, that the queue was
/// kept, and that nothing is left.
fn race(
    queue: u32,
    first: impl Fn(&Bulkhead) -> Result<BulkheadPlace, Denied> + Clone + Send + Sync + 'static,
    second: impl Fn(&Bulkhead) -> Result<BulkheadPlace, Denied> + Clone + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let bulkhead = Bulkhead::new("checked", 1).queue(queue, PATIENT);
        let inside = Arc::new(AtomicUsize::new(0));
        let place = bulkhead.try_acquire().unwrap();
        let acts: [Act; 2] = [Box::new(first.clone()), Box::new(second.clone())];
        let callers = acts.map(|act| {
            let (bulkhead, inside) = (bulkhead.clone(), Arc::clone(&inside));
            thread::spawn(move || {
                let outcome = act(&bulkhead);
                if let Ok(place) = outcome {
                    assert_eq!(inside.fetch_add(1, Relaxed), 0, "there is one place");
                    inside.fetch_sub(1, Relaxed);
                    drop(place);
                }
            })
        });
        // A change reads the newest, as a mere look need not.
        assert!(bulkhead.0.queued.fetch_add(0, Relaxed) <= queue, "none can leave it yet");
        drop(place);
        callers.into_iter().for_each(|caller| caller.join().unwrap());
        let seen = bulkhead.snapshot();
        assert_eq!((seen.active, seen.queued), (0, 0));
        if !seen.closed {
            assert_eq!(seen.granted + seen.refused, 3);
            assert!(bulkhead.try_acquire().is_ok());
        }
    });
}

fn wait(bulkhead: &Bulkhead) -> Result<BulkheadPlace, Denied> {
    block_on(bulkhead.acquire())
}

#[test]
fn whoever_finds_room_in_the_queue_is_served() {
    race(
        2,
        |bulkhead| {
            let outcome = wait(bulkhead);
            assert!(outcome.is_ok());
            outcome
        },
        wait,
    );
}

#[test]
fn of_two_for_whom_there_is_room_for_one_the_other_is_refused_or_comes_later() {
    race(1, wait, wait);
}

#[test]
fn whose_time_is_over_as_it_is_granted_gives_its_place_on() {
    race(2, |bulkhead| block_on(bulkhead.acquire_within(Duration::ZERO)), wait);
}

#[test]
fn who_does_not_wait_overtakes_nobody_and_loses_nothing() {
    race(1, Bulkhead::try_acquire, wait);
}

#[test]
fn closing_reaches_whoever_waits_and_whoever_comes() {
    race(
        1,
        |bulkhead| {
            let outcome = wait(bulkhead);
            assert!(outcome.is_ok() || matches!(outcome, Err(Denied::ShutDown(_))));
            outcome
        },
        |bulkhead| {
            bulkhead.close();
            bulkhead.try_acquire()
        },
    );
}
