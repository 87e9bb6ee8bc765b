//! The contract of a limit store: every behaviour that the engine promises its callers, run over any store. A store
//! brings a [`Subject`]; `suite!` makes one test of each behaviour, or runs them one after the other.
//!
//! Exact behaviours hold where one store is the only truth. Safe ones hold even where it sometimes never answers, and
//! what it falls back to decides beside it.

pub(crate) mod bucket;
pub(crate) mod change;
pub(crate) mod concurrency;
pub(crate) mod levels;
pub(crate) mod quotas;
pub(crate) mod races;
pub(crate) mod routes;
pub(crate) mod settled;
pub(crate) mod shadow;
pub(crate) mod shape;

use std::time::Duration;

use cofferdam_limits::{
    Admission, BucketPolicy, Demand, LevelPolicy, Levels, Limits, Outcome, Permit, Refusal, RouteKey,
    Standing, Wait,
};
use cofferdam_model::{Alphabet, Level, Limited, TenantId};

pub(crate) use crate::subject::{START_US, Subject};

/// An engine over a subject.
pub(crate) struct Fixture<S> {
    pub(crate) subject: S,
    pub(crate) limits: Limits,
}

impl<S: Subject> Fixture<S> {
    pub(crate) fn new() -> Self {
        let subject = S::new();
        // Nothing is ever this late, unless it never comes; then the paused clock of the runtime jumps.
        let limits = Limits::new(subject.store(), Duration::from_secs(600));
        Self { subject, limits }
    }

    /// Moves the clock to `us` after the start; before it, where that is negative.
    pub(crate) fn at(&self, us: i64) {
        self.subject.set_us(START_US.checked_add_signed(us).unwrap());
    }

    /// Decides one demand, however long the store takes.
    pub(crate) fn admit(&self, tenant: &str, cost: u32, levels: &Levels) -> Result<Permit, Refusal> {
        self.admit_on(RouteKey::default(), tenant, cost, levels)
    }

    /// The same on a route.
    pub(crate) fn admit_on(
        &self,
        route: RouteKey,
        tenant: &str,
        cost: u32,
        levels: &Levels,
    ) -> Result<Permit, Refusal> {
        match self.limits.admit(&Demand { route, ..Demand::new(&id(tenant), cost, levels) }) {
            Admission::Admitted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
            Admission::Pending(pending) => runtime(S::N_TRUTHS > 1).block_on(pending),
        }
    }

    /// Decides one demand, ends what it admitted as a success, and says where the tenant stood.
    pub(crate) fn spend(&self, tenant: &str, cost: u32, levels: &Levels) -> Result<Standing, Refusal> {
        let permit = self.admit(tenant, cost, levels)?;
        let standing = permit.standing().clone();
        permit.release(Outcome::Success);
        Ok(standing)
    }

    /// Tokens that are left to `tenant`.
    pub(crate) fn remaining(&self, tenant: &str, levels: &Levels) -> u64 {
        self.spend(tenant, 0, levels).unwrap().bucket.unwrap().remaining()
    }

    /// Spends `n` tokens of `tenant`, one by one.
    pub(crate) fn drain(&self, tenant: &str, n: u32, levels: &Levels) {
        for _ in 0..n {
            self.spend(tenant, 1, levels).unwrap();
        }
    }
}

/// A runtime for one thread. A paused one jumps to the end of the budget as soon as nothing else is left to do.
pub(crate) fn runtime(paused: bool) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(paused).build().unwrap()
}

pub(crate) fn id(tenant: &str) -> TenantId {
    TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap()
}

pub(crate) fn bucket(rate: &str, capacity: u64) -> BucketPolicy {
    BucketPolicy::new(rate.parse().unwrap(), capacity).unwrap()
}

/// One level with a bucket.
pub(crate) fn paced(level: Level, rate: &str, capacity: u64) -> LevelPolicy {
    LevelPolicy { bucket: Some(bucket(rate, capacity)), ..LevelPolicy::unlimited(level) }
}

/// One level with a number of permits.
pub(crate) fn capped(level: Level, max_in_flight: u32) -> LevelPolicy {
    LevelPolicy { max_in_flight: Some(max_in_flight), ..LevelPolicy::unlimited(level) }
}

pub(crate) fn levels(policies: &[LevelPolicy]) -> Levels {
    Levels::new(policies).unwrap()
}

/// The tenant level alone, with a bucket.
pub(crate) fn tenant_bucket(rate: &str, capacity: u64) -> Levels {
    levels(&[paced(Level::Tenant, rate, capacity)])
}

/// The wait of a refusal by a bucket, in microseconds.
#[track_caller]
pub(crate) fn wait_us<T: std::fmt::Debug>(decision: Result<T, Refusal>) -> u128 {
    match decision.unwrap_err() {
        Refusal { limited: Limited::Rate, wait: Wait::Until(wait), .. } => wait.as_micros(),
        other => panic!("not a wait for tokens: {other:?}"),
    }
}

macro_rules! suite {
    ($name:ident: $subject:ident, $kind:ident) => {
        mod $name {
            use crate::contract::*;
            use crate::stores::$subject;
            suite!(@$kind tests $subject);
        }
    };
    (@exact $how:ident $subject:ident) => {
        suite!(@$how $subject, bucket: seven_a_minute_is_seven_a_minute,
            no_window_admits_more_than_capacity_and_rate);
        suite!(@brief $how $subject);
    };
    // Without those that ask many thousand times.
    (@brief $how:ident $subject:ident) => {
        suite!(@$how $subject, bucket: eleven_at_once_ten_pass_and_the_wait_is_exact,
            a_cost_above_the_capacity_is_refused_for_good, a_cost_of_zero_only_looks,
            a_clock_that_goes_back_keeps_the_level, a_third_of_a_second_is_rounded_up,
            a_burst_of_100_then_20_a_second, weighted_costs_are_charged, a_denial_changes_nothing,
            only_an_ignored_request_gets_its_tokens_back);
        suite!(@$how $subject, change: a_lowered_capacity_clamps_and_a_raised_one_gives_nothing,
            a_full_bucket_is_the_same_as_none, a_change_of_units_is_rounded_down,
            a_lowered_number_of_permits_drains, a_raised_number_of_permits_counts_what_is_in_flight);
        suite!(@$how $subject, concurrency: permits_are_taken_and_given_back, a_dropped_permit_is_released,
            a_permit_is_released_from_another_thread, a_cost_of_zero_takes_a_permit, no_permits_admit_nothing,
            in_flight_is_rate_times_time, tenants_do_not_share);
        suite!(@$how $subject, levels: the_strictest_level_is_named, never_is_stricter_than_any_wait,
            among_equals_the_narrowest_is_named, a_refusal_at_one_level_takes_nothing_at_the_other,
            the_fleets_limit_is_one_for_all_tenants, one_level_alone_is_enough,
            metrics_count_by_level_and_kind);
        suite!(@$how $subject, routes: a_routes_limit_counts_the_tenants_requests_whatever_they_cost,
            of_three_levels_all_are_taken_or_none, the_strictest_of_three_levels_is_named,
            an_ignored_request_does_not_count_on_its_route);
        suite!(@$how $subject, quotas: nothing_is_spent_twice_at_the_edge_of_a_window,
            a_day_and_a_month_have_quotas_of_their_own, a_wait_for_a_quota_is_exact,
            a_quota_and_a_bucket_are_taken_together, a_cost_above_a_quota_is_refused_for_good,
            an_ignored_request_gets_its_quota_back, a_changed_quota_counts_what_was_spent);
        suite!(@$how $subject, shape: a_burst_leaves_evenly_and_the_line_has_an_end,
            in_a_second_no_more_go_on_than_the_rate, nobody_waits_longer_than_the_line_says,
            all_tenants_of_a_route_stand_in_one_line, without_a_line_who_comes_early_is_refused,
            a_refusal_elsewhere_takes_no_turn, who_goes_away_before_its_turn_has_spent_nothing);
        suite!(@$how $subject, shadow: a_shadowed_bucket_lets_everything_pass_and_counts_it,
            shadowed_permits_are_counted_all_the_same, a_shadow_at_one_level_leaves_the_others_as_strict,
            a_shadowed_quota_and_route_let_everything_pass);
        suite!(@$how $subject, settled: the_difference_is_given_back_or_charged,
            a_level_goes_below_zero_down_to_minus_one_burst,
            what_flowed_in_before_a_charge_is_no_more_than_fits,
            the_tenant_and_the_fleet_are_charged_and_the_route_is_not);
        suite!(@safe $how $subject);
    };
    (@safe $how:ident $subject:ident) => {
        suite!(@$how $subject, races: nobody_exceeds_the_limit_and_all_is_back_in_the_end,
            workers_share_one_limit, tokens_are_never_spent_twice);
    };
    (@tests $subject:ident, $module:ident: $($test:ident),+ $(,)?) => {
        $(#[test] fn $test() { $module::$test(&Fixture::<$subject>::new()); })+
    };
    (@run $subject:ident, $module:ident: $($test:ident),+ $(,)?) => {
        $(
            // A panic does not say by itself which behaviour it is.
            println!("{}::{}", stringify!($module), stringify!($test));
            $module::$test(&Fixture::<$subject>::new());
        )+
    };
}
pub(crate) use suite;
