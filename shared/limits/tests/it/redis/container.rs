//! Redis in a container: that it is what the limits ask for, and that the contract holds over it.

use crate::contract::*;
use crate::redis_container::RedisContainer;
use crate::shared_store::within;
use crate::stores::RedisInContainer;

#[test]
fn the_contract_holds_over_a_redis_in_a_container() {
    let Some(server) = RedisContainer::start("the_contract_holds_over_a_redis_in_a_container") else {
        return;
    };
    let mut connection = server.connect();
    let told: String = ::redis::cmd("INFO").query(&mut connection).unwrap();
    for line in ["redis_version:7.", "maxmemory_policy:noeviction", "redis_mode:standalone"] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line} in {told}");
    }
    within(server, || {
        suite!(@brief run RedisInContainer);
    });
}
