//! Decides from memory: what is on loan is taken level by level, from narrow to wide, the least contended first. Where one
//! level has nothing to give, what was taken before goes back; where the store has to be asked, this says whom to ask.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::{Level, Limited};

use super::fresh::Fresh;
use super::lease::Have;
use super::measure::Measure;
use super::needs::{Lack, Needs, Short};
use super::piecemeal::{Piecemeal, Source};
use super::stand::level_standing;
use super::subject::{Meter, MeterKey, Subject, each_meter};
use super::terms::{Mode, Terms};
use crate::refusal::keep_stricter;
use crate::{Demand, Grant, LevelPolicy, Paid, Refusal, Standing, Wait};

/// Who takes, and when.
#[derive(Clone, Copy)]
pub(super) struct Taker<'a> {
    pub(super) terms: &'a Terms,
    pub(super) tenant: &'a Arc<Subject>,
    pub(super) ceiling: &'a Arc<Subject>,
    pub(super) now_us: u64,
    /// Whether the store has just granted what exact limits need.
    pub(super) is_told: bool,
    pub(super) of: Of,
    /// What the store has granted in this moment, where that is given out first.
    pub(super) fresh: Option<&'a Fresh>,
}

/// Which levels are decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    All,
    /// Those of the tenant: its own, and its route's.
    Tenant,
    Ceiling,
}

/// What one level says before anything is taken.
enum Said {
    Ready,
    Refused(Limited, Wait),
    Ask(Limited),
}

impl Taker<'_> {
    /// Takes all levels of `demand`, or none.
    pub(super) fn take(self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Short> {
        self.take_levels(demand, grant).map_err(|lack| self.short(demand, lack))?;
        grant.stand_at(self.standing(demand));
        Ok(())
    }

    /// The same, without a look at where the tenant stands then.
    pub(super) fn take_levels(self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Lack> {
        self.look(demand, grant)?;
        let mut needs = Needs::default();
        for policy in self.policies(demand) {
            if policy.shadow {
                self.take_shadow(demand, policy, grant);
            } else if let Err(limited) = self.take_level(demand, policy, grant) {
                // Somebody else was faster.
                needs.add(policy.level, limited);
            }
        }
        if !needs.any() && self.terms.may_have_ended_since(self.now_us) {
            // This process was stopped in between: what it took may be somebody else's by now.
            self.policies(demand).for_each(|policy| needs.add(policy.level, first_of(policy)));
        }
        if needs.any() {
            grant.clear();
            return Err(Lack::Ask(needs));
        }
        Ok(())
    }

    fn short(&self, demand: &Demand<'_>, lack: Lack) -> Short {
        match lack {
            Lack::Ask(needs) => Short::Ask(needs),
            Lack::Refused((level, limited, wait)) => {
                Short::Refused(Refusal { level, limited, wait, standing: self.standing(demand) })
            }
        }
    }

    /// The levels that are decided here, narrow to wide.
    fn policies<'d>(&self, demand: &Demand<'d>) -> impl Iterator<Item = &'d LevelPolicy> + use<'d> {
        let of = self.of;
        let all = demand.levels.as_slice().iter().rev();
        all.filter(move |policy| of == Of::All || (of == Of::Ceiling) == (policy.level == Level::Fleet))
    }

    /// Whom to ask, if anybody, before this demand can be taken.
    pub(super) fn needs(&self, demand: &Demand<'_>) -> Result<Needs, Short> {
        match self.look(demand, &mut Grant::new()) {
            Ok(()) => Ok(Needs::default()),
            Err(Lack::Ask(needs)) => Ok(needs),
            Err(refused) => Err(self.short(demand, refused)),
        }
    }

    /// Looks at every level before anything is taken: most who are refused change nothing, not even for a moment.
    fn look(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Lack> {
        let (mut needs, mut refused) = (Needs::default(), None);
        for policy in self.policies(demand) {
            match self.look_at(demand, policy) {
                Said::Ready => {}
                // The store has just been asked, and said what it would refuse.
                Said::Ask(_) if policy.shadow && self.is_told => {}
                Said::Ask(limited) => needs.add(policy.level, limited),
                Said::Refused(limited, _) if policy.shadow => grant.pass_shadow(policy.level, limited),
                Said::Refused(limited, wait) => keep_stricter(&mut refused, (policy.level, limited, wait)),
            }
        }
        let asks = needs.any() && self.terms.mode() == Mode::Exact && !self.is_told;
        match refused.filter(|_| !asks) {
            Some(refused) => Err(Lack::Refused(refused)),
            None if needs.any() => Err(Lack::Ask(needs)),
            None => Ok(()),
        }
    }

    /// Takes of a level that only counts what it would refuse: as much as there is, and a permit in any case.
    fn take_shadow(&self, demand: &Demand<'_>, policy: &LevelPolicy, grant: &mut Grant) {
        let subject = self.subject(policy.level);
        let cost = demand.cost_at(policy.level);
        let counts = policy.level != Level::Route;
        if counts {
            subject.permits.take_below(u32::MAX);
        }
        let (mut is_whole, mut pieces) = (true, Piecemeal::new(subject, counts));
        each_meter(subject, demand, policy, |meter, _| {
            let fresh = self.fresh.map_or(0, |fresh| fresh.take_some(meter.key, cost));
            let taken = fresh + meter.lease.take_some(cost - fresh, self.now_us);
            is_whole &= taken == cost;
            pieces.add(meter.key, Source::Loan, taken);
            true
        });
        match is_whole {
            true => self.hold(demand, policy, !pieces.is_empty(), grant),
            // What a shadow did not have is not settled either.
            false => pieces.hold(grant),
        }
    }

    /// Adds a level to the grant of which everything was taken; `has_tokens` where that has meters.
    fn hold(&self, demand: &Demand<'_>, policy: &LevelPolicy, has_tokens: bool, grant: &mut Grant) {
        let cost = demand.cost_at(policy.level);
        match policy.level {
            Level::Route if has_tokens => {
                grant.hold(self.tenant.on_route(demand.route), Paid::Count(cost));
            }
            Level::Route => {}
            Level::Tenant | Level::Fleet => {
                let paid = if has_tokens { Paid::Cost(cost) } else { Paid::Nothing };
                grant.hold(Arc::clone(self.subject(policy.level)) as _, paid);
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
            let limited = Limited::Concurrency;
            return if is_refused { Said::Refused(limited, Wait::Unknown) } else { Said::Ask(limited) };
        }
        let cost = demand.cost_at(policy.level);
        let mut said = Said::Ready;
        each_meter(subject, demand, policy, |meter, measure| {
            match self.look_at_tokens(meter, cost, measure) {
                Have::Enough => {}
                Have::Ask => said = Said::Ask(measure.limited()),
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
        let is_fresh = self.fresh.is_some_and(|fresh| fresh.has(meter.key, cost));
        if may_take && (cost == 0 || is_fresh || meter.lease.look(cost, self.now_us)) {
            return Have::Enough;
        }
        match meter.lease.refusal(cost, self.now_us) {
            // What was said of another limit says nothing of this one.
            Have::RefusedFor(_) if meter.ledger.lock().measure != Some(measure) => Have::Ask,
            have => have,
        }
    }

    /// Takes a permit and the tokens of one level; or says what was gone, and then nothing is taken.
    fn take_level(
        &self,
        demand: &Demand<'_>,
        policy: &LevelPolicy,
        grant: &mut Grant,
    ) -> Result<(), Limited> {
        let subject = self.subject(policy.level);
        let counts = policy.level != Level::Route;
        if counts && !self.take_permit(subject, policy.max_in_flight) {
            return Err(Limited::Concurrency);
        }
        let cost = demand.cost_at(policy.level);
        let (mut n_taken, mut short, mut is_low) = (0, None, false);
        each_meter(subject, demand, policy, |meter, measure| {
            if self.fresh.is_some_and(|fresh| fresh.take(meter.key, cost)) {
                n_taken += 1;
                return true;
            }
            match meter.lease.take(cost, self.now_us) {
                Some(left) => {
                    n_taken += 1;
                    is_low |= !self.terms.is_exact(&measure) && meter.lease.is_low(left, self.now_us);
                }
                None if cost == 0 => n_taken += 1,
                None => short = Some(measure.limited()),
            }
            short.is_none()
        });
        if is_low {
            subject.call_soon();
        }
        let Some(short) = short else {
            self.hold(demand, policy, n_taken > 0, grant);
            return Ok(());
        };
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
        Err(short)
    }

    fn has_permit(&self, subject: &Subject, limit: u32) -> bool {
        let seen = subject.permits.read();
        let cap = self.fresh.and_then(Fresh::cap).unwrap_or_else(|| subject.permits.worth(self.now_us));
        seen.used < cap.min(limit)
            || (subject.is_learning(self.now_us) && seen.used < self.share(subject, limit))
    }

    /// A permit of the loan; while the store learns, of this router's share.
    fn take_permit(&self, subject: &Subject, limit: Option<u32>) -> bool {
        let Some(limit) = limit else { return subject.permits.take_below(u32::MAX) };
        let is_taken = match self.fresh.and_then(Fresh::cap) {
            Some(cap) => subject.permits.take_below(cap.min(limit)),
            None => subject.permits.take(limit, self.now_us),
        };
        is_taken
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

/// The first limit of a level.
fn first_of(policy: &LevelPolicy) -> Limited {
    match (policy.max_in_flight, policy.bucket) {
        (Some(_), _) => Limited::Concurrency,
        (None, Some(_)) => Limited::Rate,
        (None, None) => Limited::Quota,
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

    use super::super::op::Session;
    use super::super::queue::{Queued, queue};
    use super::super::terms::DEFAULT_TTL;
    use super::*;
    use crate::{BucketPolicy, Levels, ManualClock, WindowPolicy, Windows};

    /// Terms, a tenant and the ceiling, at a time; and the way to the store, where nobody listens.
    struct World {
        clock: ManualClock,
        terms: Terms,
        id: TenantId,
        subjects: [Arc<Subject>; 2],
        _queued: Queued<Subject>,
    }

    fn world() -> World {
        let (clock, (calls, _queued)) = (ManualClock::at(1_000_000), queue());
        let session = Session::parse("sessiona").unwrap();
        let budget = crate::DEFAULT_BUDGET;
        let terms = Terms::new(session, DEFAULT_TTL, budget, Mode::Lease, 1, clock.clone().into());
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let subjects = [Some(id), None].map(|id| Subject::new(id, calls.clone()));
        World { clock, terms, id, subjects, _queued }
    }

    impl World {
        fn taker(&self, now_us: u64) -> Taker<'_> {
            let [tenant, ceiling] = &self.subjects;
            Taker { terms: &self.terms, tenant, ceiling, now_us, is_told: false, of: Of::All, fresh: None }
        }
    }

    #[test]
    fn who_slept_while_it_took_takes_nothing_of_a_loan_that_may_have_ended() {
        let world = world();
        let plan = LevelPolicy { max_in_flight: Some(9), ..LevelPolicy::unlimited(Level::Tenant) };
        let (levels, now_us) = (Levels::new(&[plan]).unwrap(), world.clock.now_us());
        let demand = Demand::new(&world.id, 1, &levels);
        let tenant = &world.subjects[0];
        tenant.permits.renew(9, world.terms.ends_us(now_us));
        assert!(world.taker(now_us).take(&demand, &mut Grant::new()).is_ok());
        world.clock.advance(DEFAULT_TTL);
        assert!(matches!(world.taker(now_us).take(&demand, &mut Grant::new()), Err(Short::Ask(_))));
        assert_eq!(tenant.permits.read().used, 0, "what was taken went back");
    }

    #[test]
    fn a_shadow_takes_what_each_limit_has_on_loan_and_gives_that_back() {
        let world = world();
        let windows = Windows::new(&[WindowPolicy::new(3_600, 50).unwrap()]).unwrap();
        let bucket = BucketPolicy::new("5/s".parse().unwrap(), 10).ok();
        let plan = LevelPolicy { bucket, windows, shadow: true, ..LevelPolicy::unlimited(Level::Tenant) };
        let (levels, now_us) = (Levels::new(&[plan]).unwrap(), world.clock.now_us());
        let demand = Demand::new(&world.id, 4, &levels);
        let tenant = &world.subjects[0];
        let quota = tenant.meter(MeterKey::Window(3_600));
        let meters = [&tenant.tokens, &*quota];
        let left = || meters.map(|meter| meter.lease.count());
        let untold = || meters.map(|meter| meter.ledger.lock().untold());
        for (meter, n) in meters.iter().zip([6, 1]) {
            meter.lease.renew(n, 0, world.terms.ends_us(now_us));
        }
        let taker = Taker { is_told: true, ..world.taker(now_us) };
        let mut grant = Grant::new();
        taker.take(&demand, &mut grant).unwrap();
        assert_eq!((left(), tenant.permits.read().used), ([2, 0], 1));
        grant.clear();
        assert_eq!((untold(), tenant.permits.read().used), ([-4, -1], 0), "as much as was taken of each");
        // What is left is not taken any more once the loan has ended.
        let late = Taker { now_us: world.terms.ends_us(now_us), ..taker };
        late.take_shadow(&demand, &plan, &mut Grant::new());
        assert_eq!((left(), untold()), ([2, 0], [-4, -1]));
    }
}
