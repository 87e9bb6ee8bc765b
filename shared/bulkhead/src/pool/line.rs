//! The calls of a pool, those that wait and those that run, under one lock, and what each of its threads does. It knows
//! nothing of who waits for an outcome.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::denied::Denied;
use crate::lock::{Condvar, Mutex, MutexGuard};

/// A call to be run. What it says is delivered only when its thread is free again, so that whoever calls once more upon it
/// finds that thread.
pub(crate) trait Work: Send {
    /// Runs it; `true` where it panicked.
    fn run(&mut self) -> bool;

    /// Tells whoever waits.
    fn deliver(&mut self);
}

/// A pool at one moment, and what it has counted since it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolSnapshot {
    /// The pool.
    pub name: Arc<str>,
    /// Calls that have a thread.
    pub active: u32,
    /// How many threads there are.
    pub threads: u32,
    /// Calls waiting for one.
    pub queued: u32,
    /// How many may wait.
    pub queue: u32,
    /// Calls that were taken.
    pub granted: u64,
    /// Calls that were not, since it was full.
    pub refused: u64,
    /// Calls that panicked.
    pub panicked: u64,
    /// Whether it was closed.
    pub closed: bool,
}

/// What all handles and threads of a pool share.
pub(crate) struct Line {
    name: Arc<str>,
    threads: u32,
    queue: u32,
    state: Mutex<State>,
    has_work: Condvar,
}

#[derive(Default)]
struct State {
    /// By their numbers, ascending. Those that an idle thread is about to take are among them.
    jobs: VecDeque<Job>,
    running: u32,
    next_id: u64,
    granted: u64,
    refused: u64,
    panicked: u64,
    closed: bool,
}

struct Job {
    id: u64,
    work: Box<dyn Work>,
}

impl Line {
    pub(crate) fn new(name: &str, threads: u32, queue: u32) -> Self {
        let (state, has_work) = (Mutex::new(State::default()), Condvar::default());
        Self { name: name.into(), threads, queue, state, has_work }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Takes a call if a thread is idle or the queue has room; the result is its number.
    pub(crate) fn enter(&self, work: Box<dyn Work>) -> Result<u64, Denied> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(self.shut_down());
        }
        let (active, queued) = self.counts(&state);
        // A thread that is idle has a call the moment that there is one, however long it takes to wake.
        if active == self.threads && queued >= self.queue {
            state.refused += 1;
            drop(state);
            return Err(self.full(active, queued));
        }
        let id = state.next_id;
        state.next_id += 1;
        state.granted += 1;
        state.jobs.push_back(Job { id, work });
        drop(state);
        self.has_work.notify_one();
        Ok(id)
    }

    /// Takes a call back that has not begun; without effect on one that has.
    pub(crate) fn take_back(&self, id: u64) {
        let mut state = self.state.lock();
        let found = state.jobs.binary_search_by_key(&id, |job| job.id);
        let job = found.ok().and_then(|at| state.jobs.remove(at));
        // Not under the lock: what a call holds may do anything when it is dropped.
        drop(state);
        drop(job);
    }

    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let cancelled = std::mem::take(&mut state.jobs);
        drop(state);
        self.has_work.notify_all();
        drop(cancelled);
    }

    pub(crate) fn snapshot(&self) -> PoolSnapshot {
        let state = self.state.lock();
        let (active, queued) = self.counts(&state);
        PoolSnapshot {
            name: Arc::clone(&self.name),
            active,
            threads: self.threads,
            queued,
            queue: self.queue,
            granted: state.granted,
            refused: state.refused,
            panicked: state.panicked,
            closed: state.closed,
        }
    }

    pub(crate) fn shut_down(&self) -> Denied {
        Denied::ShutDown(Arc::clone(&self.name))
    }

    /// A thread's whole life: call after call, until the pool is closed.
    pub(crate) fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state = self.run(job, state);
            } else if state.closed {
                return;
            } else {
                state = self.has_work.wait(state);
            }
        }
    }

    fn run<'a>(&'a self, job: Job, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let Job { mut work, .. } = job;
        state.running += 1;
        drop(state);
        let has_panicked = work.run();
        let mut state = self.state.lock();
        state.running -= 1;
        state.panicked += u64::from(has_panicked);
        drop(state);
        // An outcome that nobody waits for is dropped here, and so is what the call held.
        if catch_unwind(AssertUnwindSafe(move || work.deliver())).is_err() {
            tracing::error!(pool = &*self.name, "an outcome panicked when it was dropped");
        }
        self.state.lock()
    }

    /// Calls that have a thread or are about to, and calls that wait for one.
    fn counts(&self, state: &State) -> (u32, u32) {
        // As many as the queue and the threads together, at most.
        let all = state.running + state.jobs.len() as u32;
        let active = all.min(self.threads);
        (active, all - active)
    }

    fn full(&self, active: u32, queued: u32) -> Denied {
        let (limit, queue) = (self.threads, self.queue);
        tracing::debug!(bulkhead = &*self.name, active, limit, queued, queue, "pool is full");
        Denied::Full { name: Arc::clone(&self.name), active, limit, queued, queue, waited: Duration::ZERO }
    }
}

#[cfg(test)]
mod checked;
