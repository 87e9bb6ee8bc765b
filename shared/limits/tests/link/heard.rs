//! What a test's own thread logs. It asserts nothing.

use std::io;
use std::sync::{Arc, Mutex};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

/// Everything that this thread logs, from now on until it is dropped.
pub(crate) struct Heard {
    text: Text,
    _own: DefaultGuard,
    // With a second subscriber tracing asks each thread's own, instead of the first one's for all.
    _other: Dispatch,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl Heard {
    pub(crate) fn start() -> Self {
        let text = Text::default();
        let writer = text.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
        let subscriber = subscriber.with_writer(move || writer.clone()).finish();
        let _own = tracing::subscriber::set_default(subscriber);
        Self { text, _own, _other: Dispatch::new(NoSubscriber::new()) }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.text.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
