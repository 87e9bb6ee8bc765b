//! When a cell goes down and comes back, and how its share grows then, with injected time.

use super::*;

const RULES: HealthRules = HealthRules { fall: 2, rise: 2, slow_start: Duration::from_secs(10) };

fn health(probed: bool) -> (Health, Instant) {
    let health = Health::new(probed, Arc::new(Rules::new(RULES)));
    let born = health.born;
    (health, born)
}

fn ms(start: Instant, ms: u64) -> Instant {
    start + Duration::from_millis(ms)
}

#[test]
fn a_failed_connect_is_believed_until_an_answer_or_its_expiry() {
    let (health, now) = health(false);
    assert!(health.is_up(now));
    assert!(health.note_fault(now));
    assert!(!health.note_fault(now));
    assert!(!health.is_up(ms(now, 1900)));
    assert!(health.is_up(ms(now, 2100)));
    let (health, now) = self::health(false);
    assert!(health.note_fault(now) && health.note_answer(|| now));
    assert!(health.is_up(now));
    assert!(!health.note_answer(|| now), "a change is told once");
}

#[test]
fn probes_count_in_a_row_and_only_as_many_as_the_rules_say_change_the_belief() {
    let (health, now) = health(true);
    assert!(!health.note_probe(false, now));
    assert!(!health.note_probe(true, now) && !health.note_probe(false, now), "they are not in a row");
    assert!(health.note_probe(false, now));
    assert!(!health.note_probe(false, now), "a change is told once");
    assert!(!health.is_up(now + Duration::from_secs(3600)));
    assert!(!health.note_probe(true, now) && !health.note_probe(false, now) && !health.note_probe(true, now));
    assert!(!health.is_up(now));
    assert!(health.note_probe(true, now));
    assert!(health.is_up(now));
    health.rules.change(HealthRules { fall: 1, rise: 1, ..RULES });
    assert!(health.note_probe(false, now));
    assert!(health.note_probe(true, ms(now, 1000)));
}

#[test]
fn a_cell_that_keeps_going_down_changes_less_and_less_often() {
    for probed in [true, false] {
        let (health, now) = health(probed);
        let (mut n_changes, mut last) = (0, Vec::new());
        // Ten questions a second for five minutes: a kept connection answers, and each new one is refused.
        for at in (0..300_000).step_by(100) {
            let now = ms(now, at);
            let falls = health.is_up(now) && health.note_fault(now);
            let rises = health.note_answer(|| now) || (probed && health.note_probe(true, now));
            n_changes += u32::from(falls) + u32::from(rises);
            if falls {
                last.push(at);
            }
        }
        assert!(n_changes <= 30, "{n_changes} changes, at {last:?}");
        let apart = last.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!((32_000..40_000).contains(&apart), "{last:?}");
    }
}

#[test]
fn a_cell_that_stayed_up_for_long_is_believed_at_once_again() {
    let (health, now) = health(true);
    for minute in 0..5 {
        let now = now + Duration::from_secs(60 * minute);
        assert!(health.note_fault(now), "{minute}");
        assert!(health.note_answer(|| now), "{minute}");
    }
}

#[test]
fn a_probe_is_not_enough_where_a_connect_failed_and_is_where_probes_did() {
    let (health, now) = health(true);
    assert!(health.note_fault(now) && health.is_down_by_connect());
    assert!(!health.note_probe(true, now) && health.note_probe(true, now));
    assert!(!health.is_down_by_connect());
    let later = now + Duration::from_secs(100);
    assert!(!health.note_probe(false, later) && health.note_probe(false, later));
    assert!(!health.is_down_by_connect());
}

#[test]
fn the_share_of_a_cell_that_returned_grows_from_a_tenth_to_all_within_the_slow_start() {
    let (health, now) = health(true);
    assert!(!health.is_returning(now), "one that was never down has all");
    assert!(health.note_fault(now) && health.note_answer(|| now));
    // A thousand requests in each of eleven seconds.
    let taken = |second: u64| {
        let at = |n: u64| ms(now, second * 1000 + n);
        (0..1000).filter(|n| !health.is_held_back(at(*n))).count()
    };
    let counted: Vec<_> = (0..11).map(taken).collect();
    for (second, &taken) in counted.iter().enumerate() {
        // What the share is on average within the second.
        let wanted = match second {
            0 => 100,
            10 => 1000,
            second => second * 100 + 50,
        };
        assert!(taken.abs_diff(wanted) <= 5, "second {second}: {taken} of 1000, {counted:?}");
    }
    assert!(!health.is_returning(ms(now, 10_000)));
    health.rules.change(HealthRules { slow_start: Duration::ZERO, ..RULES });
    let later = now + Duration::from_secs(100);
    assert!(health.note_fault(later) && health.note_answer(|| later) && !health.is_returning(later));
}

#[test]
fn every_third_request_of_a_returning_cell_has_the_same_share_as_all() {
    let (health, now) = health(true);
    assert!(health.note_fault(now) && health.note_answer(|| now));
    let at = ms(now, 5_000);
    let taken: Vec<_> = (0..3000).map(|_| !health.is_held_back(at)).collect();
    for stride in [1, 2, 3, 5, 8] {
        let taken = taken.iter().step_by(stride).filter(|taken| **taken).count() * stride;
        assert!(taken.abs_diff(1500) <= 60, "every {stride}th: {taken} of 3000");
    }
}
