//! The streams of one HTTP/2 connection: a task for each, how many are open, and an end to those whose client takes
//! nothing. A stream's own window can hold an answer back for ever while the connection is well, and with the answer
//! whatever it holds.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::rt::Executor;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

tokio::task_local! {
    /// What the stream of this task waits for, and how often that was said.
    static WAIT: Cell<(Wait, u32)>;
}

/// What a stream waits for while nothing happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An answer, or more of its body.
    ForBody,
    /// The client, to make room for what there is of the body.
    ForClient,
}

impl Wait {
    /// Notes it for the stream whose task calls.
    pub(crate) fn note(self) {
        WAIT.with(|wait| wait.set((self, wait.get().1.wrapping_add(1))));
    }
}

/// What is known of a connection's streams together.
#[derive(Debug)]
pub(crate) struct Streams {
    n_open: AtomicUsize,
    /// When the last stream ended.
    quiet_since: Mutex<Instant>,
}

impl Default for Streams {
    fn default() -> Self {
        Self { n_open: AtomicUsize::new(0), quiet_since: Mutex::new(Instant::now()) }
    }
}

impl Streams {
    /// Ready once no stream has been open for as long as `most`.
    pub(crate) async fn idle(&self, most: Duration) {
        loop {
            let end = *self.quiet_since.lock() + most;
            let is_open = self.n_open.load(Ordering::Relaxed) > 0;
            match Instant::now() {
                now if is_open => sleep_until(now + most).await,
                now if now < end => sleep_until(end).await,
                _ => return,
            }
        }
    }

    /// The time without streams begins anew.
    pub(crate) fn touch(&self) {
        *self.quiet_since.lock() = Instant::now();
    }
}

/// One stream's part in the count of those that are open.
struct Open(Arc<Streams>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.touch();
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs each stream in a task of its own, so that none waits for another.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    streams: Arc<Streams>,
    stall: Duration,
}

impl Spawner {
    /// Streams end once their client has taken nothing for `stall`.
    pub(crate) fn new(streams: Arc<Streams>, stall: Duration) -> Self {
        Self { streams, stall }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, exchange: F) {
        self.streams.n_open.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&self.streams));
        let watched = Watched { exchange, stall: self.stall, timer: None, noted: None, open };
        tokio::spawn(WAIT.scope(Cell::new((Wait::ForBody, 0)), watched));
    }
}

pin_project! {
    /// A stream's exchange, given up once its client has taken nothing for too long: it is dropped, and so reset.
    struct Watched<F> {
        #[pin]
        exchange: F,
        stall: Duration,
        timer: Option<Pin<Box<Sleep>>>,
        // What the timer was set for.
        noted: Option<u32>,
        open: Open,
    }
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        if this.exchange.poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let (wait, n) = WAIT.with(Cell::get);
        if wait == Wait::ForBody {
            return Poll::Pending;
        }
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep(*this.stall)));
        if this.noted.replace(n) != Some(n) {
            timer.as_mut().reset(Instant::now() + *this.stall);
        }
        ready!(timer.as_mut().poll(cx));
        tracing::debug!("a client takes nothing of a stream");
        Poll::Ready(())
    }
}
