//! Redis in a container: that there is one, and that it is what the limits ask for.

use crate::redis_container::RedisContainer;

#[test]
fn a_redis_in_a_container_is_of_version_7_and_evicts_nothing() {
    let Some(server) = RedisContainer::start("a_redis_in_a_container_is_of_version_7_and_evicts_nothing")
    else {
        return;
    };
    let mut connection = server.connect();
    let told: String = ::redis::cmd("INFO").query(&mut connection).unwrap();
    for line in ["redis_version:7.", "maxmemory_policy:noeviction", "redis_mode:standalone"] {
        assert!(told.lines().any(|told| told.starts_with(line)), "{line} in {told}");
    }
}
