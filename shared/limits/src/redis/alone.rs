//! What stands in while the store is away: this router's share of each limit, everything, or nothing. What is admitted here
//! counts in the same words as ever, so that the store hears of it once it is back.

use std::sync::Arc;

use cofferdam_model::{Level, Limited, OnStoreFailure};
use parking_lot::Mutex;

use super::measure::Measure;
use super::share::Place;
use super::subject::{Meter, Subject};
use super::take::{Taker, each_meter};
use crate::embedded::Lines;
use crate::refusal::{Refused, keep_stricter};
use crate::{BucketPolicy, Demand, Grant, LevelPolicy, Paid, Refusal, Wait};

/// Decides `demand` by what `on_store_failure` says.
pub(super) fn decide(
    taker: Taker<'_>,
    lines: &Mutex<Lines>,
    demand: &Demand<'_>,
    grant: &mut Grant,
) -> Result<(), Refusal> {
    if demand.on_store_failure == OnStoreFailure::Closed {
        return Err(Refusal::store_away(taker.standing(demand)));
    }
    let mut refused = None;
    for policy in demand.levels.as_slice().iter().rev() {
        if let Err((limited, wait)) = level(taker, demand, policy, grant) {
            if policy.shadow {
                grant.pass_shadow(policy.level, limited);
            } else {
                keep_stricter(&mut refused, (policy.level, limited, wait));
            }
        }
    }
    if refused.is_none() {
        refused = line(taker, lines, demand, grant).err();
    }
    match refused {
        Some((level, limited, wait)) => {
            grant.clear();
            Err(Refusal { level, limited, wait, standing: taker.standing(demand) })
        }
        None => {
            grant.stand_at(taker.standing(demand));
            Ok(())
        }
    }
}

/// A turn on a shaped route, in this router's line, which moves at its share of the rate.
fn line(
    taker: Taker<'_>,
    lines: &Mutex<Lines>,
    demand: &Demand<'_>,
    grant: &mut Grant,
) -> Result<(), Refused> {
    let Some((policy, shape)) = demand.levels.route().and_then(|policy| Some((policy, policy.shape?))) else {
        return Ok(());
    };
    let share = taker.terms.sharers.place(None).shape(shape);
    match lines.lock().turn(demand.route, share, taker.now_us) {
        Ok(_) if policy.shadow => {}
        Ok(delay) => grant.delay_by(delay),
        Err(_) if policy.shadow || demand.on_store_failure == OnStoreFailure::Open => {
            grant.pass_shadow(Level::Route, Limited::Shape);
        }
        Err(wait) => return Err((Level::Route, Limited::Shape, Wait::Until(wait))),
    }
    Ok(())
}

fn level(
    taker: Taker<'_>,
    demand: &Demand<'_>,
    policy: &LevelPolicy,
    grant: &mut Grant,
) -> Result<(), (Limited, Wait)> {
    let subject = taker.subject(policy.level);
    let is_open = demand.on_store_failure == OnStoreFailure::Open;
    let counts = policy.level != Level::Route || policy.max_in_flight.is_some();
    if counts && !permit(taker, subject, policy.max_in_flight.filter(|_| !is_open)) {
        return Err((Limited::Concurrency, Wait::Unknown));
    }
    let cost = demand.cost_at(policy.level);
    let place = taker.terms.sharers.place(subject.tenant.as_ref());
    let mut refused = None;
    if !is_open {
        each_meter(subject, demand, policy, |meter, measure| {
            // A quota is not worth a refusal while nobody knows how much of it is left.
            if let Measure::Bucket(bucket) = measure {
                refused = tokens(taker, meter, place, bucket, cost).err();
            }
            refused.is_none()
        });
    }
    match refused {
        Some(wait) => {
            if counts {
                subject.permits.release();
            }
            Err((Limited::Rate, wait))
        }
        None => {
            if policy.level != Level::Route {
                grant.hold(Arc::clone(subject) as _, Paid::Nothing);
            }
            Ok(())
        }
    }
}

/// A permit of this router's share, or of what it has on loan where that is more.
fn permit(taker: Taker<'_>, subject: &Subject, limit: Option<u32>) -> bool {
    let bound = limit.map_or(u32::MAX, |limit| taker.share(subject, limit));
    subject.permits.take_below(bound)
}

/// Tokens that are on loan, while the loan lasts; else of a bucket that is this router's share.
fn tokens(
    taker: Taker<'_>,
    meter: &Meter,
    place: Place,
    bucket: BucketPolicy,
    cost: u32,
) -> Result<(), Wait> {
    if cost == 0 || meter.lease.take(cost, taker.now_us).is_some() {
        return Ok(());
    }
    let share = place.bucket(bucket, cost);
    meter.alone.lock().spend(share, cost, taker.now_us).map_err(Wait::Until)
}
