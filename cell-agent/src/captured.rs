//! What a test's own thread logs. It asserts nothing.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::subscriber::{DefaultGuard, NoSubscriber};
use tracing::{Dispatch, Subscriber};

/// A subscriber that hears what its own thread logs, until this is dropped.
pub(crate) struct Hearing {
    _own: DefaultGuard,
    _other: Dispatch,
}

/// Has `subscriber` hear this thread. While there is one subscriber in all, tracing lets the thread that meets a span or an
/// event first decide for every thread, and the thread of another test has nobody to listen: with a second one, each is
/// asked.
pub(crate) fn hear(subscriber: impl Subscriber + Send + Sync + 'static) -> Hearing {
    let _own = tracing::subscriber::set_default(subscriber);
    Hearing { _own, _other: Dispatch::new(NoSubscriber::new()) }
}

/// The log so far.
#[derive(Clone, Default)]
pub(crate) struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    /// Captures from now on, until the guard is dropped.
    pub(crate) fn start() -> (Self, Hearing) {
        let captured = Self::default();
        let writer = captured.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (captured, hear(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
