//! Who appears most, against exact counts: over streams of every shape, several counters, and windows that turn.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use cofferdam_telemetry::top::{Ranking, Recent};
use proptest::prelude::*;

const WINDOW: Duration = Duration::from_secs(60);

/// Something that is counted: when, by whom, for which key, and what it weighs.
#[derive(Debug, Clone, Copy)]
struct Counted {
    after: Duration,
    counter: usize,
    key: u16,
    weight: u64,
}

/// Keys that are few and many, some of them much heavier than others.
fn counted() -> impl Strategy<Value = Counted> {
    let key = prop_oneof![3 => 0_u16..4, 2 => 0_u16..40, 2 => 0_u16..4000];
    let weight = prop_oneof![4 => Just(1_u64), 1 => 0_u64..20];
    // Mostly at once; sometimes so much later that a window or two pass.
    let after = prop_oneof![60 => Just(0_u64), 3 => 0_u64..40_000, 1 => 40_000_u64..200_000];
    (after, 0_usize..3, key, weight).prop_map(|(after, counter, key, weight)| Counted {
        after: Duration::from_millis(after),
        counter,
        key,
        weight,
    })
}

/// Exact counts of this window and the one before, and how long ago the latter began.
fn exact(stream: &[Counted]) -> (HashMap<u16, u64>, Duration) {
    let index = |at: Duration| at.as_millis() / WINDOW.as_millis();
    let now: Duration = stream.iter().map(|counted| counted.after).sum();
    let (mut exact, mut at) = (HashMap::new(), Duration::ZERO);
    for counted in stream {
        at += counted.after;
        if index(at) + 1 >= index(now) {
            *exact.entry(counted.key).or_default() += counted.weight;
        }
    }
    (exact, now)
}

fn ranked(stream: &[Counted], n_counters: u16) -> Ranking<u16> {
    let mut now = Instant::now();
    let mut counters: Vec<_> = (0..3).map(|_| Recent::new(n_counters, WINDOW, now)).collect();
    for counted in stream {
        now += counted.after;
        counters[counted.counter].add(&counted.key, counted.weight, now);
    }
    counters.iter_mut().for_each(|counter| counter.turn(now));
    Ranking::of(&counters, now)
}

proptest! {
    #[test]
    fn whoever_weighs_more_than_its_share_is_there_and_nobody_is_more_too_high_than_that(
        stream in proptest::collection::vec(counted(), 0..500),
        n_counters in 1_u16..24,
    ) {
        let (exact, now) = exact(&stream);
        let total: u64 = exact.values().sum();
        let share = total / u64::from(n_counters);
        let ranking = ranked(&stream, n_counters);
        prop_assert_eq!(ranking.total, total);
        prop_assert!(ranking.covers <= now && ranking.covers <= 2 * WINDOW);
        for entry in &ranking.entries {
            let weight = exact.get(&entry.key).copied().unwrap_or(0);
            prop_assert!(entry.count >= weight, "{entry:?} weighs {weight}");
            prop_assert!(entry.count - entry.too_high <= weight, "{entry:?} weighs {weight}");
            prop_assert!(entry.too_high <= share, "{entry:?}: {share}");
        }
        for (key, weight) in exact {
            let is_there = ranking.entries.iter().any(|entry| entry.key == key);
            prop_assert!(is_there || weight <= share, "{key} weighs {weight}, more than {share}");
        }
        prop_assert!(ranking.entries.is_sorted_by_key(|entry| std::cmp::Reverse(entry.count)));
    }

    #[test]
    fn with_a_counter_for_every_key_every_count_is_exact(stream in proptest::collection::vec(counted(), 0..300)) {
        let ranking = ranked(&stream, 300);
        let (mut exact, _) = exact(&stream);
        exact.retain(|_, weight| *weight > 0);
        prop_assert_eq!(ranking.entries.len(), exact.len());
        for entry in &ranking.entries {
            prop_assert_eq!((Some(&entry.count), entry.too_high), (exact.get(&entry.key), 0));
        }
    }
}
