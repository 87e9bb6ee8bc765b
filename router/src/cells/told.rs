//! What a cell's agent says of itself beside its load, for operators alone: drills that go on, and breakers that are open. No
//! request is sent elsewhere because of it.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a word counts: an agent that is probed says it anew much sooner.
const COUNTS_FOR: Duration = Duration::from_secs(10);

/// The most words of a kind that are kept: an agent has 16 drills at once, and a breaker for each dependency.
const MAX_WORDS: usize = 64;

/// The longest word that is kept, in characters: the names of a class and of a dependency, and what happens to them.
const MAX_CHARACTERS: usize = 256;

/// What one agent said last.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Option<(Instant, Words)>>);

/// Its words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Words {
    /// Drills, such as `hang for class search`.
    pub(crate) drills: Vec<String>,
    /// Breakers that are not closed, by what they guard: `backend`, or `dependency payments`.
    pub(crate) open_breakers: Vec<String>,
}

impl Told {
    /// Takes note of what the agent says at `now`.
    pub(super) fn keep(&self, drills: &[String], open_breakers: &[String], now: Instant) {
        let bounded = |words: &[String]| -> Vec<String> {
            words.iter().take(MAX_WORDS).map(|word| word.chars().take(MAX_CHARACTERS).collect()).collect()
        };
        let words = Words { drills: bounded(drills), open_breakers: bounded(open_breakers) };
        *self.0.lock() = Some((now, words));
    }

    /// What it said lately; nothing where that is long ago.
    pub(crate) fn lately(&self, now: Instant) -> Words {
        let told = self.0.lock();
        let counts = |at: Instant| now.saturating_duration_since(at) <= COUNTS_FOR;
        told.as_ref().filter(|(at, _)| counts(*at)).map(|(_, words)| words.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_counts_for_a_while_and_is_bounded() {
        let (told, now) = (Told::default(), Instant::now());
        assert_eq!(told.lately(now), Words::default());
        told.keep(&["x".repeat(1000)], &vec!["backend".to_owned(); 100], now);
        let words = told.lately(now + COUNTS_FOR);
        assert_eq!((words.drills[0].len(), words.open_breakers.len()), (MAX_CHARACTERS, MAX_WORDS));
        assert_eq!(told.lately(now + COUNTS_FOR + Duration::from_millis(1)), Words::default());
    }
}
