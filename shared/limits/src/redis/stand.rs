//! Where a level stands for a tenant, as far as this process knows: what the store last said, and what was done since. It
//! takes nothing and asks nobody.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::Level;

use super::measure::Measure;
use super::subject::{Meter, MeterKey, Subject};
use crate::{BucketPolicy, BucketStanding, LevelPolicy, RouteKey, Standing, WindowPolicy, WindowStanding};

/// Where one level stands for a tenant, on `route` if it is the route level, as far as this process knows.
pub(super) fn standing_at(
    subject: &Arc<Subject>,
    route: RouteKey,
    policy: &LevelPolicy,
    now_us: u64,
) -> Standing {
    match (policy.level, policy.bucket) {
        (Level::Route, Some(bucket)) => {
            let meter = subject.meter(MeterKey::Route(route));
            let bucket = Some(meter.bucket_standing(bucket, now_us));
            Standing { bucket, max_in_flight: policy.max_in_flight, ..Standing::default() }
        }
        _ => level_standing(subject, policy, now_us),
    }
}

/// Where one level of a subject stands, as far as this process knows.
pub(super) fn level_standing(subject: &Arc<Subject>, policy: &LevelPolicy, now_us: u64) -> Standing {
    let mut standing = Standing {
        bucket: policy.bucket.map(|bucket| subject.tokens.bucket_standing(bucket, now_us)),
        in_flight: subject.permits.read().used,
        max_in_flight: policy.max_in_flight,
        ..Standing::default()
    };
    if !policy.windows.is_empty() {
        let beside = standing.beside_mut();
        for (place, window) in beside.windows.iter_mut().zip(policy.windows.iter()) {
            *place = Some(subject.meter(MeterKey::Window(window.window_s())).window_standing(*window));
        }
    }
    standing
}

impl Meter {
    /// The store's bucket as it was last seen, what has flowed in since, and what is left of the loan.
    pub(super) fn bucket_standing(&self, bucket: BucketPolicy, now_us: u64) -> BucketStanding {
        let ledger = self.ledger.lock();
        let level = match (ledger.measure, ledger.seen) {
            (Some(Measure::Bucket(policy)), Some(seen)) if policy.rate() == bucket.rate() => {
                let inflow = bucket.inflow(now_us.saturating_sub(seen.at_us));
                let room = bucket.full().saturating_sub(bucket.units(seen.outstanding)).max(seen.level);
                let left = seen.level.saturating_add(inflow).min(room);
                let unspent = u64::from(self.lease.count()).saturating_add_signed(-ledger.untold());
                left.saturating_add(bucket.units(unspent))
            }
            _ => bucket.full(),
        };
        BucketStanding::new(bucket, level, 0)
    }

    fn window_standing(&self, policy: WindowPolicy) -> WindowStanding {
        let ledger = self.ledger.lock();
        let used = ledger.seen.map_or(0, |seen| u64::try_from(seen.level).unwrap_or(0));
        let used = used.saturating_sub(u64::from(self.lease.count()));
        // How much of it was spent before this window began is not known here: by its end, all of it slides out.
        let until_one_more = Duration::from_secs(if used == 0 { 0 } else { policy.window_s().into() });
        WindowStanding { policy, used, until_one_more }
    }
}
