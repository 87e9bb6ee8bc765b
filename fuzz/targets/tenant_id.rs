//! Tenant ids: the first line adds characters to the alphabet, the rest is the id. An id is taken as it is or not at all,
//! and never holds a byte that means something in a store key, a path or a header.

#![no_main]

use cofferdam_model::{Alphabet, MAX_TENANT_ID, TenantId};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let (extra, id) = input.split_at(input.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let id = id.strip_prefix(b"\n").unwrap_or(id);
    let Ok(extra) = std::str::from_utf8(extra) else { return };
    let Ok(alphabet) = Alphabet::with_extra(extra) else { return };
    match TenantId::parse(id, &alphabet) {
        Ok(tenant) => {
            assert_eq!(tenant.as_bytes(), id);
            assert_eq!(tenant.as_str().as_bytes(), id);
            assert!((1..=MAX_TENANT_ID).contains(&id.len()));
            assert!(id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~@+".contains(byte)));
        }
        Err(refused) => {
            let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
            assert!(!(1..=MAX_TENANT_ID).contains(&id.len()) || !id.iter().all(plain), "{refused}");
        }
    }
});
