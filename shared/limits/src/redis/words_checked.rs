//! The words under a model checker: every order in which threads can meet at them. What a test says here holds in all of
//! them, not in those that a machine happens to show.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::words::{Atomic, PermitWord, Permits, TokenWord};

impl Atomic for AtomicU64 {
    fn zero() -> Self {
        Self::new(0)
    }

    fn load(&self) -> u64 {
        Self::load(self, Ordering::Acquire)
    }

    fn replace(&self, old: u64, new: u64) -> Result<(), u64> {
        self.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    fn decrement(&self) {
        self.fetch_sub(1, Ordering::AcqRel);
    }
}

type SharedPermits = Arc<PermitWord<AtomicU64>>;
type SharedTokens = Arc<TokenWord<AtomicU64>>;

fn permits(cap: u32) -> SharedPermits {
    let word = PermitWord::new();
    word.set_cap(cap);
    Arc::new(word)
}

fn tokens(n: u32) -> SharedTokens {
    let word = TokenWord::new();
    word.grant(n);
    Arc::new(word)
}

#[test]
fn no_more_permits_are_in_use_than_the_cap() {
    loom::model(|| {
        let word = permits(1);
        let taker = || {
            let word = Arc::clone(&word);
            thread::spawn(move || {
                let is_taken = word.take(10);
                let seen = word.read();
                if is_taken {
                    assert_eq!(seen, Permits { cap: 1, used: 1 });
                    word.release();
                }
            })
        };
        for thread in [taker(), taker()] {
            thread.join().unwrap();
        }
        assert_eq!(word.read(), Permits { cap: 1, used: 0 });
    });
}

#[test]
fn a_release_and_a_new_cap_do_not_lose_each_other() {
    loom::model(|| {
        let word = permits(2);
        assert!(word.take(10) && word.take(10));
        let releaser = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.release())
        };
        word.set_cap(1);
        releaser.join().unwrap();
        assert_eq!(word.read(), Permits { cap: 1, used: 1 });
    });
}

#[test]
fn whoever_binds_itself_is_never_found_with_more() {
    loom::model(|| {
        let word = permits(2);
        let taker = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.take(10))
        };
        let bound = word.bind(0);
        let is_taken = taker.join().unwrap();
        // Whoever came in before is counted in what was said, and nobody comes in behind it.
        assert_eq!(u32::from(is_taken), word.read().used);
        assert!(word.read().used <= bound, "{is_taken} {bound}");
    });
}

#[test]
fn tokens_are_spent_once_or_given_up_once() {
    loom::model(|| {
        let word = tokens(2);
        let taker = || {
            let word = Arc::clone(&word);
            thread::spawn(move || word.take(2).is_some())
        };
        let takers = [taker(), taker()];
        let lost = word.expire();
        let n_taken = takers.map(|thread| thread.join().unwrap()).iter().filter(|taken| **taken).count();
        assert_eq!(2 * n_taken as u32 + lost + word.count(), 2);
    });
}

#[test]
fn what_comes_back_late_is_not_spent_again() {
    loom::model(|| {
        let word = tokens(1);
        let (generation, _) = word.take(1).unwrap();
        let giver = {
            let word = Arc::clone(&word);
            thread::spawn(move || word.give_back(generation, 1))
        };
        // The block ends, and the next one is granted, while somebody gives back what was taken from it.
        let lost = word.expire();
        word.grant(1);
        let counts = giver.join().unwrap();
        assert_eq!((lost, word.count()), (u32::from(counts), 1));
    });
}
