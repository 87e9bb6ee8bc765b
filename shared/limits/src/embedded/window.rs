//! One key's quotas: a counter for each length of window, sliding as previous x (1 - elapsed / window) + current. It knows
//! one key, and no level, table or lock.

use std::time::Duration;

use crate::{WindowPolicy, WindowStanding, Windows};

/// The lengths of window that a key remembers at most: a plan has two, and plans change or share a key.
const MAX_LENGTHS: usize = 8;

/// What a key has counted, by length of window.
#[derive(Clone, Default)]
pub(super) struct Counts(Vec<Window>);

/// The window that now lies in, and the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    /// What it was counted under last.
    policy: WindowPolicy,
    /// Which window it is, counted from 1970.
    index: u64,
    current: u64,
    previous: u64,
}

impl Counts {
    /// The time until `cost` fits every one of `windows`; nothing where it does now.
    pub(super) fn wait(&self, windows: &Windows, cost: u32, now_us: u64) -> Duration {
        let waits = windows.iter().map(|policy| self.at(*policy, now_us).until(cost.into(), now_us));
        waits.max().unwrap_or_default()
    }

    /// Takes `cost` of every window, whether it fits or not.
    pub(super) fn take(&mut self, windows: &Windows, cost: u32, now_us: u64) {
        for policy in windows.iter() {
            let mut window = self.at(*policy, now_us);
            window.current = window.current.saturating_add(cost.into()).min(window.most());
            self.put(window, windows, now_us);
        }
    }

    /// Puts `tokens` back into every window; charges them, where they are below zero.
    pub(super) fn correct(&mut self, tokens: i64) {
        for window in &mut self.0 {
            let most = window.most().max(window.current);
            window.current = window.current.saturating_add_signed(tokens.saturating_neg()).min(most);
        }
    }

    /// The largest cost, up to `cost`, that fits every window now.
    pub(super) fn there(&self, windows: &Windows, cost: u32, now_us: u64) -> u32 {
        let left = windows.iter().map(|policy| self.at(*policy, now_us).standing(now_us).remaining());
        left.fold(cost, |least, left| least.min(u32::try_from(left).unwrap_or(u32::MAX)))
    }

    /// Where the windows stand, in the policy's order.
    pub(super) fn standing(&self, policy: WindowPolicy, now_us: u64) -> WindowStanding {
        self.at(policy, now_us).standing(now_us)
    }

    /// Whether nothing counts any more.
    pub(super) fn is_idle(&self, now_us: u64) -> bool {
        self.0.iter().all(|window| window.rolled(now_us).is_empty())
    }

    fn at(&self, policy: WindowPolicy, now_us: u64) -> Window {
        let known = self.0.iter().find(|window| window.length() == policy.window_s());
        let window = known.copied().unwrap_or_else(|| Window::empty(policy, now_us));
        Window { policy, ..window.rolled(now_us) }
    }

    fn put(&mut self, window: Window, in_use: &Windows, now_us: u64) {
        if let Some(known) = self.0.iter_mut().find(|known| known.length() == window.length()) {
            *known = window;
            return;
        }
        if self.0.len() >= MAX_LENGTHS {
            self.0.retain(|known| !known.rolled(now_us).is_empty());
        }
        let is_old = |known: &Window| in_use.iter().all(|policy| policy.window_s() != known.length());
        if self.0.len() >= MAX_LENGTHS
            && let Some(old) = self.0.iter().position(is_old)
        {
            self.0.remove(old);
        }
        self.0.push(window);
    }
}

impl Window {
    fn empty(policy: WindowPolicy, now_us: u64) -> Self {
        Self { policy, index: index(policy.window_s(), now_us), current: 0, previous: 0 }
    }

    fn length(&self) -> u32 {
        self.policy.window_s()
    }

    fn is_empty(&self) -> bool {
        self.current == 0 && self.previous == 0
    }

    /// The window as it is at `now_us`. Where the clock went back it is kept, and nothing of it passes until then; where that is
    /// further than a count lasts, what was counted counts from now on.
    fn rolled(self, now_us: u64) -> Self {
        let index = index(self.length(), now_us);
        match index.checked_sub(self.index) {
            Some(0) => self,
            Some(1) => Self { index, previous: self.current, current: 0, ..self },
            Some(_) => Self { index, previous: 0, current: 0, ..self },
            None if self.index - index > 2 => Self { index, ..self },
            None => self,
        }
    }

    /// The most that it counts: what is charged beyond the quota goes up to once more as much.
    fn most(&self) -> u64 {
        self.policy.limit().saturating_mul(2)
    }

    fn start_s(&self) -> u64 {
        self.index * u64::from(self.length())
    }

    /// What counts as spent, rounded up.
    fn used(&self, now_us: u64) -> u64 {
        let window_s = u64::from(self.length());
        let elapsed_s = (now_us / 1_000_000).saturating_sub(self.start_s()).min(window_s);
        let weighted = u128::from(self.previous) * u128::from(window_s - elapsed_s);
        // At most what the previous window counted.
        weighted.div_ceil(u128::from(window_s)) as u64 + self.current
    }

    /// The time until `cost` fits, if nobody else takes anything; nothing where it fits now. It is at most the quota.
    fn until(&self, cost: u64, now_us: u64) -> Duration {
        if self.used(now_us).saturating_add(cost) <= self.policy.limit() {
            return Duration::ZERO;
        }
        let free = u128::from(self.policy.limit().saturating_sub(cost));
        let (window_s, current) = (u128::from(self.length()), u128::from(self.current));
        // How far into a window that starts behind `counted` tokens these fit `free`: at its end they are gone.
        let fits = |counted: u128, free: u128| match counted {
            0 => 0,
            counted => window_s - (free * window_s / counted).min(window_s),
        };
        let after_start_s = match free.checked_sub(current) {
            Some(free) => fits(u128::from(self.previous), free),
            None => window_s + fits(current, free),
        };
        let at_us = (u128::from(self.start_s()) + after_start_s) * 1_000_000;
        let wait_us = at_us.saturating_sub(u128::from(now_us));
        Duration::from_micros(u64::try_from(wait_us).unwrap_or(u64::MAX))
    }

    fn standing(&self, now_us: u64) -> WindowStanding {
        let used = self.used(now_us);
        let more = self.policy.limit().saturating_sub(used) + 1;
        let until_one_more = if used == 0 { Duration::ZERO } else { self.until(more, now_us) };
        WindowStanding { policy: self.policy, used, until_one_more }
    }
}

fn index(window_s: u32, now_us: u64) -> u64 {
    now_us / 1_000_000 / u64::from(window_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    /// Ten a minute, and the counts of somebody who spent `n` at `at_s`.
    fn spent(n: u32, at_s: u64) -> (Windows, Counts) {
        let minute = Windows::new(&[WindowPolicy::new(60, 10).unwrap()]).unwrap();
        let mut counts = Counts::default();
        counts.take(&minute, n, at_s * 1_000_000);
        (minute, counts)
    }

    fn wait_s(counts: &Counts, windows: &Windows, cost: u32, at_s: u64) -> u64 {
        let wait = counts.wait(windows, cost, at_s * 1_000_000);
        assert_eq!(wait.subsec_nanos(), 0);
        wait.as_secs()
    }

    #[test]
    fn what_the_last_window_counted_fades_over_this_one() {
        let (minute, counts) = spent(10, 119);
        // One of ten fits when a tenth of the next window has passed.
        assert_eq!(wait_s(&counts, &minute, 1, 119), 7);
        assert_eq!(wait_s(&counts, &minute, 1, 125), 1);
        assert_eq!(wait_s(&counts, &minute, 1, 126), 0);
        assert_eq!(wait_s(&counts, &minute, 10, 119), 61);
        assert_eq!(counts.there(&minute, 10, 150_000_000), 5);
        assert!(!counts.is_idle(179_000_000) && counts.is_idle(180_000_000));
    }

    #[test]
    fn a_wait_is_never_short_and_never_a_second_long() {
        for (spent_before, spent_now, cost) in [(10, 0, 1), (10, 3, 4), (7, 7, 3), (1, 9, 1), (3, 10, 10)] {
            let (minute, mut counts) = spent(spent_before, 119);
            counts.take(&minute, spent_now, 121_000_000);
            let wait = wait_s(&counts, &minute, cost, 121);
            assert_eq!(wait_s(&counts, &minute, cost, 121 + wait), 0, "{spent_before} {spent_now} {cost}");
            if wait > 0 {
                assert_eq!(
                    wait_s(&counts, &minute, cost, 120 + wait),
                    1,
                    "{spent_before} {spent_now} {cost}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_goes_back_keeps_what_was_counted() {
        let (minute, counts) = spent(10, 125);
        assert_eq!(wait_s(&counts, &minute, 1, 119), 61 + 6 - 60 + 60);
        // Further back than a count lasts: it counts from there.
        let (day, mut counts) = (Windows::new(&[WindowPolicy::new(DAY_S, 10).unwrap()]).unwrap(), counts);
        counts.take(&day, 10, 10 * DAY_S * 1_000_000);
        assert_eq!(wait_s(&counts, &day, 1, 5 * DAY_S), DAY_S + DAY_S / 10);
    }

    #[test]
    fn what_is_charged_beyond_the_quota_has_a_bound() {
        let (minute, mut counts) = spent(10, 120);
        counts.correct(-1_000);
        assert_eq!(counts.standing(*minute.iter().next().unwrap(), 120_000_000).used, 20);
        // Half of the next window has to pass until 20 weigh 9 and one more fits.
        assert_eq!(wait_s(&counts, &minute, 1, 120), 60 + 33);
        counts.correct(15);
        assert_eq!(wait_s(&counts, &minute, 5, 120), 0);
    }

    #[test]
    fn a_key_remembers_a_bounded_number_of_lengths() {
        let mut counts = Counts::default();
        for seconds in 1..100 {
            let windows = Windows::new(&[WindowPolicy::new(1_000 + seconds, 10).unwrap()]).unwrap();
            counts.take(&windows, 1, 1_000_000_000);
            assert_eq!(counts.there(&windows, 10, 1_000_000_000), 9);
        }
        assert_eq!(counts.0.len(), MAX_LENGTHS);
    }
}
