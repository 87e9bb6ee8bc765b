//! What an answer of the store has just granted, before anybody else of this process hears of it: those who waited for it take
//! first. What they leave is for everybody.

use std::cell::{Cell, RefCell};

use super::subject::MeterKey;

/// Permits and tokens of one subject.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    /// How many permits may be in use from now on, where that was said.
    cap: Cell<Option<u32>>,
    tokens: RefCell<Vec<(MeterKey, u32)>>,
}

impl Fresh {
    pub(super) fn set_cap(&self, cap: u32) {
        self.cap.set(Some(cap));
    }

    pub(super) fn cap(&self) -> Option<u32> {
        self.cap.get()
    }

    pub(super) fn add(&self, key: MeterKey, n: u32) {
        if n > 0 {
            self.tokens.borrow_mut().push((key, n));
        }
    }

    /// Whether there are `n` tokens of `key`.
    pub(super) fn has(&self, key: MeterKey, n: u32) -> bool {
        let tokens = self.tokens.borrow();
        let all = tokens.iter().filter(|(of, _)| *of == key).map(|(_, n)| u64::from(*n));
        all.sum::<u64>() >= u64::from(n)
    }

    /// Takes `n` tokens of `key`, or none.
    pub(super) fn take(&self, key: MeterKey, n: u32) -> bool {
        self.has(key, n) && self.take_some(key, n) == n
    }

    /// What is left of each.
    pub(super) fn rest(&self) -> Vec<(MeterKey, u32)> {
        self.tokens.take().into_iter().filter(|(_, n)| *n > 0).collect()
    }

    /// Takes as many tokens of `key` as there are, and at most `n`; the result is how many.
    pub(super) fn take_some(&self, key: MeterKey, n: u32) -> u32 {
        let mut taken = 0;
        for (_, left) in self.tokens.borrow_mut().iter_mut().filter(|(of, _)| *of == key) {
            let more = (*left).min(n - taken);
            (*left, taken) = (*left - more, taken + more);
        }
        taken
    }
}
