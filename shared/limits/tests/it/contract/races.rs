//! Many threads at once. What is counted here is the callers' own count, beside the store's.

use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam_limits::{LevelPolicy, Levels, Outcome, RouteKey};
use cofferdam_model::Level;

use super::{Fixture, Subject, capped, id, levels, paced};

const N_THREADS: u32 = 4;
/// What each thread has admitted before it stops. A refusal that is remembered takes no time, so steps would say nothing.
const N_ADMITTED: u32 = 100;
const MAX_STEPS: u32 = 10_000_000;
const MAX: u32 = 3;

/// Numbers that look random, the same in every run.
struct Dice(u32);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % sides
    }
}

pub(crate) fn nobody_exceeds_the_limit_and_all_is_back_in_the_end<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 2 * MAX), capped(Level::Tenant, MAX)]);
    let tenants = ["a", "b", "c"];
    let in_flight = [const { AtomicU32::new(0) }; 3];
    std::thread::scope(|scope| {
        for thread in 0..N_THREADS {
            let (in_flight, plan) = (&in_flight, &plan);
            scope.spawn(move || {
                let mut dice = Dice(thread);
                let (mut held, mut n_admitted) = (Vec::new(), 0);
                for _ in 0..MAX_STEPS {
                    if n_admitted == N_ADMITTED {
                        break;
                    }
                    let who = dice.roll(3) as usize;
                    if let Ok(permit) = f.admit(tenants[who], 1, plan) {
                        n_admitted += 1;
                        let now = in_flight[who].fetch_add(1, Ordering::SeqCst) + 1;
                        assert!(now <= MAX * S::N_TRUTHS, "{now} in flight");
                        held.push((who, permit));
                    }
                    if !held.is_empty() && dice.roll(2) == 0 {
                        let (who, permit) = held.swap_remove(dice.roll(held.len() as u32) as usize);
                        in_flight[who].fetch_sub(1, Ordering::SeqCst);
                        match dice.roll(4) {
                            3 => drop(permit),
                            outcome => permit.release(Outcome::ALL[outcome as usize]),
                        }
                    }
                }
                assert_eq!(n_admitted, N_ADMITTED, "there was nothing to race for");
                for (who, _permit) in held {
                    in_flight[who].fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    f.subject.settle();
    for tenant in tenants {
        let policy = LevelPolicy::unlimited(Level::Tenant);
        assert_eq!(f.limits.in_flight(&id(tenant)), 0);
        if let Some(fallback) = f.subject.fallback() {
            assert_eq!(fallback.look(&id(tenant), RouteKey::default(), &policy).in_flight, 0);
        }
    }
    assert_eq!(f.limits.metrics().store.fleet_in_flight, 0);
    if let Some(fallback) = f.subject.fallback() {
        assert_eq!(fallback.metrics().fleet_in_flight, 0);
    }
}

/// Two workers of one process have one limit of 20, not two.
// P14
pub(crate) fn workers_share_one_limit<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[capped(Level::Fleet, 20), capped(Level::Tenant, 20)]);
    let worker = || (0..40).filter_map(|_| f.admit("acme", 1, &plan).ok()).collect::<Vec<_>>();
    let (one, two) = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(worker), scope.spawn(worker));
        (one.join().unwrap(), two.join().unwrap())
    });
    let n_held = (one.len() + two.len()) as u32;
    assert!((20..=20 * S::N_TRUTHS).contains(&n_held), "{n_held} in flight");
}

pub(crate) fn tokens_are_never_spent_twice<S: Subject>(f: &Fixture<S>) {
    let plan = levels(&[paced(Level::Fleet, "1/s", 1_000), paced(Level::Tenant, "1/s", 100)]);
    let spend = |plan: &Levels| (0..60).filter(|_| f.spend("acme", 1, plan).is_ok()).count() as u32;
    let spent: u32 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..N_THREADS).map(|_| scope.spawn(|| spend(&plan))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!((100..=100 * S::N_TRUTHS).contains(&spent), "{spent} spent");
}
