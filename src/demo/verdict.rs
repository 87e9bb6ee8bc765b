//! Who was hurt, by the client's counters, and whether that can be said with confidence. It is told who was expected,
//! and knows nothing of how that was computed.

use std::ops::RangeInclusive;

use cofferdam_model::TenantId;
use tokio::time::Instant;

use super::load::{Success, Tally};

/// What a window showed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// Tenants with success below 0.9.
    pub(crate) hurt: Vec<TenantId>,
    /// Tenants between 0.6 and 0.9, or with no request in the window: neither well nor clearly hurt.
    pub(crate) unclear: Vec<TenantId>,
    /// Success of all tenants that were not expected to be hurt; `None` where there are none.
    pub(crate) others_success: Option<f64>,
    /// How many of all requests were sent late.
    pub(crate) offered: Offered,
}

/// How well the load was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offered {
    /// Requests that were due.
    pub(crate) due: u64,
    /// Those of them that were sent late.
    pub(crate) late: u64,
}

/// How a tenant fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fared {
    Well,
    Unclear,
    Badly,
}

/// Judges each tenant's success within `window`.
pub(crate) fn judge(tallies: &[Tally], window: &RangeInclusive<Instant>, expected: &[TenantId]) -> Verdict {
    let (mut hurt, mut unclear) = (Vec::new(), Vec::new());
    let (mut others, mut offered) = (Success::default(), Offered::default());
    for tally in tallies {
        let success = tally.success(window);
        offered.due += success.scheduled;
        offered.late += success.late;
        let fared = fared(success);
        if fared != Fared::Well {
            hurt.push(tally.tenant);
        }
        if fared == Fared::Unclear {
            unclear.push(tally.tenant);
        }
        if !expected.contains(&tally.tenant) {
            others.succeeded += success.succeeded;
            others.scheduled += success.scheduled;
        }
    }
    // A ratio of equal whole numbers is 1.0 exactly.
    let others_success = (others.scheduled > 0).then(|| others.succeeded as f64 / others.scheduled as f64);
    Verdict { hurt, unclear, others_success, offered }
}

/// In whole numbers, so that 9 of 10 is not below 0.9.
fn fared(success: Success) -> Fared {
    let Success { succeeded, scheduled, .. } = success;
    if scheduled == 0 || (succeeded * 10 >= scheduled * 6 && succeeded * 10 < scheduled * 9) {
        Fared::Unclear
    } else if succeeded * 10 < scheduled * 9 {
        Fared::Badly
    } else {
        Fared::Well
    }
}

impl Offered {
    /// Whether so much was late, one request in a hundred, that what became of the others shows the machine and not the layout.
    pub(crate) fn is_too_late(self) -> bool {
        self.late * 100 > self.due
    }
}

impl Verdict {
    /// Whether the act shows anything: what differs from the computation on a machine that had no time for the load does not.
    pub(crate) fn is_void(&self, expected: &[TenantId]) -> bool {
        self.offered.is_too_late() && !self.faults(expected).is_empty()
    }

    /// Why the act does not show what it should, one reason each; empty where it does.
    pub(crate) fn faults(&self, expected: &[TenantId]) -> Vec<String> {
        let mut faults = Vec::new();
        let unexpected = names(self.hurt.iter().filter(|tenant| !expected.contains(tenant)), ", ");
        if !unexpected.is_empty() {
            faults.push(format!("hurt, and nobody expected it: {unexpected}"));
        }
        let spared = names(expected.iter().filter(|tenant| !self.hurt.contains(tenant)), ", ");
        if !spared.is_empty() {
            faults.push(format!("expected to be hurt, and were not: {spared}"));
        }
        if !self.unclear.is_empty() {
            faults.push(format!("inconclusive, success between 0.6 and 0.9: {}", names(&self.unclear, ", ")));
        }
        if let Some(success) = self.others_success.filter(|success| *success < 1.0) {
            faults.push(format!("everyone else had success {success:.5}, not 1"));
        }
        faults
    }
}

/// Tenants as a list for people.
pub(crate) fn names<'a>(tenants: impl IntoIterator<Item = &'a TenantId>, separator: &str) -> String {
    tenants.into_iter().map(TenantId::as_str).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cofferdam_model::Alphabet;

    use super::*;
    use crate::demo::open_loop::{Answer, Sent};

    fn tenant(id: &str) -> TenantId {
        TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap()
    }

    /// Requests due at 0, 1, 2, ... seconds, the first `succeeded` of which went well.
    fn tally(id: &str, start: Instant, succeeded: u64, scheduled: u64) -> Tally {
        let sent = (0..scheduled).map(|at| Sent {
            scheduled: start + Duration::from_secs(at),
            late: Duration::ZERO,
            answer: if at < succeeded { Answer::Success } else { Answer::Failure },
        });
        Tally { tenant: tenant(id), sent: sent.collect() }
    }

    #[test]
    fn below_nine_in_ten_is_hurt_and_from_six_in_ten_it_is_unclear() {
        let now = Instant::now();
        let window = now..=now + Duration::from_secs(100);
        let tallies =
            [("a", 9), ("b", 8), ("c", 6), ("d", 5), ("e", 10)].map(|(id, n)| tally(id, now, n, 10));
        let verdict = judge(&tallies, &window, &[]);
        assert_eq!(verdict.hurt, ["b", "c", "d"].map(tenant));
        assert_eq!(verdict.unclear, ["b", "c"].map(tenant));
    }

    #[test]
    fn only_what_was_due_in_the_window_counts() {
        let now = Instant::now();
        let at = |second| now + Duration::from_secs(second);
        let success = |window| tally("a", now, 5, 10).success(&window);
        assert_eq!(success(at(0)..=at(4)), Success { succeeded: 5, scheduled: 5, late: 0 });
        assert_eq!(success(at(4)..=at(6)), Success { succeeded: 1, scheduled: 3, late: 0 });
        assert_eq!(judge(&[tally("a", now, 5, 5)], &(at(7)..=at(9)), &[]).unclear, [tenant("a")]);
    }

    #[test]
    fn others_are_those_not_expected_and_one_lost_request_shows() {
        let now = Instant::now();
        let window = now..=now + Duration::from_secs(1000);
        let (bad, other) = (tally("bad", now, 0, 100), tally("other", now, 999, 1000));
        let expected = [tenant("bad")];
        assert_eq!(judge(&[bad], &window, &expected).others_success, None);
        let verdict = judge(&[tally("bad", now, 0, 9), other], &window, &expected);
        assert_eq!(verdict.others_success, Some(0.999));
        assert_eq!(verdict.faults(&expected), ["everyone else had success 0.99900, not 1"]);
        let verdict = judge(&[tally("bad", now, 0, 9), tally("other", now, 9, 9)], &window, &expected);
        assert!(verdict.faults(&expected).is_empty());
    }

    #[test]
    fn what_differs_while_the_load_was_sent_late_shows_nothing_and_what_agrees_does() {
        let now = Instant::now();
        let window = now..=now + Duration::from_secs(1000);
        let verdict = |n_late: usize, succeeded: u64| {
            let mut all = tally("a", now, succeeded, 1000);
            for sent in &mut all.sent[..n_late] {
                sent.late = Duration::from_millis(200);
            }
            judge(&[all], &window, &[])
        };
        assert!(verdict(11, 500).is_void(&[]));
        assert!(!verdict(10, 500).is_void(&[]), "it was offered, and is wrong");
        assert!(!verdict(500, 1000).is_void(&[]), "it was late, and came out all the same");
    }

    #[test]
    fn a_tenant_hurt_or_spared_against_the_computation_is_a_fault() {
        let now = Instant::now();
        let verdict = judge(&[tally("a", now, 0, 9), tally("b", now, 9, 9)], &(now..=now), &[tenant("b")]);
        assert_eq!(
            verdict.faults(&[tenant("b")]),
            [
                "hurt, and nobody expected it: a",
                "expected to be hurt, and were not: b",
                "everyone else had success 0.00000, not 1",
            ]
        );
    }
}
