//! Many tenants within a minute, each with one request: what they take up in Redis and in the router, and that nothing is left
//! of them afterwards.

use std::time::{Duration, Instant};

use cofferdam_limits::{Admission, BucketPolicy, Demand, LevelPolicy, Levels, Outcome};
use cofferdam_model::{Alphabet, Level, TenantId};

use crate::server::Server;

const N_TENANTS: u64 = 100_000;
const WITHIN: Duration = Duration::from_secs(60);
const AFTER: Duration = Duration::from_secs(20);

/// Bytes are for each of all the tenants.
pub(crate) struct Memory {
    pub(crate) n_tenants: u64,
    pub(crate) redis: f64,
    pub(crate) router: f64,
    pub(crate) redis_later: f64,
    pub(crate) tenants_later: usize,
    pub(crate) errors: u64,
}

pub(crate) fn measure(server: &Server) -> Memory {
    let router = server.router("memory");
    let bucket = BucketPolicy::new("20/s".parse().unwrap(), 100).unwrap();
    let tenant = LevelPolicy {
        bucket: Some(bucket),
        max_in_flight: Some(10),
        ..LevelPolicy::unlimited(Level::Tenant)
    };
    let plan = Levels::new(&[tenant]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (redis, own) = (server.used_memory(), resident());
    let (mut redis_most, mut own_most, mut errors) = (redis, own, 0);
    let begun = Instant::now();
    for n in 0..N_TENANTS {
        let due = WITHIN.mul_f64(n as f64 / N_TENANTS as f64);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let id = TenantId::parse(format!("tenant-{n:08}").as_bytes(), &Alphabet::default()).unwrap();
        let permit = match router.limits.admit(&Demand::new(&id, 1, &plan)) {
            Admission::Admitted(permit) => Some(permit),
            Admission::Refused(_) => None,
            Admission::Pending(pending) => runtime.block_on(pending).ok(),
        };
        match permit {
            Some(permit) => permit.release(Outcome::Success),
            None => errors += 1,
        }
        if n % 5_000 == 4_999 {
            redis_most = redis_most.max(server.used_memory());
            own_most = own_most.max(resident());
        }
    }
    std::thread::sleep(AFTER);
    let each = |most: u64, before: u64| most.saturating_sub(before) as f64 / N_TENANTS as f64;
    let engine = router.limits.metrics();
    Memory {
        n_tenants: N_TENANTS,
        redis: each(redis_most, redis),
        router: each(own_most, own),
        redis_later: each(server.used_memory(), redis),
        tenants_later: engine.store.tenants,
        errors: errors + engine.store_errors + engine.store_timeouts,
    }
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() * 1024
}
