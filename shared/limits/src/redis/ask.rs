//! What a request does that needs the store's word: it puts its want on the desk of each subject that has to be asked, waits
//! once for their answers, and is decided by them: what was granted is taken for it before it hears of it.

use std::sync::Arc;
use std::time::Duration;

use cofferdam_model::{Level, Limited};
use futures_util::future::try_join_all;
use tokio::sync::oneshot;

use super::core::Core;
use super::needs::Needs;
use super::patience::Waiting;
use super::subject::Subject;
use super::terms::Mode;
use super::want::{Told, Want};
use crate::refusal::Refused;
use crate::{Decision, Demand, Grant, OwnedDemand, Refusal, StoreError, Wait};

/// Asks for `question`, once, and decides it by what was said; with `ceiling_apart` the ceiling is away, and this router's share
/// of it decides. What memory has of the others is taken before, so that it is there still when the answer comes.
pub(super) async fn ask(
    core: Arc<Core>,
    tenant: Arc<Subject>,
    question: Arc<OwnedDemand>,
    mut needs: Needs,
    ceiling_apart: bool,
) -> Result<Decision, StoreError> {
    let (demand, mut grant) = (question.lend(), Grant::new());
    let beside = core.take_beside(&tenant, &demand, &mut needs, ceiling_apart, &mut grant);
    let beside = match beside {
        // Who asks for each request is told the strictest.
        Err(refusal) if core.terms.mode() == Mode::Exact && needs.any() => {
            Some((refusal.level, refusal.limited, refusal.wait))
        }
        Err(refusal) => return Ok(Decision::Refused(refusal)),
        Ok(()) => None,
    };
    let told = hear(&core, &tenant, &question, needs).await?;
    if let Some((level, limited, wait)) = strictest(&told, beside) {
        // What one has granted goes back before it is looked where the tenant stands.
        drop((told, grant));
        let standing = core.taker(&tenant, true).standing(&demand);
        return Ok(Decision::Refused(Refusal { level, limited, wait, standing }));
    }
    let is_unknown = told.iter().any(|told| told.is_unknown);
    for Told { shadowed, grant: taken, .. } in told {
        shadowed.iter().for_each(|(level, limited, _)| grant.pass_shadow(*level, *limited));
        grant.absorb(taken);
    }
    if is_unknown {
        grant.clear();
        return Ok(match core.fall_back(&tenant, &demand, &mut grant) {
            Ok(()) => Decision::Admitted(grant),
            Err(refusal) => Decision::Refused(refusal),
        });
    }
    grant.stand_at(core.taker(&tenant, true).standing(&demand));
    turn(&core, &tenant, &demand, grant).await
}

/// Asks whom it takes, and hears what they say. All are asked at once: waiting for one is waiting for the others.
async fn hear(
    core: &Core,
    tenant: &Arc<Subject>,
    question: &Arc<OwnedDemand>,
    needs: Needs,
) -> Result<Vec<Told>, StoreError> {
    let asked = [(needs.tenant, tenant), (needs.ceiling, &core.ceiling)];
    let asked = asked.into_iter().filter(|(is_asked, _)| *is_asked);
    let told = try_join_all(asked.map(|(_, subject)| {
        // Who is heard second has been waited for just as long.
        let waiting = Waiting::new(&core.terms, core.breaker(subject));
        let hears = put(subject, question, Duration::from_micros(core.terms.budget_us));
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
fn put(subject: &Arc<Subject>, question: &Arc<OwnedDemand>, budget: Duration) -> oneshot::Receiver<Told> {
    let (told, hears) = oneshot::channel();
    subject.desk.lock().wants.push(Want::new(Arc::clone(question), told, budget));
    subject.call_soon();
    hears
}

/// The strictest of what was refused; among equals the narrowest.
fn strictest(told: &[Told], beside: Option<Refused>) -> Option<Refused> {
    let refused = told.iter().flat_map(|told| told.refused.iter().copied());
    refused.chain(beside).max_by_key(|(level, _, wait)| (wait.strictness(), *level))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use cofferdam_model::{Alphabet, TenantId};

    use super::super::keys::Fleet;
    use super::super::link::Link;
    use super::super::needs::Short;
    use super::super::op::Session;
    use super::super::queue::{Item, Queued};
    use super::super::script::Script;
    use super::super::store::RedisStore;
    use super::super::terms::Terms;
    use super::*;
    use crate::{Admission, BucketPolicy, Clock, LevelPolicy, Levels, Limits, ManualClock};

    /// What the store says to everybody.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Says {
        /// All was taken for the one who waits.
        Yes,
        No,
        NothingOfTheLimits,
        Nothing,
    }

    fn tell(subject: &Subject, says: Says) {
        for want in std::mem::take(&mut subject.desk.lock().wants) {
            let level = if subject.tenant.is_some() { Level::Tenant } else { Level::Fleet };
            let refused =
                if says == Says::No { vec![(level, Limited::Rate, Wait::Unknown)] } else { Vec::new() };
            let is_unknown = says == Says::NothingOfTheLimits;
            let told = Told { refused, shadowed: Vec::new(), is_unknown, grant: Grant::new() };
            drop(want.told.send(told));
        }
    }

    /// Answers each after a millisecond; and how many it has answered.
    async fn answer(mut queued: Queued<Subject>, says: Says, n_asked: Arc<AtomicUsize>) {
        while let Some(item) = queued.next().await {
            let Item::Subject(subject) = item else { continue };
            n_asked.fetch_add(subject.desk.lock().wants.len(), Ordering::Relaxed);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                match says {
                    // Who waits keeps waiting.
                    Says::Nothing => std::future::pending().await,
                    _ => tell(&subject, says),
                }
            });
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

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_one_answer_of_each_at_once_whatever_they_say() {
        let bucket = BucketPolicy::new("5/s".parse().unwrap(), 10).ok();
        let paced = |level| LevelPolicy { bucket, ..LevelPolicy::unlimited(level) };
        for asked in [vec![Level::Tenant], vec![Level::Fleet], vec![Level::Fleet, Level::Tenant]] {
            let policies: Vec<_> = asked.iter().map(|level| paced(*level)).collect();
            let levels = Levels::new(&policies).unwrap();
            for (says, is_admitted, took_ms) in [
                (Says::Yes, true, 1),
                (Says::No, false, 1),
                // This router's share decides.
                (Says::NothingOfTheLimits, true, 1),
                (Says::Nothing, true, 5),
            ] {
                let (core, queued) = core(crate::DEFAULT_BUDGET, ManualClock::at(1_000_000).into());
                let n_asked = Arc::<AtomicUsize>::default();
                let answering = tokio::spawn(answer(queued, says, Arc::clone(&n_asked)));
                let limits = Limits::new(Arc::new(RedisStore(core)), crate::DEFAULT_BUDGET);
                let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
                let begun = tokio::time::Instant::now();
                let Admission::Pending(pending) = limits.admit(&Demand::new(&id, 1, &levels)) else {
                    panic!("{asked:?} is decided from memory")
                };
                assert_eq!(pending.await.is_ok(), is_admitted, "{asked:?} {says:?}");
                // A timer may round up to its next millisecond.
                let took = begun.elapsed().as_millis();
                assert!((took_ms..=took_ms + 1).contains(&took), "{asked:?} {says:?}: {took} ms");
                assert_eq!(n_asked.load(Ordering::Relaxed), asked.len(), "{asked:?} {says:?}");
                answering.abort();
            }
        }
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
                    tell(&subject, Says::Yes);
                }
            }
            assert!(futures_util::poll!(&mut asking).is_pending());
            clock.advance(crate::DEFAULT_BUDGET - Duration::from_millis(1));
            drop(asking);
            assert_eq!(core.breaker(&core.ceiling).is_away(), is_away);
        }
    }
}
