//! Tenant ids as they come: of many lengths, in no order. The same ones in every run.

use cofferdam_model::{Alphabet, TenantId};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// `count` different ids, a power of two, so that a run's number is one instruction away from its id.
pub(crate) fn random_tenants(count: usize) -> Box<[TenantId]> {
    assert!(count.is_power_of_two());
    let mut random = StdRng::seed_from_u64(42);
    (0..count).map(|number| random_tenant(number, &mut random)).collect()
}

/// An id of 8 to 36 characters: from a short name to a UUID.
fn random_tenant(number: usize, random: &mut StdRng) -> TenantId {
    let length = random.random_range(8..=36);
    let mut text = format!("{number:x}-");
    while text.len() < length {
        text.push(char::from_digit(random.random_range(0..36), 36).expect("36 digits in base 36"));
    }
    TenantId::parse(text.as_bytes(), &Alphabet::default()).expect("digits and letters are a tenant id")
}
