//! Two routers, one tenant, a steady rate: how many calls an admission costs, and how much of the bucket is had.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cofferdam_limits::{Admission, BucketPolicy, Demand, LevelPolicy, Levels, Limits, Outcome};
use cofferdam_model::{Alphabet, Level, TenantId};

use crate::server::Server;

const WARM: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);
/// Requests that come together: a thread does not wake for each.
const EVERY: Duration = Duration::from_millis(2);

pub(crate) struct Steady {
    /// Calls of the store for an admission, of both routers.
    pub(crate) calls_for_each: f64,
    /// What was admitted of what one exact bucket would have, which is empty from the start on.
    pub(crate) admitted_share: f64,
}

/// Offers `offered` requests a second, half to each router, to one tenant whose limit is `rate` a second.
pub(crate) fn measure(server: &Server, rate: u64, offered: u64) -> Steady {
    let routers = ["one", "two"].map(|name| server.router(&format!("{name}x{rate}x{offered}")));
    let bucket = BucketPolicy::new(format!("{rate}/s").parse().unwrap(), rate).unwrap();
    let tenant = LevelPolicy {
        bucket: Some(bucket),
        max_in_flight: Some(1000),
        ..LevelPolicy::unlimited(Level::Tenant)
    };
    let plan = Arc::new(Levels::new(&[tenant]).unwrap());
    let id = TenantId::parse(format!("t{rate}x{offered}").as_bytes(), &Alphabet::default()).unwrap();
    let admitted: Arc<[AtomicU64; 2]> = Arc::default();
    let begun = Instant::now();
    let threads: Vec<_> = routers
        .iter()
        .enumerate()
        .map(|(n, router)| {
            let (limits, plan, admitted) = (router.limits.clone(), Arc::clone(&plan), Arc::clone(&admitted));
            std::thread::spawn(move || offer(&limits, &plan, id, offered / 2, begun, &admitted[n]))
        })
        .collect();
    let count = || -> (u64, u64) {
        let calls = routers.iter().map(|router| router.store.sharing().link.calls).sum();
        (calls, admitted.iter().map(|n| n.load(Ordering::Relaxed)).sum())
    };
    std::thread::sleep(WARM);
    let before = count();
    std::thread::sleep(MEASURED);
    let after = count();
    for thread in threads {
        thread.join().unwrap();
    }
    let (calls, n) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
    let possible = (rate.min(offered) as f64) * MEASURED.as_secs_f64();
    Steady { calls_for_each: calls / n, admitted_share: n / possible }
}

fn offer(limits: &Limits, plan: &Levels, id: TenantId, rate: u64, begun: Instant, admitted: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut sent = 0;
    while begun.elapsed() < WARM + MEASURED {
        let due = (begun.elapsed().as_secs_f64() * rate as f64) as u64;
        while sent < due {
            sent += 1;
            let permit = match limits.admit(&Demand::new(&id, 1, plan)) {
                Admission::Admitted(permit) => Some(permit),
                Admission::Refused(_) => None,
                Admission::Pending(pending) => runtime.block_on(pending).ok(),
            };
            if let Some(permit) = permit {
                permit.release(Outcome::Success);
                admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::sleep(EVERY);
    }
}
