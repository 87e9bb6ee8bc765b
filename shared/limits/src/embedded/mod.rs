//! The embedded store: every key's state in this process, decided at once under the keys' own locks. It never has to be
//! asked.

mod bucket;
mod debt;
mod key;
mod meter;
mod reading;
mod table;

use cofferdam_model::{Level, TenantId};
use parking_lot::Mutex;

use self::key::{Key, Look};
use self::table::Table;
use crate::{Answer, Clock, Demand, Grant, LevelPolicy, Levels, LimitStore, Refusal, Standing, StoreMetrics};

/// How many tenants have a state of their own, unless the store is told otherwise.
pub const DEFAULT_TENANTS: usize = 65_536;

const NO_CEILING: LevelPolicy = LevelPolicy::unlimited(Level::Fleet);

/// Limits that live in this process alone.
///
/// Its memory is bounded. A tenant whose bucket is full and that has nothing in flight is forgotten when its room is
/// needed, since that is the same as never having been here. Tenants beyond the table's room share a fixed number of
/// hashed states: they may then be refused for what others took, and are never admitted beyond their own limits.
pub struct Embedded {
    clock: Clock,
    fleet: Mutex<Fleet>,
    tenants: Table,
}

/// The fleet's one key, which every demand passes, whether a ceiling binds or not.
#[derive(Default)]
struct Fleet {
    key: Key,
    // Counted here, since every admission holds this lock anyway.
    admitted: u64,
}

/// One level that a demand has to pass: its policy, the key, locked, and what the key says.
struct Pass<'a> {
    policy: &'a LevelPolicy,
    key: &'a mut Key,
    look: Look,
}

impl Embedded {
    /// A store on `clock`, with room for [`DEFAULT_TENANTS`].
    pub fn new(clock: Clock) -> Self {
        Self::with_tenants(clock, DEFAULT_TENANTS)
    }

    /// A store on `clock` that remembers at most `n_tenants`, and at least one.
    pub fn with_tenants(clock: Clock, n_tenants: usize) -> Self {
        Self { clock, fleet: Mutex::default(), tenants: Table::new(n_tenants) }
    }

    /// Takes all levels or none. The locks are taken from narrow to wide, the least contended first, and are held until
    /// everything is taken: nobody ever sees a part of it.
    pub(crate) fn decide(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        let now_us = self.clock.now_us();
        let (cost, levels) = (demand.cost, demand.levels);
        match levels.get(Level::Tenant) {
            Some(policy) => self.tenants.with_key(demand.tenant, policy, now_us, |key| {
                let tenant = Pass::new(policy, key);
                self.with_fleet(levels, |fleet| take_all(&mut [tenant, fleet], cost, now_us, grant))
            }),
            None => self.with_fleet(levels, |fleet| take_all(&mut [fleet], cost, now_us, grant)),
        }
    }

    fn with_fleet(
        &self,
        levels: &Levels,
        decide: impl FnOnce(Pass<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let policy = levels.get(Level::Fleet).unwrap_or(&NO_CEILING);
        let mut fleet = self.fleet.lock();
        let decision = decide(Pass::new(policy, &mut fleet.key));
        fleet.admitted += u64::from(decision.is_ok());
        decision
    }
}

impl<'a> Pass<'a> {
    fn new(policy: &'a LevelPolicy, key: &'a mut Key) -> Self {
        Self { policy, key, look: Look::default() }
    }
}

/// Takes every level or none; the levels come from narrow to wide, each with its key locked.
fn take_all(passes: &mut [Pass<'_>], cost: u32, now_us: u64, grant: &mut Grant) -> Result<(), Refusal> {
    let mut any_refused = false;
    for Pass { policy, key, look } in passes.iter_mut() {
        key.look(policy, cost, now_us, look);
        any_refused |= look.refused.is_some();
    }
    if any_refused && let Some(refusal) = strictest(passes) {
        return Err(refusal);
    }
    for Pass { policy, key, look } in passes {
        let (held, tokens) = key.take(policy, look, cost, now_us);
        grant.hold(held, tokens);
        if policy.level == Level::Tenant {
            grant.stand_at(look.standing(policy));
        }
    }
    Ok(())
}

/// The strictest of the levels' refusals, if there is any; among equals the narrowest.
#[cold]
fn strictest(passes: &[Pass<'_>]) -> Option<Refusal> {
    let refusals = passes.iter().filter_map(|pass| Some((pass.policy.level, pass.look.refused?)));
    // Of equals, `max_by_key` takes the last.
    let (level, (limited, wait)) = refusals.rev().max_by_key(|(_, (_, wait))| wait.strictness())?;
    let tenant = passes.iter().find(|pass| pass.policy.level == Level::Tenant);
    let standing = tenant.map(|pass| pass.look.standing(pass.policy)).unwrap_or_default();
    Some(Refusal { level, limited, wait, standing })
}

impl LimitStore for Embedded {
    fn admit(&self, demand: &Demand<'_>, grant: &mut Grant) -> Answer {
        match self.decide(demand, grant) {
            Ok(()) => Answer::Admitted,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    fn look(&self, tenant: &TenantId, policy: &LevelPolicy) -> Standing {
        let now_us = self.clock.now_us();
        match policy.level {
            Level::Fleet => self.fleet.lock().key.standing(policy, now_us),
            Level::Tenant => self.tenants.look(tenant, policy, now_us),
        }
    }

    fn metrics(&self) -> StoreMetrics {
        let fleet = self.fleet.lock();
        let (admitted, fleet_in_flight) = (fleet.admitted, fleet.key.in_flight());
        drop(fleet);
        StoreMetrics { admitted, fleet_in_flight, ..self.tenants.metrics() }
    }
}
