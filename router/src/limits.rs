//! A fleet file's limits as the engine and the answers' fields need them: a plan's, and what a route adds to it.

use std::fmt::Write;

use cofferdam_fleet::{Bucket, Fleet, LimitMode, Plan, Quota, Route, Shape};
use cofferdam_limits::{
    BucketPolicy, LevelPolicy, Levels, PolicyError, RouteKey, RoutePolicy, ShapePolicy, WindowPolicy, Windows,
};
use cofferdam_model::{Level, OnStoreFailure};
use http::HeaderValue;
use twox_hash::XxHash3_64;

/// A plan, ready for requests.
#[derive(Debug)]
pub(crate) struct PlanLimits {
    /// Fleet and tenant, wide to narrow.
    pub(crate) levels: Levels,
    /// The value of RateLimit-Policy, for a route without a limit of its own.
    pub(crate) policy: HeaderValue,
    /// The value of RateLimit-Limit, where the older fields are wanted.
    pub(crate) limit: Option<HeaderValue>,
    /// What each quota is called in the fields, in the order of the policy.
    pub(crate) quotas: Box<[Box<str>]>,
    /// What decides where the store is away, unless the route says otherwise.
    pub(crate) on_store_failure: OnStoreFailure,
    /// Whether what a route adds only counts for this plan's tenants.
    shadow: bool,
    /// Whether nothing limits, and answers say nothing of limits.
    pub(crate) is_off: bool,
}

/// A route, ready for requests.
#[derive(Debug)]
pub(crate) struct RouteLimits {
    /// What stores know it by.
    pub(crate) key: RouteKey,
    /// Its own limit and shape, if it has any.
    level: Option<RoutePolicy>,
    /// What it adds to RateLimit-Policy; empty where it has no limit.
    pub(crate) policy: Box<str>,
}

/// A plan, a route or the ceiling is not exact.
#[derive(Debug, thiserror::Error)]
#[error("{whose}: {error}")]
pub(crate) struct LimitsError {
    whose: String,
    error: PolicyError,
}

impl PlanLimits {
    pub(crate) fn new(plan: &Plan, fleet: &Fleet) -> Result<Self, LimitsError> {
        let named = |whose: &str, error| LimitsError { whose: whose.to_owned(), error };
        let ceiling = ceiling(fleet).map_err(|error| named("ceiling", error))?;
        let shadow = plan.shadow || fleet.limits.shadow;
        let levels = levels(ceiling, plan, shadow).map_err(|error| named(plan.name.as_str(), error))?;
        let quotas = plan.quotas.iter().map(|quota| quota_name(quota).into()).collect();
        let policy = HeaderValue::from_str(&policy(plan)).unwrap_or(HeaderValue::from_static(""));
        Ok(Self {
            levels,
            policy,
            limit: fleet.limits.older_fields.then(|| HeaderValue::from(plan.bucket.burst)),
            quotas,
            on_store_failure: plan.on_store_failure.unwrap_or(fleet.limits.on_store_failure),
            shadow,
            is_off: fleet.limits.mode == LimitMode::Off,
        })
    }

    /// The levels that a request on `route` passes, where that adds one.
    pub(crate) fn levels_on(&self, route: &RouteLimits) -> Option<Levels> {
        let level = route.level?;
        Some(self.levels.and_route(RoutePolicy { shadow: level.shadow || self.shadow, ..level }))
    }
}

impl RouteLimits {
    pub(crate) fn new(route: &Route, fleet: &Fleet) -> Result<Self, LimitsError> {
        let text = route.matches_text();
        let named = |error| LimitsError { whose: format!("route {text}"), error };
        let limit = route.limit.as_ref().map(bucket).transpose().map_err(named)?;
        let shape = route.shape.as_ref().map(shape).transpose().map_err(named)?;
        let limits = limit.is_some() || shape.is_some();
        let level = limits.then_some(RoutePolicy { bucket: limit, shape, shadow: fleet.limits.shadow });
        let policy = route.limit.map_or_else(String::new, |Bucket { sustained, burst }| {
            format!(", \"route\";q={burst};w={}", sustained.window_s(burst))
        });
        let key = RouteKey(XxHash3_64::oneshot(text.as_bytes()));
        Ok(Self { key, level, policy: policy.into() })
    }
}

/// `quota-1d`: the window in the largest unit that it is whole in.
fn quota_name(quota: &Quota) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let unit = units.into_iter().find(|(unit_s, _)| quota.window_s.is_multiple_of(*unit_s));
    let (unit_s, unit) = unit.unwrap_or((1, "s"));
    format!("quota-{}{unit}", quota.window_s / unit_s)
}

fn policy(plan: &Plan) -> String {
    let Bucket { sustained, burst } = plan.bucket;
    let mut policy = format!(
        "\"rate\";q={burst};w={}, \"conc\";q={};qu=\"concurrent-requests\"",
        sustained.window_s(burst),
        plan.max_in_flight
    );
    for quota in &plan.quotas {
        // Writing to a string never fails.
        let _ = write!(policy, ", \"{}\";q={};w={}", quota_name(quota), quota.limit, quota.window_s);
    }
    policy
}

fn ceiling(fleet: &Fleet) -> Result<LevelPolicy, PolicyError> {
    Ok(LevelPolicy {
        bucket: fleet.ceiling.bucket.as_ref().map(bucket).transpose()?,
        max_in_flight: fleet.ceiling.max_in_flight,
        shadow: fleet.ceiling.shadow || fleet.limits.shadow,
        ..LevelPolicy::unlimited(Level::Fleet)
    })
}

fn levels(ceiling: LevelPolicy, plan: &Plan, shadow: bool) -> Result<Levels, PolicyError> {
    let windows = plan.quotas.iter().map(|quota| WindowPolicy::new(quota.window_s.into(), quota.limit));
    let tenant = LevelPolicy {
        bucket: Some(bucket(&plan.bucket)?),
        max_in_flight: Some(plan.max_in_flight),
        windows: Windows::new(&windows.collect::<Result<Vec<_>, _>>()?)?,
        shadow,
        ..LevelPolicy::unlimited(Level::Tenant)
    };
    Levels::new(&[ceiling, tenant])
}

fn bucket(bucket: &Bucket) -> Result<BucketPolicy, PolicyError> {
    BucketPolicy::new(bucket.sustained, bucket.burst)
}

fn shape(shape: &Shape) -> Result<ShapePolicy, PolicyError> {
    ShapePolicy::new(shape.rate, shape.queue, shape.max_wait)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn fleet(rest: &str) -> Fleet {
        let text = format!(
            "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}, {{ id: b, url: 'http://b:1' }}]\n\
             tenant: {{ unknown: only }}\n\
             plans: {{ only: {{ sustained: 20/s, burst: 100, max_in_flight: 10, quota: {{ 36h: 7, 30d: 9k }} }} }}\n{rest}"
        );
        Fleet::parse(&text, Path::new(".")).unwrap().fleet
    }

    #[test]
    fn the_policy_field_says_burst_window_concurrency_and_quotas() {
        let fleet = fleet("routes: [{ match: { path: /x }, limit: { sustained: 2/s, burst: 7 } }]");
        let plan = PlanLimits::new(&fleet.plans[0], &fleet).unwrap();
        assert_eq!(
            plan.policy,
            "\"rate\";q=100;w=5, \"conc\";q=10;qu=\"concurrent-requests\", \"quota-36h\";q=7;w=129600, \
             \"quota-30d\";q=9000;w=2592000"
        );
        let routes = fleet.routes.as_slice().iter().map(|route| RouteLimits::new(route, &fleet).unwrap());
        let [limited, other] = routes.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((&*limited.policy, &*other.policy), (", \"route\";q=7;w=4", ""));
        assert_eq!(plan.levels_on(&limited).unwrap().as_slice().len(), 3);
        assert_eq!(plan.levels_on(&other), None);
    }

    #[test]
    fn a_routes_key_is_that_of_its_match_wherever_it_stands() {
        let keys = |text: &str| {
            let fleet = fleet(text);
            let routes = fleet.routes.as_slice().iter();
            routes.map(|route| RouteLimits::new(route, &fleet).unwrap().key).collect::<Vec<_>>()
        };
        let (first, second) = ("{ match: { path: /x }, cost: 2 }", "{ match: { path: /x/y }, timeout: 1s }");
        let one = keys(&format!("routes: [{second}, {first}]"));
        let two = keys("routes: [{ match: { path: /x/ } }]");
        assert_eq!((one[1], one[2]), (two[0], two[1]));
        assert_eq!(one[2].to_string(), format!("{:016x}", XxHash3_64::oneshot(b"* / ")));
    }
}
