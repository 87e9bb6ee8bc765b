//! What a limit is: rates, capacities, permits, quotas and shapes at each level, checked once. Nothing here limits
//! anything.

mod bounds;
mod bucket;
mod error;
mod quota;
mod shape;

use cofferdam_model::Level;

pub use self::bounds::{MAX_LEVELS, MAX_WINDOW_S, MAX_WINDOWS, max_quota};
pub use self::bucket::BucketPolicy;
pub use self::error::PolicyError;
pub use self::quota::{WindowPolicy, Windows};
pub use self::shape::ShapePolicy;

/// The limits of one level. A limit that is absent does not bind; what is in flight is counted all the same, but not by
/// route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelPolicy {
    /// Which level this is.
    pub level: Level,
    /// How fast.
    pub bucket: Option<BucketPolicy>,
    /// How many at once: not at the route level. 0 admits nothing.
    pub max_in_flight: Option<u32>,
    /// How much in a long time: not at the route level.
    pub windows: Windows,
    /// How evenly, all tenants together: at the route level alone.
    pub shape: Option<ShapePolicy>,
    /// Whether the level only counts what it would refuse, and lets it pass.
    pub shadow: bool,
}

/// All that a route may limit: how fast each tenant goes there, and how evenly all of them do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoutePolicy {
    /// How fast, for each tenant.
    pub bucket: Option<BucketPolicy>,
    /// How evenly, all tenants together.
    pub shape: Option<ShapePolicy>,
    /// Whether the route only counts what it would refuse, and lets it pass.
    pub shadow: bool,
}

/// The levels that a request passes: from wide to narrow, each at most once, at least one and at most [`MAX_LEVELS`].
///
/// Built once for each plan and route, and lent to every request of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Levels {
    policies: [LevelPolicy; MAX_LEVELS],
    len: u8,
}

impl LevelPolicy {
    /// A level that only counts.
    pub const fn unlimited(level: Level) -> Self {
        Self { level, bucket: None, max_in_flight: None, windows: Windows::NONE, shape: None, shadow: false }
    }

    /// Whether the level has anything to count for each tenant: a bucket, permits or quotas.
    #[inline]
    pub fn limits(&self) -> bool {
        self.bucket.is_some() || self.max_in_flight.is_some() || !self.windows.is_empty()
    }
}

impl From<RoutePolicy> for LevelPolicy {
    fn from(route: RoutePolicy) -> Self {
        let RoutePolicy { bucket, shape, shadow } = route;
        Self { bucket, shape, shadow, ..Self::unlimited(Level::Route) }
    }
}

impl Levels {
    /// Checks that `policies` go from wide to narrow, each level at most once, that a route alone is shaped, and that it has
    /// neither permits nor quotas: those are counted by tenant, and not by route.
    pub fn new(policies: &[LevelPolicy]) -> Result<Self, PolicyError> {
        let (Some(&first), true) = (policies.first(), policies.len() <= MAX_LEVELS) else {
            return Err(PolicyError::LevelCount(policies.len()));
        };
        if let Some(pair) = policies.windows(2).find(|pair| pair[0].level >= pair[1].level) {
            return Err(PolicyError::LevelOrder(pair[1].level));
        }
        let shaped = |policy: &&LevelPolicy| policy.shape.is_some() && policy.level != Level::Route;
        if let Some(policy) = policies.iter().find(shaped) {
            return Err(PolicyError::Shaped(policy.level));
        }
        if let Some(route) = policies.iter().find(|policy| policy.level == Level::Route) {
            if route.max_in_flight.is_some() {
                return Err(PolicyError::OnRoute("limit in flight"));
            }
            if !route.windows.is_empty() {
                return Err(PolicyError::OnRoute("quota"));
            }
        }
        let mut all = [first; MAX_LEVELS];
        all[..policies.len()].copy_from_slice(policies);
        Ok(Self { policies: all, len: policies.len() as u8 })
    }

    /// The same levels and `route` as the narrowest, in the place of any that was there.
    pub fn and_route(&self, route: RoutePolicy) -> Self {
        let mut levels = *self;
        let wide = self.as_slice().iter().filter(|policy| policy.level < Level::Route).count();
        levels.policies[wide] = route.into();
        levels.len = wide as u8 + 1;
        levels
    }

    /// The levels, wide to narrow.
    pub fn as_slice(&self) -> &[LevelPolicy] {
        &self.policies[..usize::from(self.len)]
    }

    /// Changes limits; which levels there are stays.
    pub(crate) fn each_mut(&mut self, change: impl FnMut(&mut LevelPolicy)) {
        self.policies[..usize::from(self.len)].iter_mut().for_each(change);
    }

    /// The policy of `level`, where the request passes it.
    pub fn get(&self, level: Level) -> Option<&LevelPolicy> {
        self.as_slice().iter().find(|policy| policy.level == level)
    }

    /// The policy of the route, where the request passes one: the narrowest, and so the last.
    #[inline]
    pub fn route(&self) -> Option<&LevelPolicy> {
        self.as_slice().last().filter(|policy| policy.level == Level::Route)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn levels_go_from_wide_to_narrow_each_at_most_once() {
        let [fleet, tenant, route] = Level::ALL.map(LevelPolicy::unlimited);
        assert_eq!(Levels::new(&[fleet, tenant]).unwrap().as_slice(), [fleet, tenant]);
        assert_eq!(Levels::new(&[fleet, tenant]).unwrap().route(), None);
        assert_eq!(Levels::new(&[fleet, tenant, route]).unwrap().route(), Some(&route));
        assert_eq!(Levels::new(&[tenant]).unwrap().get(Level::Fleet), None);
        assert_eq!(Levels::new(&[]), Err(PolicyError::LevelCount(0)));
        assert_eq!(Levels::new(&[tenant, fleet]), Err(PolicyError::LevelOrder(Level::Fleet)));
        assert_eq!(Levels::new(&[tenant, tenant]), Err(PolicyError::LevelOrder(Level::Tenant)));
        assert_eq!(Levels::new(&[tenant; 4]), Err(PolicyError::LevelCount(4)));
    }

    #[test]
    fn a_route_is_added_as_the_narrowest() {
        let [fleet, tenant, route] = Level::ALL.map(LevelPolicy::unlimited);
        let other = RoutePolicy { bucket: None, shape: None, shadow: true };
        let added = LevelPolicy { shadow: true, ..route };
        for wide in [&[fleet, tenant][..], &[fleet, tenant, route]] {
            assert_eq!(Levels::new(wide).unwrap().and_route(other).as_slice(), [fleet, tenant, added]);
        }
    }

    #[test]
    fn a_route_has_neither_permits_nor_quotas() {
        let windows = Windows::new(&[WindowPolicy::new(3_600, 5).unwrap()]).unwrap();
        for level in Level::ALL {
            let with = |what, policy| match level {
                Level::Route => assert_eq!(Levels::new(&[policy]), Err(PolicyError::OnRoute(what))),
                Level::Fleet | Level::Tenant => assert!(Levels::new(&[policy]).is_ok()),
            };
            let plain = LevelPolicy::unlimited(level);
            with("limit in flight", LevelPolicy { max_in_flight: Some(7), ..plain });
            with("quota", LevelPolicy { windows, ..plain });
        }
    }

    #[test]
    fn a_route_alone_is_shaped() {
        let shape = ShapePolicy::new("5/s".parse().unwrap(), 1, Duration::from_secs(1)).ok();
        let shaped = |level| LevelPolicy { shape, ..LevelPolicy::unlimited(level) };
        assert!(Levels::new(&[shaped(Level::Route)]).is_ok());
        assert_eq!(Levels::new(&[shaped(Level::Tenant)]), Err(PolicyError::Shaped(Level::Tenant)));
    }
}
