//! What a request does that needs the store's word: it puts its want on the desk of each subject that has to be asked, waits
//! for their answers, which come together, and takes what was granted.

use std::sync::Arc;

use cofferdam_model::{Level, Limited};
use futures_util::future::try_join_all;
use tokio::sync::oneshot;

use super::core::Core;
use super::needs::Needs;
use super::patience::Waiting;
use super::subject::Subject;
use super::take::Short;
use super::want::{Reserved, Told, Want};
use crate::refusal::Refused;
use crate::{Decision, Demand, Grant, OwnedDemand, Refusal, StoreError, Wait};

/// How often a request asks again because others were faster, before it is refused for them.
const MAX_ASKS: u32 = 8;

/// Asks for `question` until it is decided; with `ceiling_apart` the ceiling is away, and this router's share of it decides.
pub(super) async fn ask(
    core: Arc<Core>,
    tenant: Arc<Subject>,
    question: Arc<OwnedDemand>,
    mut needs: Needs,
    ceiling_apart: bool,
) -> Result<Decision, StoreError> {
    let demand = question.lend();
    let (mut is_stale, mut kept) = (false, Kept::default());
    for round in 0..MAX_ASKS {
        let mut told = hear(&core, &tenant, &question, needs, round).await?;
        kept.add(needs, &mut told);
        let mut grant = Grant::new();
        for (level, limited, _) in told.iter().flat_map(|told| &told.shadowed) {
            grant.pass_shadow(*level, *limited);
        }
        let taker = core.taker(&tenant, needs.any());
        let taken = match strictest(&told) {
            Some((level, limited, wait)) => {
                let standing = taker.standing(&demand);
                Err(Short::Refused(Refusal { level, limited, wait, standing }))
            }
            None if told.iter().any(|told| told.learning) => {
                return Ok(by_share(&core, &tenant, &demand, grant, kept));
            }
            None if ceiling_apart => core.take_apart(&tenant, &demand, &mut grant, needs.any()),
            None => taker.take(&demand, &mut grant),
        };
        is_stale = told.iter().any(|told| told.stale);
        match taken {
            Ok(()) => {
                kept.taken();
                return turn(&core, &tenant, &demand, grant).await;
            }
            Err(Short::Refused(refusal)) => return Ok(Decision::Refused(refusal)),
            Err(Short::Ask(again)) => {
                // What the one has granted waits while the other is asked, which else would find it gone in its turn.
                kept.leave(again);
                needs = again;
            }
        }
    }
    if is_stale {
        // That is no word on the limits.
        return Ok(by_share(&core, &tenant, &demand, Grant::new(), kept));
    }
    let standing = core.taker(&tenant, true).standing(&demand);
    let (level, limited) = needs.short.unwrap_or((Level::Tenant, Limited::Concurrency));
    Ok(Decision::Refused(Refusal { level, limited, wait: Wait::Unknown, standing }))
}

/// Decides by this router's share, since the store does not decide.
fn by_share(
    core: &Core,
    tenant: &Arc<Subject>,
    demand: &Demand<'_>,
    mut grant: Grant,
    kept: Kept,
) -> Decision {
    match core.fall_back(tenant, demand, &mut grant) {
        Ok(()) => {
            kept.taken();
            Decision::Admitted(grant)
        }
        Err(refusal) => Decision::Refused(refusal),
    }
}

/// What was granted to this one alone, by the tenant and by the ceiling. It goes back when this is dropped.
#[derive(Default)]
struct Kept([Option<Box<dyn Reserved>>; 2]);

impl Kept {
    /// Keeps what was granted by those that were asked.
    fn add(&mut self, asked: Needs, told: &mut [Told]) {
        let places = self.0.iter_mut().zip([asked.tenant, asked.ceiling]);
        let asked = places.filter(|(_, is_asked)| *is_asked);
        for ((place, _), told) in asked.zip(told) {
            *place = told.reserved.take();
        }
    }

    /// Gives back what is asked for again, since all of it is.
    fn leave(&mut self, again: Needs) {
        for (place, _) in self.0.iter_mut().zip([again.tenant, again.ceiling]).filter(|(_, asks)| *asks) {
            *place = None;
        }
    }

    /// It was taken: there is nothing to give back.
    fn taken(self) {
        self.0.into_iter().flatten().for_each(Reserved::taken);
    }
}

/// Asks whom it takes, and hears what they say. All are asked at once: waiting for one is waiting for the others.
async fn hear(
    core: &Core,
    tenant: &Arc<Subject>,
    question: &Arc<OwnedDemand>,
    needs: Needs,
    round: u32,
) -> Result<Vec<Told>, StoreError> {
    let asked = [(needs.tenant, tenant), (needs.ceiling, &core.ceiling)];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    let told = try_join_all(asked.map(|(_, subject)| {
        // Who is heard second has been waited for just as long.
        let waiting = Waiting::new(&core.terms, core.breaker(subject));
        let hears = put(subject, question, round);
        async move {
            let answer = hears.await;
            waiting.ends();
            answer.map_err(|_| StoreError::Gone)
        }
    }))
    .await?;
    if !told.is_empty() {
        core.asked();
    }
    Ok(told)
}

/// Takes a turn on a route that is shaped, last of all: a turn cannot be given back.
async fn turn(
    core: &Core,
    tenant: &Arc<Subject>,
    demand: &Demand<'_>,
    mut grant: Grant,
) -> Result<Decision, StoreError> {
    let Some((policy, shape)) = demand.levels.route().and_then(|policy| Some((policy, policy.shape?))) else {
        core.admitted();
        return Ok(Decision::Admitted(grant));
    };
    if let Some(turn) = core.turn_alone(tenant, demand, &mut grant) {
        if let Err(refusal) = turn {
            grant.clear();
            return Ok(Decision::Refused(refusal));
        }
        core.admitted();
        return Ok(Decision::Admitted(grant));
    }
    match core.turn(demand.route, shape).await? {
        Ok(_) if policy.shadow => {}
        Ok(delay) => grant.delay_by(delay),
        Err(_) if policy.shadow => grant.pass_shadow(Level::Route, Limited::Shape),
        Err(wait) => {
            grant.clear();
            let standing = core.taker(tenant, true).standing(demand);
            let (level, limited, wait) = (Level::Route, Limited::Shape, Wait::Until(wait));
            return Ok(Decision::Refused(Refusal { level, limited, wait, standing }));
        }
    }
    core.admitted();
    Ok(Decision::Admitted(grant))
}

/// Puts a want on a desk, and has the syncer look at it.
fn put(subject: &Arc<Subject>, question: &Arc<OwnedDemand>, round: u32) -> oneshot::Receiver<Told> {
    let (told, hears) = oneshot::channel();
    subject.desk.lock().wants.push(Want { question: Arc::clone(question), round, told });
    subject.call_soon();
    hears
}

/// The strictest of what was refused; among equals the narrowest.
fn strictest(told: &[Told]) -> Option<Refused> {
    let refused = told.iter().flat_map(|told| told.refused.iter().copied());
    refused.max_by_key(|(level, _, wait)| (wait.strictness(), *level))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cofferdam_model::{Alphabet, OnStoreFailure, TenantId};

    use super::super::keys::Fleet;
    use super::super::link::Link;
    use super::super::op::Session;
    use super::super::queue::{Item, Queued};
    use super::super::script::Script;
    use super::super::terms::{Mode, Terms};
    use super::*;
    use crate::{BucketPolicy, Clock, LevelPolicy, Levels, ManualClock, RouteKey, WindowPolicy, Windows};

    /// A store that grants everything to others: it has nothing against anybody, and there is never anything to take.
    async fn answer(mut queued: Queued<Subject>, stale: bool) {
        while let Some(item) = queued.next().await {
            let Item::Subject(subject) = item else { continue };
            tell(&subject, stale);
        }
    }

    fn tell(subject: &Subject, stale: bool) {
        let wants = std::mem::take(&mut subject.desk.lock().wants);
        for want in wants {
            let told =
                Told { refused: Vec::new(), shadowed: Vec::new(), learning: false, stale, reserved: None };
            drop(want.told.send(told));
        }
    }

    /// Two routers' limits, without a server.
    fn core(budget: Duration, clock: Clock) -> (Arc<Core>, Queued<Subject>) {
        let link = Link::open("redis://127.0.0.1:1".parse().unwrap(), Script::sync());
        let session = Session::parse("sessiona").unwrap();
        let terms = Terms::new(session, super::super::DEFAULT_TTL, budget, Mode::Lease, 2, clock);
        let (core, queued) = Core::new(terms, 1, Fleet::parse("f").unwrap(), link);
        (Arc::new(core), queued)
    }

    /// What is decided of a request that asks in vain.
    async fn in_vain(levels: &[LevelPolicy], stale: bool) -> Decision {
        let (core, queued) = core(Duration::from_secs(600), Clock::suspending());
        let answering = tokio::spawn(answer(queued, stale));
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let levels = Levels::new(levels).unwrap();
        let (route, on_store_failure) = (RouteKey(7), OnStoreFailure::Local);
        let demand = Demand { tenant: &id, route, cost: 1, levels: &levels, on_store_failure };
        let tenant = core.table.subject(&id).unwrap();
        let Err(Short::Ask(needs)) = core.take(&tenant, &demand, &mut Grant::new()) else { panic!() };
        let decision = ask(Arc::clone(&core), tenant, Arc::new(demand.owned()), needs, false).await.unwrap();
        answering.abort();
        decision
    }

    #[tokio::test]
    async fn who_asked_in_vain_is_told_which_limit_was_short() {
        let plain = LevelPolicy::unlimited;
        let bucket = BucketPolicy::new("5/s".parse().unwrap(), 10).ok();
        let windows = Windows::new(&[WindowPolicy::new(3_600, 5).unwrap()]).unwrap();
        let permits = |level| LevelPolicy { max_in_flight: Some(3), ..plain(level) };
        let paced = |level| LevelPolicy { bucket, ..plain(level) };
        for (levels, expected) in [
            (vec![paced(Level::Tenant), paced(Level::Route)], (Level::Route, Limited::Rate)),
            (vec![permits(Level::Fleet), paced(Level::Tenant)], (Level::Tenant, Limited::Rate)),
            (vec![permits(Level::Fleet)], (Level::Fleet, Limited::Concurrency)),
            (vec![paced(Level::Fleet), plain(Level::Tenant)], (Level::Fleet, Limited::Rate)),
            (vec![LevelPolicy { windows, ..plain(Level::Tenant) }], (Level::Tenant, Limited::Quota)),
        ] {
            let Decision::Refused(refusal) = in_vain(&levels, false).await else { panic!("{expected:?}") };
            assert_eq!(((refusal.level, refusal.limited), refusal.wait), (expected, Wait::Unknown));
        }
    }

    #[tokio::test]
    async fn answers_that_say_nothing_are_no_refusal() {
        let plan = LevelPolicy { max_in_flight: Some(2), ..LevelPolicy::unlimited(Level::Tenant) };
        // This router's share is one permit.
        assert!(matches!(in_vain(&[plan], true).await, Decision::Admitted(_)));
    }

    #[tokio::test]
    async fn whose_answer_is_missing_is_late_however_slow_the_other_was() {
        let clock = ManualClock::at(1_000_000);
        let (core, mut queued) = core(crate::DEFAULT_BUDGET, clock.clone().into());
        let permits = |level| LevelPolicy { max_in_flight: Some(3), ..LevelPolicy::unlimited(level) };
        let levels = Levels::new(&[permits(Level::Fleet), permits(Level::Tenant)]).unwrap();
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let demand = Demand::new(&id, 1, &levels);
        let tenant = core.table.subject(&id).unwrap();
        // One late answer is one request's affair.
        for is_away in [false, true] {
            let Err(Short::Ask(needs)) = core.take(&tenant, &demand, &mut Grant::new()) else { panic!() };
            let (question, asked) = (Arc::new(demand.owned()), Arc::clone(&tenant));
            let mut asking = Box::pin(ask(Arc::clone(&core), asked, question, needs, false));
            assert!(futures_util::poll!(&mut asking).is_pending());
            clock.advance(Duration::from_millis(1));
            while let Some(Item::Subject(subject)) = queued.next_now() {
                // The ceiling's server says nothing.
                if subject.tenant.is_some() {
                    tell(&subject, false);
                }
            }
            assert!(futures_util::poll!(&mut asking).is_pending());
            clock.advance(crate::DEFAULT_BUDGET - Duration::from_millis(1));
            drop(asking);
            assert_eq!(core.breaker(&core.ceiling).is_away(), is_away);
        }
    }
}
