//! The semaphore and the counters of a bulkhead. Under this crate's own tests they are a model of tokio's semaphore and the
//! model checker's counters, so that every order can be tried in which callers, releases, timeouts and a close meet there.

#[cfg(not(test))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(test)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(not(test))]
pub(crate) use tokio::sync::{OwnedSemaphorePermit, Semaphore};
#[cfg(not(test))]
pub(crate) use tokio::time::timeout;

#[cfg(test)]
pub(crate) use self::model::{OwnedSemaphorePermit, Semaphore, timeout};

#[cfg(test)]
mod model {
    use std::collections::VecDeque;
    use std::future::{Future, poll_fn};
    use std::pin::{Pin, pin};
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use tokio::sync::TryAcquireError;

    use crate::lock::Mutex;

    /// As tokio's: fair, and what comes free is the first waiter's at once.
    pub(crate) struct Semaphore(Mutex<State>);

    struct State {
        free: usize,
        line: VecDeque<Waiter>,
        next_id: u64,
        closed: bool,
    }

    struct Waiter {
        id: u64,
        waker: Waker,
        granted: bool,
    }

    pub(crate) struct OwnedSemaphorePermit(Arc<Semaphore>);

    #[derive(Debug)]
    pub(crate) struct Closed;

    pub(crate) struct Acquire {
        semaphore: Arc<Semaphore>,
        id: Option<u64>,
    }

    impl Semaphore {
        pub(crate) fn new(free: usize) -> Self {
            Self(Mutex::new(State { free, line: VecDeque::new(), next_id: 0, closed: false }))
        }

        pub(crate) fn try_acquire_owned(self: Arc<Self>) -> Result<OwnedSemaphorePermit, TryAcquireError> {
            let mut state = self.0.lock();
            if state.closed {
                return Err(TryAcquireError::Closed);
            }
            state.free = state.free.checked_sub(1).ok_or(TryAcquireError::NoPermits)?;
            drop(state);
            Ok(OwnedSemaphorePermit(self))
        }

        pub(crate) fn acquire_owned(self: Arc<Self>) -> Acquire {
            Acquire { semaphore: self, id: None }
        }

        pub(crate) fn available_permits(&self) -> usize {
            self.0.lock().free
        }

        pub(crate) fn is_closed(&self) -> bool {
            self.0.lock().closed
        }

        pub(crate) fn close(&self) {
            let mut state = self.0.lock();
            state.closed = true;
            let wakers: Vec<_> = state.line.iter().map(|waiter| waiter.waker.clone()).collect();
            state.line.retain(|waiter| waiter.granted);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }

        fn release(&self) {
            let mut state = self.0.lock();
            let first = state.line.iter_mut().find(|waiter| !waiter.granted);
            let waker = first.map(|waiter| {
                waiter.granted = true;
                waiter.waker.clone()
            });
            state.free += usize::from(waker.is_none());
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    impl Drop for OwnedSemaphorePermit {
        fn drop(&mut self) {
            self.0.release();
        }
    }

    impl Future for Acquire {
        type Output = Result<OwnedSemaphorePermit, Closed>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            let semaphore = Arc::clone(&self.semaphore);
            let mut state = semaphore.0.lock();
            let at = self.id.and_then(|id| state.line.iter().position(|waiter| waiter.id == id));
            match at {
                Some(at) if state.line[at].granted => {
                    state.line.remove(at);
                    self.id = None;
                }
                Some(at) => {
                    state.line[at].waker.clone_from(context.waker());
                    return Poll::Pending;
                }
                None if state.closed => return Poll::Ready(Err(Closed)),
                None if state.free > 0 => state.free -= 1,
                None => {
                    let id = state.next_id;
                    state.next_id += 1;
                    state.line.push_back(Waiter { id, waker: context.waker().clone(), granted: false });
                    self.id = Some(id);
                    return Poll::Pending;
                }
            }
            drop(state);
            Poll::Ready(Ok(OwnedSemaphorePermit(semaphore)))
        }
    }

    impl Drop for Acquire {
        fn drop(&mut self) {
            let Some(id) = self.id else { return };
            let mut state = self.semaphore.0.lock();
            let at = state.line.iter().position(|waiter| waiter.id == id);
            let was_granted = at.and_then(|at| state.line.remove(at)).is_some_and(|waiter| waiter.granted);
            drop(state);
            if was_granted {
                self.semaphore.release();
            }
        }
    }

    /// There is no clock: no time is over after one look, and any other never.
    pub(crate) async fn timeout<F: Future>(wait: Duration, future: F) -> Result<F::Output, Closed> {
        let mut future = pin!(future);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Pending if wait.is_zero() => Poll::Ready(Err(Closed)),
            polled => polled.map(Ok),
        })
        .await
    }
}
