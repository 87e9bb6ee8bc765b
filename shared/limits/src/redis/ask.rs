//! What a request does that needs the store's word: it puts its want on the desk of each subject that has to be asked, waits
//! for their answers, which come together, and takes what was granted.

use std::sync::Arc;

use cofferdam_model::{Level, Limited};
use tokio::sync::oneshot;

use super::core::Core;
use super::subject::Subject;
use super::take::{Needs, Short};
use super::want::{Told, Want};
use crate::refusal::Refused;
use crate::{Decision, Demand, Grant, OwnedDemand, Refusal, StoreError, Wait};

/// How often a request asks again because others were faster, before it is refused for them.
const MAX_ASKS: u32 = 8;

/// Asks for `question` until it is decided.
pub(super) async fn ask(
    core: Arc<Core>,
    tenant: Arc<Subject>,
    question: Arc<OwnedDemand>,
    mut needs: Needs,
) -> Result<Decision, StoreError> {
    let demand = question.lend();
    for round in 0..MAX_ASKS {
        let told = hear(&core, &tenant, &question, needs, round).await?;
        let mut grant = Grant::new();
        for (level, limited, _) in told.iter().flat_map(|told| &told.shadowed) {
            grant.pass_shadow(*level, *limited);
        }
        let taker = core.taker(&tenant, needs != Needs::default());
        let taken = match strictest(&told) {
            Some((level, limited, wait)) => {
                let standing = taker.standing(&demand);
                Err(Short::Refused(Refusal { level, limited, wait, standing }))
            }
            None if told.iter().any(|told| told.learning) => {
                let decided = core.fall_back(&tenant, &demand, &mut grant);
                return Ok(decided.map_or_else(Decision::Refused, |()| Decision::Admitted(grant)));
            }
            None => taker.take(&demand, &mut grant),
        };
        let Err(short) = taken else { return turn(&core, &tenant, &demand, grant).await };
        // What was granted for this one alone goes back.
        for told in told.iter().filter(|told| told.reserved.is_some()) {
            taker.surrender(&demand, told.is_ceiling);
        }
        match short {
            Short::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            Short::Ask(again) => needs = again,
        }
    }
    let standing = core.taker(&tenant, true).standing(&demand);
    let level = if needs.tenant { Level::Tenant } else { Level::Fleet };
    Ok(Decision::Refused(Refusal { level, limited: Limited::Concurrency, wait: Wait::Unknown, standing }))
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
    let hears: Vec<_> = asked
        .into_iter()
        .filter(|(is_asked, _)| *is_asked)
        .map(|(_, subject)| put(subject, question, round))
        .collect();
    let mut told = Vec::with_capacity(hears.len());
    for hears in hears {
        told.push(hears.await.map_err(|_| StoreError::Gone)?);
    }
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
