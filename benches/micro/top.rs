//! Counting an admitted request for its tenant, as a worker does it: under its own lock, once by requests and once by cost.
//! Beside it, a hash map that counts every tenant exactly, under the same lock, and grows with them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cofferdam_model::TenantId;
use cofferdam_telemetry::top::Recent;

use crate::contest::{Contest, alone};
use crate::tenants::random_tenants;

pub(crate) fn contests() -> Vec<Contest> {
    [("64 tenants, each with a counter", 64), ("65,536 tenants, 256 counters", 65_536)].map(contest).into()
}

fn contest((name, n_tenants): (&str, usize)) -> Contest {
    let tenants = random_tenants(n_tenants);
    let (same, began) = (tenants.clone(), Instant::now());
    let recent = || Recent::new(256, Duration::from_secs(60), began);
    let sketches = Mutex::new((recent(), recent()));
    let exact: Mutex<HashMap<TenantId, (u64, u64), foldhash::fast::RandomState>> = Mutex::default();
    Contest {
        name: format!("top tenants, {name}"),
        ours: alone(move |run| {
            let tenant = &tenants[run % n_tenants];
            let mut sketches = sketches.lock().expect("nobody panics with it");
            sketches.0.add(tenant, 1, began);
            sketches.1.add(tenant, 8, began);
        }),
        reference_name: "exact hash map",
        reference: alone(move |run| {
            let mut exact = exact.lock().expect("nobody panics with it");
            let counts = exact.entry(same[run % n_tenants]).or_default();
            *counts = (counts.0 + 1, counts.1 + 8);
        }),
        target: None,
    }
}
