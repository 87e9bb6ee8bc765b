//! What crosses over to the thread that runs a call: the caller's span, its subscriber, and what else it carries.

use std::any::Any;

use tracing::dispatcher::{self, Dispatch};
use tracing::{Instrument, Span, instrument::WithSubscriber};

/// Captures on the caller's thread, and returns what makes it hold on another.
pub(crate) type Carrier = dyn Fn() -> Enter + Send + Sync;

/// Makes what was captured hold until the result is dropped.
pub(crate) type Enter = Box<dyn FnOnce() -> Box<dyn Any> + Send>;

/// Who made a call, as far as its work must know.
pub(crate) struct Caller {
    span: Span,
    subscriber: Dispatch,
    enter: Option<Enter>,
}

impl Caller {
    /// What holds on this thread, now.
    pub(crate) fn capture(carrier: Option<&Carrier>) -> Self {
        let subscriber = dispatcher::get_default(Dispatch::clone);
        Self { span: Span::current(), subscriber, enter: carrier.map(|capture| capture()) }
    }

    /// Runs `call` as if on the caller's thread.
    pub(crate) fn run<T>(self, call: impl FnOnce() -> T) -> T {
        dispatcher::with_default(&self.subscriber, || {
            let _held = self.enter.map(|enter| enter());
            self.span.in_scope(call)
        })
    }

    /// The same for a future, wherever it is polled.
    pub(crate) fn follow<F: Future>(self, call: F) -> impl Future<Output = F::Output> {
        call.instrument(self.span).with_subscriber(self.subscriber)
    }
}
