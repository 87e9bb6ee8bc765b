//! Passing several levels at once: all are taken or none, and a refusal names the strictest. It knows no table and no lock:
//! whoever brings a level holds its lock.

use std::time::Duration;

use cofferdam_model::{Level, Limited};

use super::key::{Key, Look};
use crate::{Demand, Grant, LevelPolicy, Refusal, Standing, Wait};

/// One level that a demand has to pass: its policy, the key, locked, and what the key says.
pub(super) struct Pass<'a> {
    policy: &'a LevelPolicy,
    key: &'a mut Key,
    look: Look,
}

impl<'a> Pass<'a> {
    #[inline]
    pub(super) fn new(policy: &'a LevelPolicy, key: &'a mut Key) -> Self {
        Self { policy, key, look: Look::default() }
    }

    /// What the level has against the demand, if it is no shadow.
    fn refusal(&self) -> Option<(Level, Limited, Wait)> {
        let (limited, wait) = self.look.refused.filter(|_| !self.policy.shadow)?;
        Some((self.policy.level, limited, wait))
    }
}

/// Takes every level or none; the levels come from narrow to wide, each with its key locked. `line` is how long the line of
/// the route's shape has no room, where it has none.
#[inline]
pub(super) fn take_all(
    passes: &mut [Pass<'_>],
    line: Option<Duration>,
    demand: &Demand<'_>,
    now_us: u64,
    grant: &mut Grant,
) -> Result<(), Refusal> {
    let mut any_refused = line.is_some();
    for Pass { policy, key, look } in passes.iter_mut() {
        key.look(policy, demand.cost_at(policy.level), now_us, look);
        any_refused |= look.refused.is_some();
    }
    if any_refused {
        if let Some(refusal) = strictest(passes, line, now_us) {
            return Err(refusal);
        }
        pass_shadows(passes, grant);
    }
    for Pass { policy, key, look } in passes.iter_mut() {
        let (held, paid) = key.take(policy, look, demand.cost_at(policy.level), now_us);
        grant.hold(held, paid);
        if policy.level == Level::Tenant {
            grant.stand_at(key.stand(policy, look, now_us));
        }
    }
    Ok(())
}

/// Where the tenant stands, by what the levels have seen: its own level, and beside it the route's.
pub(super) fn standing(passes: &[Pass<'_>], now_us: u64) -> Standing {
    let stand = |level| {
        let pass = passes.iter().find(|pass| pass.policy.level == level)?;
        Some(pass.key.stand(pass.policy, &pass.look, now_us))
    };
    let mut standing = stand(Level::Tenant).unwrap_or_default();
    if let Some(bucket) = stand(Level::Route).and_then(|route| route.bucket) {
        standing.beside_mut().route = Some(bucket);
    }
    standing
}

/// The strictest of the levels' refusals, if there is any; among equals the narrowest.
#[cold]
fn strictest(passes: &[Pass<'_>], line: Option<Duration>, now_us: u64) -> Option<Refusal> {
    let line = line.map(|wait| (Level::Route, Limited::Shape, Wait::Until(wait)));
    let refusals = line.into_iter().chain(passes.iter().filter_map(Pass::refusal));
    // Of equals, `max_by_key` takes the last.
    let (level, limited, wait) = refusals.rev().max_by_key(|(_, _, wait)| wait.strictness())?;
    Some(Refusal { level, limited, wait, standing: standing(passes, now_us) })
}

#[cold]
fn pass_shadows(passes: &[Pass<'_>], grant: &mut Grant) {
    for Pass { policy, look, .. } in passes {
        if let Some((limited, _)) = look.refused {
            grant.pass_shadow(policy.level, limited);
        }
    }
}
