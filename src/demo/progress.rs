//! The progress bar: on standard error, and only where that is a terminal. It knows how long acts take, roughly.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;
use tokio::time::interval;

const STEP: Duration = Duration::from_millis(100);

/// A bar that walks through the acts, and never passes the end of the current one. Dropping it takes it away.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    about: u64,
    end: Arc<AtomicU64>,
    _walk: JoinSet<()>,
}

impl Progress {
    /// A bar over `n_acts` acts of `about` each.
    pub(crate) fn start(n_acts: usize, about: Duration) -> Self {
        let steps = (about.as_millis() / STEP.as_millis()) as u64;
        let bar = ProgressBar::new(steps * n_acts as u64);
        let style = ProgressStyle::with_template("{msg}\n[{bar:50}] {percent}%, {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        let end = Arc::new(AtomicU64::new(0));
        let mut walk = JoinSet::new();
        walk.spawn(advance(bar.clone(), Arc::clone(&end)));
        Self { bar, about: steps, end, _walk: walk }
    }

    /// Says that an act begins, counted from 0.
    pub(crate) fn begin(&self, act: usize, message: String) {
        self.bar.set_message(message);
        self.bar.set_position(act as u64 * self.about);
        self.end.store((act as u64 + 1) * self.about, Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

async fn advance(bar: ProgressBar, end: Arc<AtomicU64>) {
    let mut steps = interval(STEP);
    loop {
        steps.tick().await;
        if bar.position() < end.load(Ordering::Relaxed) {
            bar.inc(1);
        }
    }
}
