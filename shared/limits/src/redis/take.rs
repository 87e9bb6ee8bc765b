//! Decides from memory: what is on loan is taken level by level, from narrow to wide, the least contended first. Where one
//! level has nothing to give, what was taken before goes back; where the store has to be asked, this says whom to ask.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::{Level, Limited};

use super::lease::Have;
use super::measure::Measure;
use super::subject::{Meter, MeterKey, Subject};
use super::terms::{Mode, Terms};
use crate::refusal::keep_stricter;
use crate::{
    BucketPolicy, BucketStanding, Demand, Grant, LevelPolicy, Paid, Refusal, RouteKey, Standing, Wait,
    WindowPolicy, WindowStanding,
};

/// Why memory does not admit a demand.
#[derive(Debug)]
pub(super) enum Short {
    /// The store said no, and that still holds.
    Refused(Refusal),
    /// These have to be asked.
    Ask(Needs),
}

/// Which subjects have to be asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) tenant: bool,
    pub(super) ceiling: bool,
}

/// Who takes, and when.
#[derive(Clone, Copy)]
pub(super) struct Taker<'a> {
    pub(super) terms: &'a Terms,
    pub(super) tenant: &'a Arc<Subject>,
    pub(super) ceiling: &'a Arc<Subject>,
    pub(super) now_us: u64,
    /// Whether the store has just granted what exact limits need.
    pub(super) is_told: bool,
}

/// What one level says before anything is taken.
enum Said {
    Ready,
    Refused(Limited, Wait),
    Ask,
}

impl Taker<'_> {
    /// Takes all levels of `demand`, or none.
    pub(super) fn take(self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Short> {
        self.look(demand, grant)?;
        let mut needs = Needs::default();
        for policy in demand.levels.as_slice().iter().rev() {
            if policy.shadow {
                self.take_shadow(demand, policy, grant);
            } else if !self.take_level(demand, policy, grant) {
                // Somebody else was faster.
                needs.add(policy.level);
            }
        }
        if !needs.any() && self.terms.may_have_ended_since(self.now_us) {
            // This process was stopped in between: what it took may be somebody else's by now.
            demand.levels.as_slice().iter().for_each(|policy| needs.add(policy.level));
        }
        if needs.any() {
            grant.clear();
            return Err(Short::Ask(needs));
        }
        grant.stand_at(self.standing(demand));
        Ok(())
    }

    /// Whom to ask, if anybody, before this demand can be taken.
    pub(super) fn needs(&self, demand: &Demand<'_>) -> Result<Needs, Short> {
        match self.look(demand, &mut Grant::new()) {
            Ok(()) => Ok(Needs::default()),
            Err(Short::Ask(needs)) => Ok(needs),
            Err(refused) => Err(refused),
        }
    }

    /// Looks at every level before anything is taken: most who are refused change nothing, not even for a moment.
    fn look(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Short> {
        let (mut needs, mut refused) = (Needs::default(), None);
        for policy in demand.levels.as_slice().iter().rev() {
            match self.look_at(demand, policy) {
                Said::Ready => {}
                // The store has just been asked, and said what it would refuse.
                Said::Ask if policy.shadow && self.is_told => {}
                Said::Ask => needs.add(policy.level),
                Said::Refused(limited, _) if policy.shadow => grant.pass_shadow(policy.level, limited),
                Said::Refused(limited, wait) => keep_stricter(&mut refused, (policy.level, limited, wait)),
            }
        }
        let asks = needs.any() && self.terms.mode == Mode::Exact && !self.is_told;
        match refused.filter(|_| !asks) {
            Some((level, limited, wait)) => {
                let standing = self.standing(demand);
                Err(Short::Refused(Refusal { level, limited, wait, standing }))
            }
            None if needs.any() => Err(Short::Ask(needs)),
            None => Ok(()),
        }
    }

    /// Takes of a level that only counts what it would refuse: as much as there is, and a permit in any case.
    fn take_shadow(&self, demand: &Demand<'_>, policy: &LevelPolicy, grant: &mut Grant) {
        let subject = self.subject(policy.level);
        let cost = demand.cost_at(policy.level);
        let mut taken = 0;
        each_meter(subject, demand, policy, |meter, _| {
            taken = taken.max(meter.lease.take_up_to(cost));
            true
        });
        match policy.level {
            Level::Route if taken > 0 => grant.hold(self.tenant.on_route(demand.route), Paid::Count(taken)),
            Level::Route => {}
            Level::Tenant | Level::Fleet => {
                subject.permits.take_below(u32::MAX);
                let paid = if taken > 0 { Paid::Cost(taken) } else { Paid::Nothing };
                grant.hold(Arc::clone(subject) as _, paid);
            }
        }
    }

    /// Where a level's limits lie.
    pub(super) fn subject(&self, level: Level) -> &Arc<Subject> {
        if level == Level::Fleet { self.ceiling } else { self.tenant }
    }

    fn look_at(&self, demand: &Demand<'_>, policy: &LevelPolicy) -> Said {
        let subject = self.subject(policy.level);
        if let Some(limit) = policy.max_in_flight
            && !self.has_permit(subject, limit)
        {
            let is_refused = limit == 0 || (subject.permits.is_refused(self.now_us) && !self.is_told);
            return if is_refused { Said::Refused(Limited::Concurrency, Wait::Unknown) } else { Said::Ask };
        }
        let cost = demand.cost_at(policy.level);
        let mut said = Said::Ready;
        each_meter(subject, demand, policy, |meter, measure| {
            match self.look_at_tokens(meter, cost, measure) {
                Have::Enough => {}
                Have::Ask => said = Said::Ask,
                Have::RefusedFor(us) => {
                    said = Said::Refused(measure.limited(), Wait::Until(Duration::from_micros(us)));
                }
            }
            matches!(said, Said::Ready)
        });
        said
    }

    fn look_at_tokens(&self, meter: &Meter, cost: u32, measure: Measure) -> Have {
        // What an exact limit has on loan was granted to others, who wait for it.
        let may_take = self.is_told || !self.terms.is_exact(&measure);
        if may_take && (cost == 0 || meter.lease.look(cost, self.now_us)) {
            return Have::Enough;
        }
        match meter.lease.refusal(cost, self.now_us) {
            // What was said of another limit says nothing of this one.
            Have::RefusedFor(_) if meter.ledger.lock().measure != Some(measure) => Have::Ask,
            have => have,
        }
    }

    /// Takes a permit and the tokens of one level; `false` where something was gone, and then nothing is taken.
    fn take_level(&self, demand: &Demand<'_>, policy: &LevelPolicy, grant: &mut Grant) -> bool {
        let subject = self.subject(policy.level);
        let counts = policy.level != Level::Route || policy.max_in_flight.is_some();
        if counts && !self.take_permit(subject, policy.max_in_flight) {
            return false;
        }
        let cost = demand.cost_at(policy.level);
        let (mut n_taken, mut is_short, mut is_low) = (0, false, false);
        each_meter(subject, demand, policy, |meter, measure| {
            match meter.lease.take(cost, self.now_us) {
                Some(left) => {
                    n_taken += 1;
                    is_low |= !self.terms.is_exact(&measure) && meter.lease.is_low(left, self.now_us);
                }
                None if cost == 0 => n_taken += 1,
                None => is_short = true,
            }
            !is_short
        });
        if is_low {
            subject.call_soon();
        }
        if !is_short {
            let paid = if policy.level == Level::Route { Paid::Count(cost) } else { Paid::Cost(cost) };
            let paid = if n_taken == 0 { Paid::Nothing } else { paid };
            match policy.level {
                Level::Route if n_taken > 0 => grant.hold(self.tenant.on_route(demand.route), paid),
                Level::Route => {}
                Level::Tenant | Level::Fleet => grant.hold(Arc::clone(subject) as _, paid),
            }
            return true;
        }
        each_meter(subject, demand, policy, |meter, _| {
            let is_taken = n_taken > 0;
            if is_taken {
                meter.settle(-i64::from(cost));
                n_taken -= 1;
            }
            is_taken
        });
        if counts {
            subject.permits.release();
        }
        false
    }

    /// Gives back what the ceiling, or else the tenant, has granted to `demand` alone, which was refused elsewhere.
    pub(super) fn surrender(&self, demand: &Demand<'_>, is_ceiling: bool) {
        let subject = if is_ceiling { self.ceiling } else { self.tenant };
        let is_its = |policy: &&LevelPolicy| (policy.level == Level::Fleet) == is_ceiling;
        for policy in demand.levels.as_slice().iter().filter(is_its) {
            each_meter(subject, demand, policy, |meter, measure| {
                if self.terms.is_exact(&measure) {
                    meter.surrender(demand.cost_at(policy.level));
                }
                true
            });
        }
        subject.call_soon();
    }

    fn has_permit(&self, subject: &Subject, limit: u32) -> bool {
        let seen = subject.permits.read();
        seen.used < subject.permits.worth(self.now_us).min(limit)
            || (subject.is_learning(self.now_us) && seen.used < self.share(subject, limit))
    }

    /// A permit of the loan; while the store learns, of this router's share.
    fn take_permit(&self, subject: &Subject, limit: Option<u32>) -> bool {
        let Some(limit) = limit else { return subject.permits.take_below(u32::MAX) };
        subject.permits.take(limit, self.now_us)
            || (subject.is_learning(self.now_us) && subject.permits.take_below(self.share(subject, limit)))
    }

    /// What this router may use by itself: its share, or what it has on loan where that is more.
    pub(super) fn share(&self, subject: &Subject, limit: u32) -> u32 {
        let place = self.terms.sharers.place(subject.tenant.as_ref());
        place.share(limit).max(subject.permits.worth(self.now_us).min(limit))
    }

    /// Where the tenant stands after what was taken, as far as this process knows.
    pub(super) fn standing(&self, demand: &Demand<'_>) -> Standing {
        let mut standing = match demand.levels.get(Level::Tenant) {
            Some(policy) => level_standing(self.tenant, policy, self.now_us),
            None => Standing::default(),
        };
        if let Some(bucket) = demand.levels.route().and_then(|policy| policy.bucket) {
            let meter = self.tenant.meter(MeterKey::Route(demand.route));
            standing.beside_mut().route = Some(meter.bucket_standing(bucket, self.now_us));
        }
        standing
    }
}

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

/// The meters of one level that limit `demand`, narrow to wide, until `visit` says that it has seen enough.
pub(super) fn each_meter(
    subject: &Arc<Subject>,
    demand: &Demand<'_>,
    policy: &LevelPolicy,
    mut visit: impl FnMut(&Meter, Measure) -> bool,
) {
    for window in policy.windows.iter() {
        if !visit(&subject.meter(MeterKey::Window(window.window_s())), Measure::Window(*window)) {
            return;
        }
    }
    match (policy.bucket, policy.level) {
        (Some(bucket), Level::Route) => {
            visit(&subject.meter(MeterKey::Route(demand.route)), Measure::Bucket(bucket));
        }
        (Some(bucket), Level::Tenant | Level::Fleet) => {
            visit(&subject.tokens, Measure::Bucket(bucket));
        }
        (None, _) => {}
    }
}

impl Needs {
    fn add(&mut self, level: Level) {
        match level {
            Level::Fleet => self.ceiling = true,
            Level::Tenant | Level::Route => self.tenant = true,
        }
    }

    fn any(self) -> bool {
        self.tenant || self.ceiling
    }
}

impl Meter {
    /// The store's bucket as it was last seen, what has flowed in since, and what is left of the loan.
    fn bucket_standing(&self, bucket: BucketPolicy, now_us: u64) -> BucketStanding {
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

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

    use super::super::op::Session;
    use super::super::queue::queue;
    use super::super::terms::DEFAULT_TTL;
    use super::*;
    use crate::{Levels, ManualClock};

    #[test]
    fn who_slept_while_it_took_takes_nothing_of_a_loan_that_may_have_ended() {
        let (clock, (calls, _queued)) = (ManualClock::at(1_000_000), queue());
        let session = Session::parse("sessiona").unwrap();
        let budget = crate::DEFAULT_BUDGET;
        let terms = Terms::new(session, DEFAULT_TTL, budget, Mode::Lease, 1, clock.clone().into());
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let [tenant, ceiling] = [Some(id), None].map(|id| Subject::new(id, calls.clone()));
        let plan = LevelPolicy { max_in_flight: Some(9), ..LevelPolicy::unlimited(Level::Tenant) };
        let (levels, now_us) = (Levels::new(&[plan]).unwrap(), clock.now_us());
        let demand = Demand::new(&id, 1, &levels);
        tenant.permits.renew(9, terms.ends_us(now_us));
        let taker = Taker { terms: &terms, tenant: &tenant, ceiling: &ceiling, now_us, is_told: false };
        assert!(taker.take(&demand, &mut Grant::new()).is_ok());
        clock.advance(DEFAULT_TTL);
        assert!(matches!(taker.take(&demand, &mut Grant::new()), Err(Short::Ask(_))));
        assert_eq!(tenant.permits.read().used, 0, "what was taken went back");
    }
}
