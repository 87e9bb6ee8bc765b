//! What stands in while the store is away: this router's share of each limit, everything, or nothing. What is admitted here
//! counts in the same words as ever, so that the store hears of it once it is back.

use cofferdam_model::{Level, Limited, OnStoreFailure};
use parking_lot::Mutex;

use super::measure::Measure;
use super::piecemeal::{Piecemeal, Source};
use super::share::Place;
use super::subject::{Meter, Subject, each_meter};
use super::take::Taker;
use super::terms::Terms;
use crate::embedded::Lines;
use crate::refusal::{Refused, keep_stricter};
use crate::{BucketPolicy, Demand, Grant, LevelPolicy, Refusal, Wait};

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
        refused = line(taker.terms, lines, demand, grant, taker.now_us).err();
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

/// Decides the ceiling alone.
pub(super) fn ceiling(taker: Taker<'_>, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
    let Some(policy) = demand.levels.get(Level::Fleet) else { return Ok(()) };
    if demand.on_store_failure == OnStoreFailure::Closed {
        return Err(Refusal::store_away(taker.standing(demand)));
    }
    match level(taker, demand, policy, grant) {
        Err((limited, _)) if policy.shadow => grant.pass_shadow(Level::Fleet, limited),
        Err((limited, wait)) => {
            let standing = taker.standing(demand);
            return Err(Refusal { level: Level::Fleet, limited, wait, standing });
        }
        Ok(()) => {}
    }
    Ok(())
}

/// Decides a turn on a shaped route alone.
pub(super) fn turn(
    taker: Taker<'_>,
    lines: &Mutex<Lines>,
    demand: &Demand<'_>,
    grant: &mut Grant,
) -> Result<(), Refusal> {
    if demand.on_store_failure == OnStoreFailure::Closed {
        return Err(Refusal::store_away(taker.standing(demand)));
    }
    line(taker.terms, lines, demand, grant, taker.now_us).map_err(|(level, limited, wait)| {
        let standing = taker.standing(demand);
        Refusal { level, limited, wait, standing }
    })
}

/// A turn on a shaped route, in this router's line, which moves at its share of the rate.
pub(super) fn line(
    terms: &Terms,
    lines: &Mutex<Lines>,
    demand: &Demand<'_>,
    grant: &mut Grant,
    now_us: u64,
) -> Result<(), Refused> {
    let Some((policy, shape)) = demand.levels.route().and_then(|policy| Some((policy, policy.shape?))) else {
        return Ok(());
    };
    let share = terms.sharers.place(None).shape(shape);
    match lines.lock().turn(demand.route, share, now_us) {
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
    let counts = policy.level != Level::Route;
    let mut refused = None;
    if counts && !permit(taker, subject, policy.max_in_flight.filter(|_| !is_open)) {
        refused = Some((Limited::Concurrency, Wait::Unknown));
        if !policy.shadow {
            return Err((Limited::Concurrency, Wait::Unknown));
        }
        // A shadow counts in any case.
        subject.permits.take_below(u32::MAX);
    }
    let mut taken = Piecemeal::new(subject, counts);
    if !is_open {
        let cost = demand.cost_at(policy.level);
        let place = taker.terms.sharers.place(subject.tenant.as_ref());
        each_meter(subject, demand, policy, |meter, measure| {
            let source = match measure {
                Measure::Bucket(bucket) => tokens(taker, meter, place, bucket, cost),
                // A quota is not worth a refusal while nobody knows how much of it is left.
                Measure::Window(_) => Ok(Source::Share),
            };
            match source {
                Ok(source) => {
                    if source == Source::Share {
                        charge(meter, measure, cost);
                    }
                    taken.add(meter.key, source, cost);
                }
                Err(wait) => refused = Some((Limited::Rate, wait)),
            }
            true
        });
    }
    // Whatever another level refuses goes back with the grant.
    taken.hold(grant);
    refused.map_or(Ok(()), Err)
}

/// A permit of this router's share, or of what it has on loan where that is more.
fn permit(taker: Taker<'_>, subject: &Subject, limit: Option<u32>) -> bool {
    let bound = limit.map_or(u32::MAX, |limit| taker.share(subject, limit));
    subject.permits.take_below(bound)
}

/// Tokens that are on loan, while the loan lasts; else of a bucket that is this router's share. The result is which.
fn tokens(
    taker: Taker<'_>,
    meter: &Meter,
    place: Place,
    bucket: BucketPolicy,
    cost: u32,
) -> Result<Source, Wait> {
    if cost == 0 || meter.lease.take(cost, taker.now_us).is_some() {
        return Ok(Source::Loan);
    }
    let share = place.bucket(bucket, cost);
    meter.alone.lock().spend(share, cost, taker.now_us).map_err(Wait::Until)?;
    Ok(Source::Share)
}

/// Has the store charge what this router's share admits: else its bucket had refilled meanwhile, and would admit as much again.
fn charge(meter: &Meter, measure: Measure, cost: u32) {
    let mut ledger = meter.ledger.lock();
    ledger.measure = Some(measure);
    ledger.owe(i64::from(cost));
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

    use super::super::op::Session;
    use super::super::queue::queue;
    use super::super::take::Of;
    use super::super::terms::{DEFAULT_TTL, Mode};
    use super::*;
    use crate::{Levels, ManualClock};

    #[test]
    fn who_is_refused_by_one_level_has_spent_nothing_at_the_others() {
        let (clock, (calls, _queued)) = (ManualClock::at(1_000_000), queue());
        let session = Session::parse("sessiona").unwrap();
        let terms =
            Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 2, clock.clone().into());
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let [tenant, ceiling] = [Some(id), None].map(|id| Subject::new(id, calls.clone()));
        let bucket = BucketPolicy::new("1/h".parse().unwrap(), 12).ok();
        let paced = |level| LevelPolicy { bucket, ..LevelPolicy::unlimited(level) };
        let full = LevelPolicy { max_in_flight: Some(0), ..LevelPolicy::unlimited(Level::Fleet) };
        let levels = Levels::new(&[full, paced(Level::Tenant), paced(Level::Route)]).unwrap();
        let demand = Demand::new(&id, 4, &levels);
        let now_us = clock.now_us();
        tenant.tokens.lease.renew(9, 0, terms.ends_us(now_us));
        let taker = Taker {
            terms: &terms,
            tenant: &tenant,
            ceiling: &ceiling,
            now_us,
            is_told: false,
            of: Of::All,
            fresh: None,
        };
        let decide = |demand: &Demand<'_>| decide(taker, &Mutex::default(), demand, &mut Grant::new());
        for _ in 0..20 {
            let refusal = decide(&demand).unwrap_err();
            assert_eq!((refusal.level, refusal.limited), (Level::Fleet, Limited::Concurrency));
        }
        // Two were paid out of the loan, and the store hears that they were not spent.
        assert_eq!((tenant.tokens.lease.count(), tenant.tokens.ledger.lock().untold()), (1, -8));
        // All others were paid out of this router's share, six tokens, of which all are there still.
        let levels = Levels::new(&[paced(Level::Tenant)]).unwrap();
        let (mut grant, mut refused) = (Grant::new(), Grant::new());
        let of_share = |cost, grant: &mut Grant| {
            super::decide(taker, &Mutex::default(), &Demand { levels: &levels, cost, ..demand }, grant)
        };
        assert!(of_share(6, &mut grant).is_ok());
        assert!(of_share(2, &mut refused).is_err());
        drop(grant);
        assert_eq!(tenant.permits.read().used, 0);
    }
}
