//! The embedded store: every key's state in this process, decided at once under the keys' own locks. It never has to be
//! asked.

mod bucket;
mod debt;
mod key;
mod local;
mod meter;
mod pass;
mod reading;
mod shapes;
mod table;
mod window;

use std::time::Duration;

use cofferdam_model::{Level, Limited, TenantId};
use parking_lot::Mutex;

use self::key::Key;
pub(crate) use self::local::{Lines, Local};
use self::pass::{Pass, standing, take_all};
use self::shapes::{Shapes, Turn};
use self::table::Table;
use crate::{
    Answer, Clock, Demand, Grant, LevelPolicy, LimitStore, Refusal, RouteKey, Standing, StoreMetrics,
};

/// How many tenants have a state of their own, unless the store is told otherwise.
pub const DEFAULT_TENANTS: usize = 65_536;

const NO_CEILING: LevelPolicy = LevelPolicy::unlimited(Level::Fleet);

/// Limits that live in this process alone.
///
/// Its memory is bounded. A tenant whose bucket is full, whose quotas count nothing any more and that has nothing in flight
/// is forgotten when its room is needed, since that is the same as never having been here. Tenants beyond the table's room
/// share a fixed number of hashed states: they may then be refused for what others took, and are never admitted beyond
/// their own limits. For tenants on routes with a limit the same holds, in a table of their own.
pub struct Embedded {
    clock: Clock,
    fleet: Mutex<Fleet>,
    tenants: Table<TenantId>,
    on_routes: Table<(TenantId, RouteKey)>,
    shapes: Mutex<Shapes>,
}

/// The fleet's one key, which every demand passes, whether a ceiling binds or not.
#[derive(Default)]
struct Fleet {
    key: Key,
    // Counted here, since every admission holds this lock anyway.
    admitted: u64,
}

impl Embedded {
    /// A store on `clock`, with room for [`DEFAULT_TENANTS`].
    pub fn new(clock: Clock) -> Self {
        Self::with_tenants(clock, DEFAULT_TENANTS)
    }

    /// A store on `clock` that remembers at most `n_tenants`, and at least one; and as many on routes.
    pub fn with_tenants(clock: Clock, n_tenants: usize) -> Self {
        Self {
            clock,
            fleet: Mutex::default(),
            tenants: Table::new(n_tenants),
            on_routes: Table::new(n_tenants),
            shapes: Mutex::default(),
        }
    }

    /// Takes all levels or none. The locks are taken from narrow to wide, the least contended first, and are held until
    /// everything is taken: nobody ever sees a part of it.
    fn decide(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        let now_us = self.clock.now_us();
        let Some(route) = demand.levels.route() else {
            return match demand.levels.get(Level::Tenant) {
                Some(policy) => self.tenants.with_key(demand.tenant, policy, now_us, |key| {
                    let tenant = Pass::new(policy, key);
                    self.with_fleet(demand, |fleet| {
                        take_all(&mut [tenant, fleet], None, demand, now_us, grant)
                    })
                }),
                None => self.with_fleet(demand, |fleet| take_all(&mut [fleet], None, demand, now_us, grant)),
            };
        };
        self.decide_on(route, demand, now_us, grant)
    }

    /// The same for a request whose route has a limit or a shape. Apart, since every other request would make room for it.
    #[inline(never)]
    fn decide_on(
        &self,
        route: &LevelPolicy,
        demand: &Demand<'_>,
        now_us: u64,
        grant: &mut Grant,
    ) -> Result<(), Refusal> {
        let mut shapes = route.shape.map(|shape| (shape, self.shapes.lock()));
        let turn = shapes.as_ref().map(|(shape, shapes)| shapes.look(demand.route, *shape, now_us));
        // A shadow lets everybody pass at once.
        let line = turn.as_ref().and_then(|turn| turn.as_ref().err().copied()).filter(|_| !route.shadow);
        let mut decide =
            |passes: &mut [Pass<'_>]| take_all_on_route(passes, line, demand, now_us, &mut *grant);
        let mut on_route = |narrow: Option<Pass<'_>>| match demand.levels.get(Level::Tenant) {
            Some(policy) => self.tenants.with_key(demand.tenant, policy, now_us, |key| {
                let tenant = Pass::new(policy, key);
                self.with_fleet(demand, |fleet| match narrow {
                    Some(narrow) => decide(&mut [narrow, tenant, fleet]),
                    None => decide(&mut [tenant, fleet]),
                })
            }),
            None => self.with_fleet(demand, |fleet| match narrow {
                Some(narrow) => decide(&mut [narrow, fleet]),
                None => decide(&mut [fleet]),
            }),
        };
        let decided = match route.limits() {
            true => {
                let name = (*demand.tenant, demand.route);
                self.on_routes.with_key(&name, route, now_us, |key| on_route(Some(Pass::new(route, key))))
            }
            false => on_route(None),
        };
        decided?;
        if let (Some(turn), Some((_, shapes))) = (turn, &mut shapes) {
            take_turn(turn.ok(), route, demand.route, shapes, now_us, grant);
        }
        Ok(())
    }

    fn with_fleet(
        &self,
        demand: &Demand<'_>,
        decide: impl FnOnce(Pass<'_>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let policy = demand.levels.get(Level::Fleet).unwrap_or(&NO_CEILING);
        let mut fleet = self.fleet.lock();
        let decision = decide(Pass::new(policy, &mut fleet.key));
        fleet.admitted += u64::from(decision.is_ok());
        decision
    }
}

/// The answers to requests on such a route say where the tenant stands on it.
fn take_all_on_route(
    passes: &mut [Pass<'_>],
    line: Option<Duration>,
    demand: &Demand<'_>,
    now_us: u64,
    grant: &mut Grant,
) -> Result<(), Refusal> {
    take_all(passes, line, demand, now_us, grant)?;
    grant.stand_at(standing(passes, now_us));
    Ok(())
}

fn take_turn(
    turn: Option<Turn>,
    policy: &LevelPolicy,
    route: RouteKey,
    shapes: &mut Shapes,
    now_us: u64,
    grant: &mut Grant,
) {
    let Some(turn) = turn else { return grant.pass_shadow(Level::Route, Limited::Shape) };
    shapes.take(route, &turn, now_us);
    if !policy.shadow {
        grant.delay_by(turn.delay);
    }
}

impl LimitStore for Embedded {
    fn admit(&self, demand: &Demand<'_>, grant: &mut Grant) -> Answer {
        match self.decide(demand, grant) {
            Ok(()) => Answer::Admitted,
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    /// It is never away, and so decides as always.
    fn fall_back(&self, demand: &Demand<'_>, grant: &mut Grant) -> Result<(), Refusal> {
        self.decide(demand, grant)
    }

    fn look(&self, tenant: &TenantId, route: RouteKey, policy: &LevelPolicy) -> Standing {
        let now_us = self.clock.now_us();
        match policy.level {
            Level::Fleet => self.fleet.lock().key.standing(policy, now_us),
            Level::Tenant => self.tenants.look(tenant, policy, now_us),
            Level::Route => self.on_routes.look(&(*tenant, route), policy, now_us),
        }
    }

    fn metrics(&self) -> StoreMetrics {
        let fleet = self.fleet.lock();
        let (admitted, fleet_in_flight) = (fleet.admitted, fleet.key.in_flight());
        drop(fleet);
        let on_routes = self.on_routes.metrics();
        let tenants = self.tenants.metrics();
        StoreMetrics {
            admitted,
            fleet_in_flight,
            on_routes: on_routes.tenants,
            evicted: tenants.evicted + on_routes.evicted,
            overflowed: tenants.overflowed + on_routes.overflowed,
            ..tenants
        }
    }
}
