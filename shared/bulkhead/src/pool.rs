//! A compartment that reserves: threads of its own for calls that block. What blocks them can take no others. It knows
//! nothing of what is called.

mod caller;
mod error;
mod line;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

pub(crate) use self::caller::Caller;
use self::caller::Carrier;
pub use self::error::PoolError;
pub(crate) use self::error::panic_message;
pub use self::line::PoolSnapshot;
use self::line::{Line, Work};
use crate::denied::Denied;

/// Worker threads that nothing else can use, and a bounded queue before them. Clones are the same pool.
///
/// ```
/// use std::time::Duration;
///
/// use cofferdam_bulkhead::{Pool, PoolError};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// // Two threads, and room for two calls more.
/// let payment = Pool::new("payment", 2, 2)?;
/// let answer = payment.run(|| {
///     std::thread::sleep(Duration::from_millis(1)); // a client that blocks
///     "paid"
/// });
/// assert_eq!(answer.await.unwrap(), "paid");
///
/// let failed = payment.run(|| -> () { panic!("no such card") }).await.unwrap_err();
/// assert_eq!(failed.to_string(), "call in pool payment panicked: no such card");
///
/// payment.close();
/// let late = payment.run(|| "never called").await.unwrap_err();
/// assert_eq!(late.to_string(), "bulkhead payment is shut down");
/// # Ok(())
/// # }
/// ```
///
/// A call costs a hand-over to another thread and back; for calls that do not block a [`Bulkhead`](crate::Bulkhead) costs next
/// to nothing, and [`Pool::runtime`] reserves threads for futures.
#[derive(Clone)]
pub struct Pool {
    handle: Arc<Handle>,
    carrier: Option<Arc<Carrier>>,
}

/// A call that was taken: a future of its outcome. Dropped before the call began, it takes the call back. A call that runs
/// runs on, and keeps its thread until it ends.
#[must_use = "a call that nobody waits for is taken back"]
pub struct Running<T> {
    outcome: oneshot::Receiver<Result<T, PoolError>>,
    id: u64,
    /// `None` once the outcome is here.
    line: Option<Arc<Line>>,
}

/// The last one to go closes the pool.
struct Handle(Arc<Line>);

/// A call, and whom it is for.
struct Call<F, T> {
    name: Arc<str>,
    caller: Option<Caller>,
    call: Option<F>,
    outcome: Option<Result<T, PoolError>>,
    answer: Option<oneshot::Sender<Result<T, PoolError>>>,
}

impl Pool {
    /// Starts `threads` threads, at least one. Beside the calls that they run, `queue` may wait; 0 is a hand-off: a thread at
    /// once, or a refusal. The threads end once the pool is closed and they are done.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn new(name: &str, threads: u32, queue: u32) -> io::Result<Self> {
        let line = Arc::new(Line::new(name, threads.max(1), queue));
        // Closes, and so ends the threads that there are, where one more cannot be started.
        let handle = Arc::new(Handle(Arc::clone(&line)));
        for number in 1..=threads.max(1) {
            let line = Arc::clone(&line);
            std::thread::Builder::new().name(format!("{name}-{number}")).spawn(move || line.work())?;
        }
        Ok(Self { handle, carrier: None })
    }

    /// The same pool, whose calls take along what their callers' threads know, beside the span: what `capture` takes where a
    /// call is handed over, `enter` makes hold on the thread that runs it, until what it returned is dropped. With
    /// OpenTelemetry it is `carrying(Context::current, Context::attach)`.
    pub fn carrying<C: Send + 'static, G: 'static>(
        self,
        capture: impl Fn() -> C + Send + Sync + 'static,
        enter: impl Fn(C) -> G + Send + Sync + 'static,
    ) -> Self {
        let enter = Arc::new(enter);
        let carrier: Box<Carrier> = Box::new(move || {
            let (captured, enter) = (capture(), Arc::clone(&enter));
            Box::new(move || Box::new(enter(captured)) as Box<dyn Any>)
        });
        Self { carrier: Some(carrier.into()), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.handle.0.name()
    }

    /// The outcome of `call`, which runs on one of the pool's threads, in the caller's span. Dropping the future takes back a
    /// call that has not begun.
    ///
    /// # Errors
    /// The pool is full or closed, or was closed before `call` began; `call` panicked.
    pub async fn run<T, F>(&self, call: F) -> Result<T, PoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.submit(call)?.await
    }

    /// Hands `call` over at once, for whoever does not want to wait for it yet. It never blocks, and needs no runtime.
    ///
    /// # Errors
    /// The pool is full or closed.
    pub fn submit<T, F>(&self, call: F) -> Result<Running<T>, Denied>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let line = &self.handle.0;
        let (answer, outcome) = oneshot::channel();
        let work = Call {
            name: Arc::clone(line.name()),
            caller: Some(Caller::capture(self.carrier.as_deref())),
            call: Some(call),
            outcome: None,
            answer: Some(answer),
        };
        let id = line.enter(Box::new(work))?;
        Ok(Running { outcome, id, line: Some(Arc::clone(line)) })
    }

    /// Everything, at one moment.
    pub fn snapshot(&self) -> PoolSnapshot {
        self.handle.0.snapshot()
    }

    /// Closes: whoever waits and whoever comes is told that it is shut down. Calls that run are finished, and each thread
    /// ends after its own.
    pub fn close(&self) {
        self.handle.0.close();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<F, T> Work for Call<F, T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    fn run(&mut self) -> bool {
        let (Some(caller), Some(call)) = (self.caller.take(), self.call.take()) else { return false };
        // What the call shares with others it has to leave whole, as on any thread of its own.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| caller.run(call)));
        let outcome = outcome.map_err(|payload| PoolError::Panicked {
            pool: Arc::clone(&self.name),
            message: panic_message(&*payload),
        });
        let has_panicked = outcome.is_err();
        self.outcome = Some(outcome);
        has_panicked
    }

    fn deliver(&mut self) {
        if let (Some(answer), Some(outcome)) = (self.answer.take(), self.outcome.take()) {
            // Whoever asked may have gone.
            drop(answer.send(outcome));
        }
    }
}

impl<T> Future for Running<T> {
    type Output = Result<T, PoolError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = std::task::ready!(Pin::new(&mut self.outcome).poll(context));
        let line = self.line.take().expect("a call is not polled after its end");
        // What never ran was cancelled by the close.
        Poll::Ready(outcome.unwrap_or_else(|_| Err(line.shut_down().into())))
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            line.take_back(self.id);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.snapshot()).finish()
    }
}

impl<T> fmt::Debug for Running<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("id", &self.id).finish_non_exhaustive()
    }
}
