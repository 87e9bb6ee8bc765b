//! What a process holds of one limit on loan from the store: permits or tokens, until when, and what was said when it was
//! last refused. It knows no store and no other limit; what the store has to be told of it is in `ledger.rs`.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::contest::Contest;
use super::words::{PermitWord, Permits, TokenWord};

/// Permits on loan.
#[derive(Debug)]
pub(super) struct PermitLease {
    word: PermitWord,
    /// When the loan ends unless it is renewed, in microseconds of the store's clock.
    ends_us: AtomicU64,
    /// No use asking before this time: everything was in use elsewhere.
    ask_at_us: AtomicU64,
    /// Whether a permit that is given back goes to the store at once, since others have few.
    is_exact: AtomicBool,
    pub(super) contest: Contest,
}

/// Tokens on loan.
#[derive(Debug)]
pub(super) struct TokenLease {
    word: TokenWord,
    ends_us: AtomicU64,
    /// More is asked for where no more than this is left.
    low: AtomicU32,
    refused: Refused,
    pub(super) contest: Contest,
}

/// What the store said when it last refused tokens: refusing again needs no call.
#[derive(Debug, Default)]
struct Refused {
    /// The cost that was refused. A smaller one may pass.
    cost: AtomicU32,
    /// When that was said. A clock that went back makes it void.
    told_us: AtomicU64,
    /// When that cost would pass.
    until_us: AtomicU64,
    /// When it is worth asking again, which may be sooner: others give back.
    ask_at_us: AtomicU64,
}

/// What memory has to say of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Have {
    /// There is enough.
    Enough,
    /// It is refused for so many microseconds.
    RefusedFor(u64),
    /// The store has to be asked.
    Ask,
}

impl PermitLease {
    pub(super) fn new() -> Self {
        Self {
            word: PermitWord::new(),
            ends_us: AtomicU64::new(0),
            ask_at_us: AtomicU64::new(0),
            is_exact: AtomicBool::new(false),
            contest: Contest::default(),
        }
    }

    /// Takes a permit of the loan, where `limit` is what binds now: a lowered one holds at once.
    #[inline]
    pub(super) fn take(&self, limit: u32, now_us: u64) -> bool {
        if !self.word.take(limit) {
            return false;
        }
        // The end is looked at behind the taking: a thread that slept in between takes nothing of a loan that ended.
        if now_us < self.ends_us.load(Ordering::Acquire) {
            return true;
        }
        self.word.release();
        false
    }

    /// Takes a permit while fewer than `bound` are in use, loan or not.
    pub(super) fn take_below(&self, bound: u32) -> bool {
        self.word.take_below(bound)
    }

    #[inline]
    pub(super) fn release(&self) {
        self.word.release();
        self.forget_refusal();
    }

    /// Forgets that all was in use: there is one to be had again.
    #[inline]
    pub(super) fn forget_refusal(&self) {
        if self.ask_at_us.load(Ordering::Relaxed) != 0 {
            self.ask_at_us.store(0, Ordering::Relaxed);
        }
    }

    /// What the loan is worth at `now_us`: its cap, or nothing once it has ended.
    pub(super) fn worth(&self, now_us: u64) -> u32 {
        if now_us < self.ends_us.load(Ordering::Acquire) { self.word.read().cap } else { 0 }
    }

    pub(super) fn read(&self) -> Permits {
        self.word.read()
    }

    /// Binds the process to `target` or what is in use, before it says so to the store; a loan that ended is worth what is
    /// in use.
    pub(super) fn bind(&self, target: u32, now_us: u64) -> u32 {
        self.word.bind(if self.has_ended(now_us) { 0 } else { target })
    }

    /// Takes over what the store granted, until `ends_us`.
    pub(super) fn renew(&self, cap: u32, ends_us: u64) {
        // The end goes first: a cap that is raised before its end is known would be good for nothing anyway.
        self.ends_us.store(ends_us, Ordering::Release);
        self.word.set_cap(cap);
    }

    pub(super) fn has_ended(&self, now_us: u64) -> bool {
        now_us >= self.ends_us.load(Ordering::Acquire)
    }

    /// Says whether each request asks for its permit.
    pub(super) fn set_exact(&self, is_exact: bool) {
        // Before what is in use is read: whoever gives a permit back after that sees it.
        self.is_exact.swap(is_exact, Ordering::SeqCst);
    }

    /// Whether permits that nobody uses here are to go back at once.
    #[inline]
    pub(super) fn is_surplus_wanted(&self) -> bool {
        self.is_exact.load(Ordering::SeqCst)
    }

    /// Whether the store said lately that all is in use elsewhere.
    pub(super) fn is_refused(&self, now_us: u64) -> bool {
        now_us < self.ask_at_us.load(Ordering::Relaxed)
    }

    pub(super) fn refuse_until(&self, ask_at_us: u64) {
        self.ask_at_us.store(ask_at_us, Ordering::Relaxed);
    }
}

impl TokenLease {
    pub(super) fn new() -> Self {
        Self {
            word: TokenWord::new(),
            ends_us: AtomicU64::new(0),
            low: AtomicU32::new(0),
            refused: Refused::default(),
            contest: Contest::default(),
        }
    }

    /// Takes `cost` tokens of the loan; the result is how many are left.
    #[inline]
    pub(super) fn take(&self, cost: u32, now_us: u64) -> Option<u32> {
        let (generation, left) = self.word.take(cost)?;
        // The end is looked at behind the taking: a thread that slept in between takes nothing of a loan that ended.
        if now_us < self.ends_us.load(Ordering::Acquire) {
            return Some(left);
        }
        self.word.give_back(generation, cost);
        None
    }

    /// What [`TokenLease::take`] would say; takes nothing.
    #[inline]
    pub(super) fn look(&self, cost: u32, now_us: u64) -> bool {
        self.word.count() >= cost && !self.has_ended(now_us)
    }

    /// What the store said of `cost` that still holds.
    pub(super) fn refusal(&self, cost: u32, now_us: u64) -> Have {
        let Refused { cost: refused, told_us, until_us, ask_at_us } = &self.refused;
        let is_over = now_us >= ask_at_us.load(Ordering::Acquire) || now_us < told_us.load(Ordering::Relaxed);
        if is_over || cost < refused.load(Ordering::Relaxed) {
            return Have::Ask;
        }
        Have::RefusedFor(until_us.load(Ordering::Relaxed).saturating_sub(now_us))
    }

    /// Whether so little is left that more should be on its way, and may be had.
    #[inline]
    pub(super) fn is_low(&self, left: u32, now_us: u64) -> bool {
        let low = self.low.load(Ordering::Relaxed);
        low > 0 && left <= low && !self.is_refused(now_us)
    }

    /// Takes as many tokens of the loan as there are, and at most `n`; the result is how many.
    pub(super) fn take_some(&self, n: u32, now_us: u64) -> u32 {
        let (generation, taken) = self.word.take_up_to(n);
        if now_us < self.ends_us.load(Ordering::Acquire) {
            return taken;
        }
        self.word.give_back(generation, taken);
        0
    }

    /// Takes as many as there are, and at most `n`, whether the loan has ended or not: to account for them.
    pub(super) fn take_up_to(&self, n: u32) -> u32 {
        self.word.take_up_to(n).1
    }

    pub(super) fn count(&self) -> u32 {
        self.word.count()
    }

    pub(super) fn has_ended(&self, now_us: u64) -> bool {
        now_us >= self.ends_us.load(Ordering::Acquire)
    }

    /// Ends the loan; the result is how many tokens were not spent.
    pub(super) fn expire(&self) -> u32 {
        self.word.expire()
    }

    /// Takes over what the store granted, until `ends_us`; `low` is when to ask for more.
    pub(super) fn renew(&self, granted: u32, low: u32, ends_us: u64) {
        self.ends_us.store(ends_us, Ordering::Release);
        self.low.store(low, Ordering::Relaxed);
        self.word.grant(granted);
    }

    /// Remembers that `cost` was refused at `now_us` until `until_us`, and that asking before `ask_at_us` is no use.
    pub(super) fn refuse(&self, cost: u32, now_us: u64, until_us: u64, ask_at_us: u64) {
        self.refused.cost.store(cost, Ordering::Relaxed);
        self.refused.told_us.store(now_us, Ordering::Relaxed);
        self.refused.until_us.store(until_us, Ordering::Relaxed);
        self.refused.ask_at_us.store(ask_at_us, Ordering::Release);
    }

    /// Forgets what was refused: something has changed.
    pub(super) fn forget_refusal(&self) {
        self.refused.ask_at_us.store(0, Ordering::Release);
    }

    /// Whether a refusal is remembered.
    pub(super) fn is_refused(&self, now_us: u64) -> bool {
        now_us < self.refused.ask_at_us.load(Ordering::Relaxed)
    }
}
