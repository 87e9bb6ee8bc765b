//! The limits from outside: the contract, run over every store there is; the slow path; and what happens when the table
//! of tenants is full.

#![allow(clippy::unwrap_used, reason = "a behaviour that cannot go on has failed")]

mod contract;
mod exactness;
mod loans;
mod memory;
mod overflow;
mod recall;
mod redis;
#[path = "../../../../tests/support/redis/container.rs"]
mod redis_container;
#[path = "../../../../tests/support/redis/mod.rs"]
mod redis_server;
mod shared;
mod shared_store;
mod slow_path;
mod stores;
mod subject;

use contract::suite;

suite!(embedded: AtOnce, exact);
suite!(answers_late: Late, exact);
suite!(sometimes_never_answers: SometimesNever, safe);
suite!(redis_exact: RedisExact, exact);
suite!(redis_lease: RedisLease, safe);
