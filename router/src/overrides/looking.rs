//! When the store is looked at. What is looked for is not known here.

use std::future::Future;
use std::time::Duration;

/// How often the store is asked whether anything changed; and how soon again where it did not answer.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Looks for ever, and soon again where that fails.
pub(super) async fn again_and_again<L: Future<Output = bool>>(mut look: impl FnMut() -> L) {
    loop {
        let is_well = look().await;
        tokio::time::sleep(if is_well { LOOK_EVERY } else { LOOK_AGAIN }).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::Instant;

    use super::*;

    // So a change is in force everywhere within a second where calls are answered: it is seen by the first look that begins behind
    // it, which is this far away at most, behind the one that is out; and a call takes no longer than the link's timeout.
    #[tokio::test(start_paused = true)]
    async fn whatever_comes_of_looks_the_next_one_begins_half_a_second_after_the_one_before_at_the_latest() {
        let (n, ended, longest) = (Cell::new(0_u32), Cell::new(Instant::now()), Cell::new(Duration::ZERO));
        let looks = again_and_again(|| async {
            longest.set(longest.get().max(ended.get().elapsed()));
            n.set(n.get() + 1);
            // One in three fails, as late as a call can be.
            tokio::time::sleep(Duration::from_millis(250)).await;
            ended.set(Instant::now());
            !n.get().is_multiple_of(3)
        });
        let _ = tokio::time::timeout(Duration::from_secs(60), looks).await;
        assert!(n.get() > 60 && longest.get() <= Duration::from_millis(501), "{n:?} {longest:?}");
    }
}
