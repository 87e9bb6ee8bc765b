//! Where a limit comes to, and what the latency without load is measured by.

use super::*;

const POLICY: AdaptivePolicy = AdaptivePolicy {
    floor: 4,
    ceiling: 200,
    tolerance: 1.5,
    samples: 20,
    step: Duration::from_millis(100),
    probe_every: Duration::from_secs(30),
};

/// A backend that works on `capacity` at once, each for 10 ms, and lets the others wait; driven for so many steps with
/// `demand` in flight at most. The result is the limit in the end.
fn drive(limit: &mut AdaptiveLimit, now: &mut Instant, capacity: u32, demand: u32, steps: u32) -> u32 {
    for _ in 0..steps {
        limit.give_up_probe(*now);
        *now += Duration::from_millis(110);
        let in_flight = limit.limit().min(demand).max(1);
        let waits = f64::from(in_flight.max(capacity)) / f64::from(capacity);
        let latency = Duration::from_secs_f64(0.01 * waits);
        for _ in 0..20 {
            limit.sample(latency, in_flight, *now);
        }
        *now += Duration::from_millis(110);
        limit.sample(latency, in_flight, *now);
    }
    limit.state().limit
}

#[test]
fn it_finds_what_the_backend_can_do_and_follows_it() {
    // P22
    let mut now = Instant::now();
    let mut limit = AdaptiveLimit::new(POLICY, 20);
    let found = drive(&mut limit, &mut now, 40, 500, 100);
    assert!((50..=80).contains(&found), "half as long again is tolerated: {found}");
    let slower = drive(&mut limit, &mut now, 10, 500, 100);
    assert!((10..=25).contains(&slower), "{slower}");
    let again = drive(&mut limit, &mut now, 40, 500, 200);
    assert!((50..=80).contains(&again), "{again}");
}

#[test]
fn it_does_not_grow_while_less_than_half_is_used() {
    let mut now = Instant::now();
    let mut limit = AdaptiveLimit::new(POLICY, 20);
    assert_eq!(drive(&mut limit, &mut now, 40, 9, 100), 20);
    let used = drive(&mut limit, &mut now, 40, 15, 100);
    assert!((28..=32).contains(&used), "until half of it is: {used}");
}

#[test]
fn the_latency_without_load_is_measured_with_a_quarter_even_below_the_floor() {
    let mut now = Instant::now();
    let mut limit = AdaptiveLimit::new(AdaptivePolicy { floor: 10, ..POLICY }, 12);
    assert_eq!((limit.limit(), limit.state().is_probing), (3, true));
    drive(&mut limit, &mut now, 2, 500, 20);
    assert_eq!((limit.limit(), limit.state().is_probing), (10, false), "at its floor");
    now += Duration::from_secs(30);
    drive(&mut limit, &mut now, 2, 500, 1);
    assert_eq!((limit.limit(), limit.state().is_probing), (2, true));
}

#[test]
fn a_probe_measures_only_who_came_after_it_began_and_ends_where_nobody_comes() {
    let start = Instant::now();
    let ms = |ms| start + Duration::from_millis(ms);
    let mut limit = AdaptiveLimit::new(POLICY, 40);
    assert!(!limit.give_up_probe(start), "the first comes");
    // Sent before, and among more than a probe lets in.
    for _ in 0..40 {
        limit.sample(Duration::from_millis(300), 5, ms(200));
        limit.sample(Duration::from_millis(50), 30, ms(200));
    }
    assert!(limit.state().is_probing);
    assert!(!limit.give_up_probe(ms(1_999)) && limit.give_up_probe(ms(2_000)));
    assert_eq!((limit.limit(), limit.state().unloaded), (40, Duration::ZERO));
}

#[test]
fn a_first_probe_waits_for_the_first_request_however_late_that_comes() {
    let mut limit = AdaptiveLimit::new(POLICY, 100);
    let mut now = Instant::now() + Duration::from_secs(10);
    // Ten times what the backend can do, from the first moment on.
    let found = drive(&mut limit, &mut now, 10, 500, 100);
    assert_eq!(limit.state().unloaded, Duration::from_millis(25), "of a quarter");
    assert!((25..=60).contains(&found), "{found}");
}

#[test]
fn what_is_measured_under_load_is_never_taken_for_the_latency_without() {
    let mut limit = AdaptiveLimit::new(POLICY, 100);
    let mut now = Instant::now();
    // A stream came first, and nobody whose latency says anything.
    assert!(!limit.give_up_probe(now) && limit.give_up_probe(now + Duration::from_secs(2)));
    now += Duration::from_secs(10);
    drive(&mut limit, &mut now, 10, 500, 1);
    assert_eq!((limit.state().unloaded, limit.state().is_probing), (Duration::ZERO, true));
    // Others are held by streams, which are more than the probe lets in.
    let busy = |limit: &mut AdaptiveLimit, now: &mut Instant, seconds: u32| {
        for _ in 0..10 * seconds {
            *now += Duration::from_millis(100);
            limit.give_up_probe(*now);
            (0..20).for_each(|_| limit.sample(Duration::from_millis(100), 60, *now));
        }
        (limit.limit(), limit.state().unloaded)
    };
    assert_eq!(
        busy(&mut limit, &mut now, 25),
        (100, Duration::ZERO),
        "it stays, and is not measured anew yet"
    );
    assert_eq!(busy(&mut limit, &mut now, 8).0, 25, "half a minute later it is");
    let found = drive(&mut limit, &mut now, 10, 500, 100);
    assert!((25..=60).contains(&found), "{found}");
}

#[test]
fn a_probe_of_a_slow_backend_lasts_for_longer_and_takes_what_it_has() {
    let (mut limit, start) = (AdaptiveLimit::new(POLICY, 8), Instant::now());
    let at = |seconds| start + Duration::from_secs(seconds);
    let five = Duration::from_secs(5);
    assert!(!limit.give_up_probe(start) && limit.give_up_probe(at(2)), "nobody can have been heard of");
    for n in 0..20 {
        limit.sample(five, 8, at(6) + Duration::from_millis(10 * n));
    }
    assert!(limit.state().is_probing);
    limit.sample(Duration::from_secs(3), 2, at(10));
    assert!(!limit.give_up_probe(at(21)) && limit.give_up_probe(at(22)), "three times as long as an answer");
    assert_eq!(limit.state().unloaded, Duration::from_secs(3));
}

#[test]
fn a_moment_of_quick_answers_does_not_make_the_usual_ones_slow() {
    let mut now = Instant::now();
    let mut limit = AdaptiveLimit::new(POLICY, 40);
    drive(&mut limit, &mut now, 40, 30, 5);
    for _ in 0..21 {
        limit.sample(Duration::from_micros(100), 30, now);
    }
    now += Duration::from_millis(110);
    limit.sample(Duration::from_micros(100), 30, now);
    drive(&mut limit, &mut now, 40, 30, 20);
    assert!(limit.limit() >= 40, "{}", limit.limit());
}

#[test]
fn it_stays_within_its_bounds_and_holds_bounded_samples() {
    let mut now = Instant::now();
    let mut limit = AdaptiveLimit::new(POLICY, 1_000_000);
    assert!(limit.limit() <= 200);
    assert_eq!(drive(&mut limit, &mut now, 10_000, 10_000, 300), 200);
    assert_eq!(drive(&mut limit, &mut now, 1, 10_000, 300), 4);
    for _ in 0..10_000 {
        limit.sample(Duration::from_millis(1), 1, now);
    }
    assert!(limit.step.latencies.len() <= 320);
}

#[test]
fn one_slow_caller_among_others_lowers_no_limit_however_many_its_samples() {
    let policy = AdaptivePolicy { ceiling: 200, ..AdaptivePolicy::default() };
    for others in [1, 5] {
        let mut limit = AdaptiveLimit::new(policy, 100);
        let mut now = Instant::now();
        for _ in 0..400 {
            now += Duration::from_millis(10);
            let in_flight = limit.limit();
            for other in 0..others {
                limit.sample_of(10 + other, Duration::from_millis(10), in_flight, now);
            }
            for _ in 0..10 {
                limit.sample_of(1, Duration::from_secs(1), in_flight, now);
            }
        }
        assert!(limit.steady() >= 100, "{others} others: {}", limit.steady());
    }
}
