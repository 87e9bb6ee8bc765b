//! Layouts at random, and the names in them.

use std::sync::LazyLock;
use std::time::Duration;

use cofferdam_model::{Alphabet, ClassName, TenantId};
use rand::RngExt;
use rand::rngs::StdRng;

use super::model::{N_SHARED, N_TENANTS};
use crate::caps::{CapKind, CapLayout, CapName};
use crate::layout::{ClassLayout, Layout, TenantShare};
use crate::tenants::Tenants;

pub(super) const N_CLASSES: usize = 4;

/// More names than are needed to find some for each shared compartment.
static NAMES: LazyLock<Vec<TenantId>> = LazyLock::new(|| {
    let name = |n| TenantId::parse(format!("t{n}").as_bytes(), &Alphabet::default()).unwrap();
    (0..10_000).map(name).collect()
});

/// Tenants of which each, where it finds no room in the table, has the shared compartment of its number's remainder. The table
/// hashes names by a seed of its own, so the names that do so are looked for.
pub(super) fn tenants(table: &Tenants) -> Vec<TenantId> {
    let mut names = NAMES.iter();
    let mut next = |shared| *names.find(|name| table.shared_by(name) == shared).unwrap();
    (0..N_TENANTS).map(|tenant| next(tenant % N_SHARED)).collect()
}

pub(super) fn class_name(number: usize) -> ClassName {
    ClassName::parse(&format!("c{number}")).unwrap()
}

/// A random layout of at least one class, with both caps or none.
pub(super) fn layout(random: &mut StdRng) -> Layout {
    let max = random.random_range(6..11);
    let mut classes = Vec::new();
    for number in 0..N_CLASSES {
        if random.random_bool(0.8) || (number == N_CLASSES - 1 && classes.is_empty()) {
            let floor = random.random_range(0..2);
            classes.push(ClassLayout {
                name: class_name(number),
                priority: random.random_range(0..3),
                floor,
                ceiling: (floor + random.random_range(1..5)).min(max),
                queue: random.random_range(0..6),
                max_wait: Duration::from_secs(1),
            });
        }
    }
    let share = [250, 500, 1000][random.random_range(0..3)];
    let max_tenants = [1, 2, 4, 100][random.random_range(0..4)];
    let layout =
        Layout::new(max, TenantShare::from_thousandths(share).unwrap(), max_tenants, classes).unwrap();
    let cap = |kind, limit| CapLayout { name: CapName { kind, name: "a".into() }, limit };
    let caps = if random.random_bool(0.8) {
        let (route, dependency) = (random.random_range(1..8), random.random_range(1..8));
        vec![cap(CapKind::Route, route), cap(CapKind::Dependency, dependency)]
    } else {
        Vec::new()
    };
    layout.with_caps(caps).unwrap()
}
