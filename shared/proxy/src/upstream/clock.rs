//! The clock of a connection: one timer for the deadlines of all its exchanges. It knows no socket.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::time::{Instant, Sleep, sleep_until};

/// Bounds one exchange after the other. A timer that rings too early is left as it is, and set anew when it has rung: to set
/// it for each exchange would cost more than a needless turn of a task now and then.
#[derive(Debug, Default)]
pub(super) struct Clock(Option<Pin<Box<Sleep>>>);

impl Clock {
    /// Ready once `deadline` has passed.
    pub(super) fn poll(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.0.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            ready!(timer.as_mut().poll(cx));
            if timer.deadline() == deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_deadline_is_kept_to_whichever_came_before_it() {
        let mut clock = Clock::default();
        for (patience, rings) in [(5, false), (60, false), (2, true), (30, true), (30, false), (1, true)] {
            let began = Instant::now();
            let deadline = began + Duration::from_secs(patience);
            // An exchange that is answered leaves the clock as it is.
            let most = if rings { Duration::from_secs(100) } else { Duration::from_secs(patience) / 2 };
            let rang = timeout(most, poll_fn(|cx| clock.poll(deadline, cx))).await.is_ok();
            assert_eq!(rang, rings, "{patience} s");
            let took = if rings { Duration::from_secs(patience) } else { most };
            // Timers have a grain of a millisecond.
            assert!(
                began.elapsed() - took <= Duration::from_millis(1),
                "{patience} s: {:?}",
                began.elapsed()
            );
        }
    }
}
