//! What a process owes its store of one limit on loan: the sequence of its calls, what was granted in all, and how much is
//! wanted. It does the arithmetic; it takes nothing and sends nothing.

use super::measure::Measure;
#[cfg(test)]
use crate::BucketPolicy;

/// A block is what is spent in so long.
pub(super) const BLOCK_US: u64 = 250_000;
/// What lay idle for so long goes back.
pub(super) const IDLE_US: u64 = 500_000;
/// Where so much may be spared, a block is what is spent in this many usual blocks, so that a tenant that sends now and then
/// seldom asks.
const SPARE_BLOCKS: f32 = 16.0;
/// The time over which the pace of such a tenant is smoothed: it sends nothing for most of the time.
const SPARE_PACE_US: f32 = 2_000_000.0;
/// Permits that are asked for beside those that are needed, where they may be spared.
const SPARE_PERMITS: u32 = 4;

/// What of a limit a process may keep at hand without a need for it: so little that nobody misses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spare {
    /// In tokens or permits.
    pub(super) most: u32,
    /// For how long.
    pub(super) idle_us: u64,
}

/// The account of tokens on loan.
#[derive(Debug, Default)]
pub(super) struct TokenLedger {
    /// What the store grants by; what lies idle is given back under it.
    pub(super) measure: Option<Measure>,
    // What the store granted in all, and what of it went back or ended unspent.
    granted: u64,
    gone: u64,
    // Settled costs that the loan could not cover, less what was given back beside it.
    extra: i64,
    // What of it is on its way to the store.
    telling: i64,
    // What this router's share admitted while the store was away, and the store has not been told of.
    owed: i64,
    pace: Pace,
    /// Where the bucket stood in the store when it last answered.
    pub(super) seen: Option<Seen>,
    /// Whether the store may have an account of this process.
    pub(super) has_account: bool,
}

/// The store's bucket or window as it was last seen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// What is left of a bucket, in 1/P tokens, beside everybody's loans; of a window, what counts as used, loans included.
    pub(super) level: i64,
    pub(super) at_us: u64,
    /// Everybody's loans, in tokens.
    pub(super) outstanding: u64,
}

/// How fast tokens were spent lately.
#[derive(Debug, Default, Clone, Copy)]
struct Pace {
    spent: i64,
    at_us: u64,
    // Tokens in a block, smoothed over the last few looks.
    per_block: f32,
    // The same, smoothed over some seconds.
    steady: f32,
    // When anything was last spent.
    moved_us: u64,
}

/// The account of permits on loan.
#[derive(Debug, Default)]
pub(super) struct PermitLedger {
    /// The limit that was named last, if any was.
    pub(super) limit: Option<u32>,
    /// Whether the store may know of this process.
    pub(super) has_account: bool,
    // The most that were seen in use lately, and when that was.
    peak: u32,
    peak_us: u64,
    // When more were granted, which those they are for may not have come for yet.
    granted_us: u64,
}

impl Spare {
    /// For how long `held` may lie idle before it goes back.
    pub(super) fn idle_us(self, held: u32) -> u64 {
        if held <= self.most { self.idle_us } else { IDLE_US }
    }
}

impl TokenLedger {
    /// What was spent in all, where `count` tokens are left of the loan. Settled costs can make it go back.
    pub(super) fn spent(&self, count: u32) -> i64 {
        (self.granted - self.gone) as i64 - i64::from(count) + self.extra
    }

    /// Notes what the store granted. It is no idle loan before those it is for had time to come for it.
    pub(super) fn grant(&mut self, n: u32, now_us: u64) {
        self.granted += u64::from(n);
        if n > 0 {
            self.pace.moved_us = now_us;
        }
    }

    /// Notes what went back, or ended unspent: it was taken out of the loan already.
    pub(super) fn let_go(&mut self, n: u32) {
        self.gone += u64::from(n);
    }

    /// Notes a cost that the loan did not cover, or, below zero, what is given back beside it.
    pub(super) fn settle(&mut self, extra: i64) {
        self.extra += extra;
    }

    /// Notes what this router's share admitted, or, below zero, what is given back of that.
    pub(super) fn owe(&mut self, n: i64) {
        self.owed += n;
    }

    /// Whether the store has yet to hear of it.
    pub(super) fn is_charged(&self) -> bool {
        self.owed != 0
    }

    /// Takes what the store has to hear of.
    pub(super) fn take_owed(&mut self) -> i64 {
        std::mem::take(&mut self.owed)
    }

    /// Takes the corrections that an exact limit has to tell the store of, which then are told.
    pub(super) fn take_extra(&mut self) -> i64 {
        self.telling += self.extra;
        std::mem::take(&mut self.extra)
    }

    /// The store has answered: what was on its way is in what it says.
    pub(super) fn heard(&mut self) {
        self.telling = 0;
    }

    /// The store has not answered: what was on its way is lost where it `was_sent`, and still to be told where it was not. Of
    /// a loan it has an account in any case.
    pub(super) fn unheard(&mut self, was_sent: bool, is_loan: bool) {
        let telling = std::mem::take(&mut self.telling);
        if !was_sent {
            self.extra += telling;
        }
        self.has_account |= is_loan;
    }

    /// What was spent beside the loan, and the store was not told of, where each request asks; below zero, what comes back.
    pub(super) fn untold(&self) -> i64 {
        self.extra + self.telling + self.owed
    }

    /// Whether there is a correction to tell.
    pub(super) fn owes(&self) -> bool {
        self.extra != 0
    }

    /// Looks at how fast tokens are spent. `true` where nothing was for so long that the loan is idle.
    pub(super) fn look(&mut self, count: u32, spare: Spare, now_us: u64) -> bool {
        let spent = self.spent(count);
        let (moved, elapsed_us) = (spent - self.pace.spent, now_us.saturating_sub(self.pace.at_us));
        if moved > 0 {
            self.pace.moved_us = now_us;
        }
        // Looks in quick succession say nothing about a pace.
        if elapsed_us >= BLOCK_US / 5 {
            let per_block = moved.max(0) as f32 * BLOCK_US as f32 / elapsed_us as f32;
            let fresh = elapsed_us > 4 * BLOCK_US;
            let keep = if fresh { 0.0 } else { 0.5 };
            self.pace.per_block = keep * self.pace.per_block + (1.0 - keep) * per_block;
            let fade = (elapsed_us as f32 / SPARE_PACE_US).min(1.0);
            self.pace.steady += fade * (per_block - self.pace.steady);
            self.pace.spent = spent;
            self.pace.at_us = now_us;
        }
        let is_idle = now_us.saturating_sub(self.pace.moved_us) >= spare.idle_us(count);
        if is_idle {
            (self.pace.per_block, self.pace.steady) = (0.0, 0.0);
        }
        is_idle
    }

    /// How many tokens to ask for, where those that wait need `needed` and `count` are left: what the next block needs, or
    /// what those who wait do.
    pub(super) fn want(&self, needed: u64, count: u32, spare: Spare) -> u32 {
        // Whoever spends less than a token in that time asks when it needs one.
        let block = u64::from(self.block(spare));
        let capacity = self.measure.map_or(u64::MAX, |measure| measure.capacity());
        let want = needed.max(block.min(capacity).saturating_sub(u64::from(count)));
        u32::try_from(want).unwrap_or(u32::MAX)
    }

    /// Whether anything was spent within `idle_us`.
    pub(super) fn is_moving(&self, idle_us: u64, now_us: u64) -> bool {
        self.pace.at_us > 0 && now_us.saturating_sub(self.pace.moved_us) < idle_us
    }

    /// What may be left when the next block is fetched in good time, before anybody finds it low: what is spent in 150 ms, or a
    /// quarter of a block that lasts longer.
    pub(super) fn early(&self, spare: Spare) -> u32 {
        let soon = (self.pace.per_block * 0.6) as u32;
        soon.max(self.block(spare).saturating_sub(self.pace.per_block as u32) / 4)
    }

    /// How many tokens a block has.
    fn block(&self, spare: Spare) -> u32 {
        let steady = (SPARE_BLOCKS * self.pace.steady) as u32;
        (self.pace.per_block as u32).max(steady.min(spare.most))
    }

    /// When to ask for more: at a quarter of a block.
    pub(super) fn low(&self) -> u32 {
        (self.pace.per_block / 4.0) as u32
    }
}

impl PermitLedger {
    /// Looks at what is in use; the result is how many permits are worth keeping.
    pub(super) fn keep(&mut self, used: u32, is_active: bool, spare: Spare, now_us: u64) -> u32 {
        if used >= self.peak || now_us.saturating_sub(self.peak_us) >= IDLE_US {
            (self.peak, self.peak_us) = (used, now_us);
        }
        if now_us.saturating_sub(self.granted_us) < IDLE_US {
            return u32::MAX;
        }
        // A tenant that sends keeps a permit at least: between two looks it may have had many.
        let floor = if is_active { spare.most.max(1) } else { 0 };
        let peak = if self.peak == 0 { 0 } else { self.peak.saturating_add(self.peak / 4 + 1) };
        peak.max(floor)
    }

    /// Notes that more were granted.
    pub(super) fn grant(&mut self, now_us: u64) {
        self.granted_us = now_us;
    }

    /// How many permits more to ask for, where so many wait: a quarter of those in use beside them.
    pub(super) fn want(&self, waiting: u32, used: u32, spare: Spare) -> u32 {
        let more = (used / 4).max(SPARE_PERMITS.min(spare.most));
        if waiting == 0 { 0 } else { waiting.saturating_add(more) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Spare = Spare { most: 0, idle_us: 2_000_000 };

    fn ledger() -> TokenLedger {
        let policy = BucketPolicy::new("1000/s".parse().unwrap(), 2000).unwrap();
        TokenLedger { measure: Some(Measure::Bucket(policy)), ..TokenLedger::default() }
    }

    #[test]
    fn what_is_spent_is_what_was_granted_and_is_neither_left_nor_gone() {
        let mut ledger = ledger();
        ledger.grant(10, 0);
        assert_eq!(ledger.spent(4), 6);
        ledger.let_go(4);
        assert_eq!(ledger.spent(0), 6, "what went back was not spent");
        ledger.settle(3);
        assert_eq!(ledger.spent(0), 9);
    }

    #[test]
    fn what_the_store_cannot_have_heard_is_told_again_and_what_it_may_have_is_not() {
        for (was_sent, told_again) in [(true, 0), (false, 3)] {
            let mut ledger = ledger();
            ledger.settle(3);
            assert_eq!((ledger.take_extra(), ledger.untold()), (3, 3));
            ledger.unheard(was_sent, false);
            assert_eq!((ledger.take_extra(), ledger.has_account), (told_again, false));
            // What came back to a loan may not have reached the store, which then has an account still.
            ledger.unheard(was_sent, true);
            assert!(ledger.has_account);
        }
    }

    #[test]
    fn a_block_is_what_is_spent_in_a_quarter_of_a_second() {
        let mut ledger = ledger();
        assert_eq!(ledger.want(1, 0, NONE), 1, "nothing is known of a pace yet");
        ledger.grant(1_000, 0);
        for (count, at_us) in
            [(1000, 100_000), (900, 200_000), (800, 300_000), (700, 400_000), (600, 500_000)]
        {
            assert!(!ledger.look(count, NONE, at_us));
        }
        let want = ledger.want(1, 0, NONE);
        assert!((230..=250).contains(&want), "100 in 100 ms: {want}");
        assert!(ledger.look(600, NONE, 1_100_000), "idle for 600 ms");
    }

    #[test]
    fn who_sends_now_and_then_keeps_a_little_at_hand_for_longer() {
        let (mut ledger, spare) = (ledger(), Spare { most: 60, idle_us: 2_000_000 });
        ledger.grant(60, 0);
        // Four a second, looked at ten times a second.
        let (mut count, mut now_us) = (60, 0);
        for n in 0..60 {
            now_us += 100_000;
            count -= u32::from(n % 5 == 0 || n % 5 == 2);
            assert!(!ledger.look(count, spare, now_us));
        }
        let want = ledger.want(0, 0, spare);
        assert!((10..=24).contains(&want), "four seconds of four a second: {want}");
        assert!(ledger.want(0, 0, NONE) <= 2, "a quarter of a second of it");
        assert!((1..=5).contains(&ledger.early(spare)), "a quarter of it: {}", ledger.early(spare));
        assert!(!ledger.look(count, spare, now_us + 1_000_000), "so little is missed by nobody");
        assert!(ledger.look(count, spare, now_us + 2_300_000));
        assert_eq!(ledger.want(0, 0, spare), 0, "and then nothing is wanted");
    }

    #[test]
    fn permits_that_may_be_spared_stay_with_who_sends() {
        let (mut ledger, spare) = (PermitLedger::default(), Spare { most: 3, idle_us: 2_000_000 });
        assert_eq!((ledger.want(1, 0, NONE), ledger.want(1, 0, spare), ledger.want(1, 20, spare)), (1, 4, 6));
        let later = 10 * IDLE_US;
        assert_eq!(ledger.keep(0, true, spare, later), 3);
        assert_eq!(ledger.keep(0, true, NONE, later), 1);
        assert_eq!(ledger.keep(0, false, spare, later), 0);
        assert_eq!(ledger.keep(8, true, spare, later), 11, "what is in use needs more");
    }
}
