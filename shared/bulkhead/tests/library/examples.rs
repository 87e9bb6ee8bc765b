//! Every example prints the numbers that it is about, line for line.

#[expect(dead_code, reason = "an example's own way in")]
#[path = "../../examples/bulkhead_and_rates.rs"]
mod bulkhead_and_rates;
#[expect(dead_code, reason = "an example's own way in")]
#[path = "../../examples/semaphores_and_tenants.rs"]
mod semaphores_and_tenants;
#[expect(dead_code, reason = "an example's own way in")]
#[path = "../../examples/the_pattern.rs"]
mod the_pattern;
#[expect(dead_code, reason = "an example's own way in")]
#[path = "../../examples/two_pools.rs"]
mod two_pools;

#[test]
fn compartments_keep_a_hung_dependency_the_size_of_its_own() {
    // P1, P2, P3, P6, P9, P12, P14
    const PRINTED: &str = "\
10 calls in a second, in flight:
  healthy   0.1 s each:   1
  hung     30.0 s each: 300

One pool of 12 for all, and recommendations hang:
  catalog:   0 of 50 served
  payments:  0 of 50 served

Compartments of 5, 5 and 2, and recommendations hang:
  the third call, after 0 ms: bulkhead recommendations is full: 2 of 2 places in use, 0 of 0 queued
  catalog:  50 of 50 served
  payments: 50 of 50 served

Calls that come at random, four in flight on average:
  5 places refuse 19.9 of 100
  1 of 100 takes 10 places

The same 12 places with floors of 5, 5 and 0 and ceilings of 12, 12 and 2:
  catalog in a burst has 7: what is idle is lent, and 5 are kept
  payments still has 5
  recommendations has 2 in an idle cell

40 places, of which a tenant may have a quarter:
  a noisy one has 10, another 10

A limit of 2, on 20 instances:
  the dependency has 40 at once
";
    assert_eq!(the_pattern::report().unwrap(), PRINTED);
}

#[test]
fn a_pool_for_each_dependency_keeps_a_slow_one_from_the_healthy_one() {
    // P27, P28, P29, P30, P31
    const PRINTED: &str = "\
One pool of 2 threads and a queue of 2 for both:
  inventory  calls  1, served  0, refused  1
    bulkhead shared is full: 2 of 2 places in use, 2 of 2 queued
  payment    calls  4, served  4, refused  0

A pool of 2 threads and a queue of 2 for each:
  inventory  calls  3, served  3, refused  0
  payment    calls 10, served  4, refused  6
    bulkhead payment is full: 2 of 2 places in use, 2 of 2 queued

A pool of 2 threads without a queue:
  payment    calls  3, served  2, refused  1
    bulkhead payment is full: 2 of 2 places in use, 0 of 0 queued

A pool of 1 thread that is closed while one call runs and one waits:
  running    approved
  queued     bulkhead payment is shut down
  later      bulkhead payment is shut down
  0 counted as refused
";
    assert_eq!(two_pools::report().unwrap(), PRINTED);
}

#[test]
fn limits_breakers_and_plans_hold_by_name() {
    // P33, P35, P36, P37, P38, P39
    const PRINTED: &str = "\
Limits by name:
  payment           10 at once, by payment
  user              50 at once, by user
  product          100 at once, by product
  shipping          20 at once, by default
  no-such-service   20 at once, by default

Sizes, with 1.3 for headroom:
  payment       10/s of 2000 ms:  26 places
  search       100/s of  500 ms:  65 places
  cache       1000/s of   10 ms:  13 places

15 slow calls of 5 s on 10 places, and 20 fast ones of 10 ms on 50 others:
  slow: 10 at work and 5 waiting
  fast: 20 of 20 served, after 10 ms
  slow: 15 of 15 served, after 10 s

A dependency that fails, behind a breaker:
  after 5 failures it is left alone for 30 s
  then 1 of 20 calls tries it
  it answers, and 20 of 20 pass

Tenants by plan; acme and tiny call 1,000 times at once:
  acme, enterprise: 100 of 1000 served
  tiny, free:       10 of 1000 served
  middle, pro:      40 of 40 served
  acme         100 at once
  middle        50 at once
  tiny          10 at once
  who-is-this   10 at once
  and-this      10 at once
";
    assert_eq!(semaphores_and_tenants::report().unwrap(), PRINTED);
}

#[test]
fn capped_reports_leave_the_checkout_its_four_thousand_a_second() {
    // P40, P41, P42, P46
    const PRINTED: &str = "\
300 who want reports of 5 s and 80 who check out in 20 ms, for 10 s:
  200 places for both              reports 40/s, checkout    0/s
  40 for reports, 80 for checkout  reports  8/s, checkout 4000/s

A tenant with a burst of 100 and 20/s:
  at once 100
  a second later 20
  a second later 20
  /health           costs  1: 100 at once
  /v1/orders        costs  2:  50 at once
  /v1/search        costs  8:  12 at once
  search unindexed  costs 16:   6 at once
";
    assert_eq!(bulkhead_and_rates::report().unwrap(), PRINTED);
}
