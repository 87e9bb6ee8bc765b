//! Quotas: how much in a long time, by sliding windows.

use std::num::NonZeroU32;

use super::bounds::{MAX_WINDOW_S, MAX_WINDOWS, max_quota};
use super::error::PolicyError;

/// At most `limit` tokens in `window_s` seconds, counted as previous x (1 - elapsed / window) + current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowPolicy {
    window_s: NonZeroU32,
    // Invariant: at least 1, and twice the limit x the window is at most 2^53.
    limit: u64,
}

/// The windows of one level: at most [`MAX_WINDOWS`], each of its own length, in the order in which they were given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Windows([Option<WindowPolicy>; MAX_WINDOWS]);

impl WindowPolicy {
    /// A window of `window_s` whole seconds, at most [`MAX_WINDOW_S`], in which at most `limit` tokens are spent, at least 1
    /// and at most [`max_quota`].
    pub fn new(window_s: u64, limit: u64) -> Result<Self, PolicyError> {
        let seconds = u32::try_from(window_s).ok().filter(|seconds| *seconds <= MAX_WINDOW_S);
        let seconds = seconds.and_then(NonZeroU32::new).ok_or(PolicyError::WindowLength(window_s))?;
        if limit == 0 || limit > max_quota(seconds.get()) {
            return Err(PolicyError::QuotaSize { limit, window_s: seconds.get() });
        }
        Ok(Self { window_s: seconds, limit })
    }

    /// How long the window is, in seconds.
    pub fn window_s(&self) -> u32 {
        self.window_s.get()
    }

    /// How many tokens it lets go: the quota.
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl Windows {
    /// No quota.
    pub const NONE: Self = Self([None; MAX_WINDOWS]);

    /// Checks that there are at most [`MAX_WINDOWS`], and no two of one length.
    pub fn new(policies: &[WindowPolicy]) -> Result<Self, PolicyError> {
        let mut windows = Self::NONE;
        let twice =
            |at: usize| policies[..at].iter().any(|earlier| earlier.window_s == policies[at].window_s);
        if policies.len() > MAX_WINDOWS || (0..policies.len()).any(twice) {
            return Err(PolicyError::WindowCount(policies.len()));
        }
        for (place, policy) in windows.0.iter_mut().zip(policies) {
            *place = Some(*policy);
        }
        Ok(windows)
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// The windows, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &WindowPolicy> {
        self.0.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_of_some_time_and_its_quota_exact() {
        for (window_s, limit) in [(1, 1), (86_400, 10_000_000), (2_592_000, 200_000_000), (31_622_400, 1)] {
            let window = WindowPolicy::new(window_s, limit).unwrap();
            assert_eq!((u64::from(window.window_s()), window.limit()), (window_s, limit));
        }
        for window_s in [0, 31_622_401, u64::MAX] {
            assert_eq!(WindowPolicy::new(window_s, 1), Err(PolicyError::WindowLength(window_s)));
        }
        let most = max_quota(86_400);
        assert!(WindowPolicy::new(86_400, most).is_ok());
        for limit in [0, most + 1, u64::MAX] {
            let error = PolicyError::QuotaSize { limit, window_s: 86_400 };
            assert_eq!(WindowPolicy::new(86_400, limit), Err(error));
        }
    }

    #[test]
    fn a_level_has_at_most_two_windows_of_different_lengths() {
        let [day, month] = [86_400, 2_592_000].map(|window_s| WindowPolicy::new(window_s, 5).unwrap());
        assert_eq!(Windows::new(&[day, month]).unwrap().iter().collect::<Vec<_>>(), [&day, &month]);
        assert_eq!(Windows::new(&[]), Ok(Windows::NONE));
        assert_eq!(Windows::new(&[day, day]), Err(PolicyError::WindowCount(2)));
        assert_eq!(Windows::new(&[day, month, day]), Err(PolicyError::WindowCount(3)));
    }
}
