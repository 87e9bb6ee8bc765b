//! The line under a model checker: every order in which callers, threads and a close can come to it. What a test says here holds
//! in all of them.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use super::*;

/// What became of the calls.
#[derive(Clone, Default)]
struct Fates(Arc<Counts>);

#[derive(Default)]
struct Counts {
    running: AtomicUsize,
    ran: AtomicUsize,
    delivered: AtomicUsize,
    dropped: AtomicUsize,
}

impl Fates {
    fn call(&self) -> Box<dyn Work> {
        Box::new(Call(self.clone()))
    }

    /// How many ran, were told of, and are gone.
    fn read(&self) -> [usize; 3] {
        let Counts { ran, delivered, dropped, .. } = &*self.0;
        [ran, delivered, dropped].map(|count| count.load(Ordering::SeqCst))
    }
}

struct Call(Fates);

impl Work for Call {
    fn run(&mut self) -> bool {
        let Counts { running, ran, .. } = &*self.0.0;
        assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0, "there is one thread");
        thread::yield_now();
        running.fetch_sub(1, Ordering::SeqCst);
        ran.fetch_add(1, Ordering::SeqCst);
        false
    }

    fn deliver(&mut self) {
        self.0.0.delivered.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Hands a call over; whether it was taken. No more wait than may.
fn hand_over(line: &Line, call: Box<dyn Work>) -> bool {
    let is_taken = line.enter(call).is_ok();
    let seen = line.snapshot();
    assert!(seen.active <= seen.threads && seen.queued <= seen.queue, "{seen:?}");
    is_taken
}

/// A line of one thread that runs.
fn start(queue: u32) -> (Arc<Line>, JoinHandle<()>) {
    let line = Arc::new(Line::new("checked", 1, queue));
    let works = Arc::clone(&line);
    (line, thread::spawn(move || works.work()))
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Nothing runs or waits, and what was taken was counted.
fn is_empty(line: &Line, taken: usize) {
    let seen = line.snapshot();
    assert_eq!((seen.active, seen.queued), (0, 0));
    assert_eq!((seen.granted, seen.refused), (taken as u64, 2 - taken as u64));
}

#[test]
fn every_call_that_is_taken_runs_once_or_is_gone_with_the_close() {
    check(|| {
        let (fates, (line, works)) = (Fates::default(), start(1));
        let other = {
            let (line, call) = (Arc::clone(&line), fates.call());
            thread::spawn(move || hand_over(&line, call))
        };
        let taken = usize::from(hand_over(&line, fates.call())) + usize::from(other.join().unwrap());
        assert_eq!(taken, 2, "one for the thread, and one that may wait");
        line.close();
        works.join().unwrap();
        let [ran, delivered, dropped] = fates.read();
        assert!(ran <= 2 && delivered == ran && dropped == 2);
        assert!(matches!(line.enter(fates.call()), Err(Denied::ShutDown(_))));
        is_empty(&line, 2);
    });
}

#[test]
fn without_a_queue_one_call_is_taken_at_a_time_and_a_thread_that_has_ended_its_call_takes_the_next() {
    check(|| {
        let (fates, (line, works)) = (Fates::default(), start(0));
        let other = {
            let (line, call) = (Arc::clone(&line), fates.call());
            thread::spawn(move || hand_over(&line, call))
        };
        let taken = usize::from(hand_over(&line, fates.call())) + usize::from(other.join().unwrap());
        assert!(taken >= 1, "the thread was idle");
        line.close();
        works.join().unwrap();
        let [ran, delivered, dropped] = fates.read();
        assert!(ran <= taken && delivered == ran && dropped == 2);
        is_empty(&line, taken);
    });
}

#[test]
fn a_call_that_is_taken_back_as_its_thread_comes_for_it_runs_or_is_gone() {
    check(|| {
        let (fates, (line, works)) = (Fates::default(), start(1));
        let id = line.enter(fates.call()).unwrap();
        let other = {
            let (line, call) = (Arc::clone(&line), fates.call());
            thread::spawn(move || hand_over(&line, call))
        };
        line.take_back(id);
        assert!(other.join().unwrap(), "there is room for it, whatever became of the first");
        line.close();
        works.join().unwrap();
        let [ran, delivered, dropped] = fates.read();
        assert!(ran <= 2 && delivered == ran && dropped == 2);
        is_empty(&line, 2);
    });
}
