//! A place in a cell, its class and its tenant's compartment, and its release, beside a tokio semaphore.

use std::hint::black_box;
use std::time::Duration;

use cofferdam_bulkhead::{
    CapKind, CapLayout, CapName, CapsOf, Claim, ClassLayout, Compartments, Layout, TenantShare,
};
use cofferdam_model::{ClassName, TenantId};

use crate::contest::{Contest, Runner, alone, in_two_threads};
use crate::semaphore;
use crate::tenants::random_tenants;

const N_TENANTS: usize = 1024;
/// The class that is asked, of three.
const CLASS: usize = 1;

pub(crate) fn contests() -> Vec<Contest> {
    vec![
        contest("uncontended, one tenant", one_tenant(), semaphore::alone(), Some(4.0)),
        contest("uncontended, 1024 tenants", many_tenants(), semaphore::alone(), Some(4.0)),
        contest("two threads, the same tenant", two_threads([0, 0]), semaphore::in_two_threads(), None),
        contest("two threads, different tenants", two_threads([0, 1]), semaphore::in_two_threads(), None),
    ]
}

fn contest(circumstances: &str, ours: Runner, reference: Runner, target: Option<f64>) -> Contest {
    Contest {
        name: format!("compartment, {circumstances}"),
        ours,
        reference_name: semaphore::NAME,
        reference,
        target,
    }
}

fn one_tenant() -> Runner {
    let (compartments, tenants) = setting();
    alone(move |_| acquire_and_release(&compartments, &tenants[0]))
}

fn many_tenants() -> Runner {
    let (compartments, tenants) = setting();
    alone(move |run| acquire_and_release(&compartments, &tenants[run % N_TENANTS]))
}

fn two_threads(tenant_of_thread: [usize; 2]) -> Runner {
    let (compartments, tenants) = setting();
    in_two_threads(move |thread| acquire_and_release(&compartments, &tenants[tenant_of_thread[thread]]))
}

/// Every level there is: cell, class, tenant, and the caps of a route and its dependency. Nobody else holds a place, which
/// is the dearest case: the tenant is entered and forgotten each time.
fn acquire_and_release(compartments: &Compartments, tenant: &TenantId) {
    let claim = Claim { caps: CapsOf::new(Some(0), Some(1)), ..Claim::new(CLASS, tenant) };
    drop(black_box(compartments.try_claim(&claim).expect("places are left")));
}

fn setting() -> (Compartments, Box<[TenantId]>) {
    let classes = vec![class("checkout", 0, 40), class("search", 1, 20), class("export", 2, 0)];
    let layout =
        Layout::new(200, TenantShare::default(), 65_536, classes).expect("floors that fit into the cell");
    let cap = |kind| CapLayout { name: CapName { kind, name: "a".into() }, limit: 50 };
    let layout = layout.with_caps([CapKind::Route, CapKind::Dependency].map(cap).into());
    (Compartments::new(layout.expect("two caps")), random_tenants(N_TENANTS))
}

fn class(name: &str, priority: u8, floor: u32) -> ClassLayout {
    let name = ClassName::parse(name).expect("a plain name");
    ClassLayout { name, priority, floor, ceiling: 100, queue: 50, max_wait: Duration::from_millis(100) }
}
