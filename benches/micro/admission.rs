//! Admission and release together: the clock, the table of tenants, and a bucket and permits at both levels, beside a tokio
//! semaphore.

use cofferdam_limits::{
    Admission, BucketPolicy, Clock, Demand, Embedded, LevelPolicy, Levels, Limits, Outcome,
};
use cofferdam_model::{Level, Rate, TenantId};

use crate::contest::{Contest, Runner, alone, in_two_threads};
use crate::semaphore;
use crate::tenants::random_tenants;

const N_TENANTS: usize = 1024;

pub(crate) fn contests() -> Vec<Contest> {
    vec![
        contest("uncontended, one tenant", one_tenant(), semaphore::alone(), Some(6.0)),
        contest("uncontended, 1024 tenants", many_tenants(), semaphore::alone(), Some(6.0)),
        contest("two threads, the same tenant", two_threads([0, 0]), semaphore::in_two_threads(), None),
        contest("two threads, different tenants", two_threads([0, 1]), semaphore::in_two_threads(), None),
    ]
}

fn contest(circumstances: &str, ours: Runner, reference: Runner, target: Option<f64>) -> Contest {
    Contest {
        name: format!("admission, {circumstances}"),
        ours,
        reference_name: semaphore::NAME,
        reference,
        target,
    }
}

fn one_tenant() -> Runner {
    let (limits, levels, tenants) = setting();
    alone(move |_| admit_and_release(&limits, &levels, &tenants[0]))
}

fn many_tenants() -> Runner {
    let (limits, levels, tenants) = setting();
    alone(move |run| admit_and_release(&limits, &levels, &tenants[run % N_TENANTS]))
}

fn two_threads(tenant_of_thread: [usize; 2]) -> Runner {
    let (limits, levels, tenants) = setting();
    in_two_threads(move |thread| admit_and_release(&limits, &levels, &tenants[tenant_of_thread[thread]]))
}

fn admit_and_release(limits: &Limits, levels: &Levels, tenant: &TenantId) {
    match limits.admit(&Demand::new(tenant, 1, levels)) {
        Admission::Admitted(permit) => permit.release(Outcome::Success),
        other => panic!("the limits are wider than any bench: {other:?}"),
    }
}

fn setting() -> (Limits, Levels, Box<[TenantId]>) {
    let levels = Levels::new(&[level(Level::Fleet, 50_000, 10_000), level(Level::Tenant, 100, 100)]);
    let limits = Limits::embedded(Embedded::new(Clock::monotonic()));
    (limits, levels.expect("fleet before tenant"), random_tenants(N_TENANTS))
}

/// Ordinary rates, and bursts that no bench uses up: buckets are read and written each time, and never refuse.
fn level(level: Level, per_second: u64, max_in_flight: u32) -> LevelPolicy {
    const BURST: u64 = 1 << 39;
    let rate = Rate::per_second(per_second).expect("a rate within the bounds");
    let bucket = BucketPolicy::new(rate, BURST).expect("2^39 times a period below 2^14 us is exact");
    LevelPolicy { bucket: Some(bucket), max_in_flight: Some(max_in_flight), ..LevelPolicy::unlimited(level) }
}
