//! What the workers and the syncer share: terms, subjects, and whether the store is well. It decides where to look; how things
//! are taken is in `take.rs`, and what stands in for the store in `alone.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cofferdam_model::{Level, OnStoreFailure};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::alone;
use super::breaker::Breaker;
use super::call::Call;
use super::keys::{BUCKETS, Fleet};
use super::link::Link;
use super::needs::{Needs, Short};
use super::op::{Op, Shape};
use super::patience::Waiting;
use super::queue::{Queued, queue};
use super::reply::{Reply, ShapeReply};
use super::subject::Subject;
use super::table::Table;
use super::take::{Of, Taker};
use super::terms::Terms;
use crate::embedded::Lines;
use crate::{
    Demand, Embedded, Grant, LevelPolicy, LimitStore, Refusal, RouteKey, ShapePolicy, Standing, StoreError,
    StoreMetrics,
};

/// Tenants without room in the table that have a state of their own all the same, and on routes as many.
const OVERFLOW_TENANTS: usize = 256;

pub(super) struct Core {
    pub(super) terms: Terms,
    pub(super) table: Table,
    pub(super) ceiling: Arc<Subject>,
    /// The slot of each bucket, and of the ceiling.
    slots: Box<[u16]>,
    /// Who finds no room in the table is held to this router's share: a few have a state of their own here, and the rest share.
    pub(super) overflow: Embedded,
    pub(super) counts: Counts,
    pub(super) fleet: Fleet,
    pub(super) link: Link,
    /// This router's lines of the shaped routes, for when the store is away.
    pub(super) lines: Mutex<Lines>,
    /// Whether the store has answered a roll call since this process began.
    pub(super) has_answered: watch::Sender<bool>,
}

/// What the store has done for its requests.
#[derive(Debug, Default)]
pub(super) struct Counts {
    admitted: AtomicU64,
    asked: AtomicU64,
    alone: AtomicU64,
}

impl Counts {
    pub(super) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    pub(super) fn alone(&self) -> u64 {
        self.alone.load(Ordering::Relaxed)
    }
}

impl Core {
    /// What a process shares, with nothing on loan; and where those stand who have something to say to the store.
    pub(super) fn new(terms: Terms, max_tenants: usize, fleet: Fleet, link: Link) -> (Self, Queued<Subject>) {
        let (queue, queued) = queue();
        let buckets = (0..BUCKETS).map(|bucket| fleet.epoch(bucket));
        let core = Self {
            table: Table::new(max_tenants, queue.clone()),
            ceiling: Subject::new(None, queue),
            slots: buckets.chain([fleet.ceiling_epoch()]).map(|epoch| Link::slot(&epoch)).collect(),
            overflow: Embedded::with_tenants(terms.clock.clone(), OVERFLOW_TENANTS),
            counts: Counts::default(),
            lines: Mutex::default(),
            has_answered: watch::Sender::new(false),
            terms,
            fleet,
            link,
        };
        (core, queued)
    }

    /// Somebody who takes, now.
    pub(super) fn taker<'a>(&'a self, tenant: &'a Arc<Subject>, is_told: bool) -> Taker<'a> {
        let now_us = self.terms.clock.now_us();
        Taker {
            terms: &self.terms,
            tenant,
            ceiling: &self.ceiling,
            now_us,
            is_told,
            of: Of::All,
            fresh: None,
        }
    }

    /// Whether the server answers in time that has a bucket, or the ceiling.
    pub(super) fn breaker_of(&self, bucket: Option<u16>) -> Arc<Breaker> {
        let at = bucket.map_or(self.slots.len() - 1, usize::from);
        self.link.breaker(self.slots[at])
    }

    /// Whether the server of `subject` answers in time.
    pub(super) fn breaker(&self, subject: &Subject) -> Arc<Breaker> {
        self.breaker_of(subject.tenant.as_ref().map(|tenant| self.fleet.bucket(tenant)))
    }

    /// Which of those that have to be asked are away.
    pub(super) fn away(&self, tenant: &Subject, needs: Needs) -> Needs {
        Needs {
            tenant: needs.tenant && self.breaker(tenant).is_away(),
            ceiling: needs.ceiling && self.breaker(&self.ceiling).is_away(),
            short: None,
        }
    }

    /// Takes where the ceiling's server is away: there this router's share decides, and everywhere else what is on loan.
    pub(super) fn take_apart(
        &self,
        tenant: &Arc<Subject>,
        demand: &Demand<'_>,
        grant: &mut Grant,
    ) -> Result<(), Short> {
        let taker = Taker { of: Of::Tenant, ..self.taker(tenant, false) };
        let taken = match alone::ceiling(taker, demand, grant) {
            Ok(()) => taker.take(demand, grant),
            Err(refusal) => Err(Short::Refused(refusal)),
        };
        match taken {
            Ok(()) => _ = self.counts.alone.fetch_add(1, Ordering::Relaxed),
            Err(_) => grant.clear(),
        }
        taken
    }

    /// Takes from memory what those have who need not be asked; who has too little after all is asked as well. The ceiling's
    /// server is away if `ceiling_apart`.
    pub(super) fn take_beside(
        &self,
        tenant: &Arc<Subject>,
        demand: &Demand<'_>,
        needs: &mut Needs,
        ceiling_apart: bool,
        grant: &mut Grant,
    ) -> Result<(), Refusal> {
        let taker = self.taker(tenant, false);
        if ceiling_apart {
            alone::ceiling(taker, demand, grant)?;
            self.counts.alone.fetch_add(1, Ordering::Relaxed);
        }
        let beside = [(Of::Tenant, needs.tenant), (Of::Ceiling, needs.ceiling || ceiling_apart)];
        for (of, _) in beside.into_iter().filter(|(_, is_left_out)| !is_left_out) {
            let mut taken = Grant::new();
            match (Taker { of, ..taker }).take(demand, &mut taken) {
                Ok(()) => grant.absorb(taken),
                Err(Short::Ask(more)) => {
                    needs.tenant |= more.tenant;
                    needs.ceiling |= more.ceiling;
                }
                Err(Short::Refused(refusal)) => return Err(refusal),
            }
        }
        Ok(())
    }

    /// Takes from memory.
    #[inline]
    pub(super) fn take(
        &self,
        tenant: &Arc<Subject>,
        demand: &Demand<'_>,
        grant: &mut Grant,
    ) -> Result<(), Short> {
        if demand.levels.route().is_some_and(|policy| policy.shape.is_some()) {
            // The line of a route is the store's alone.
            return Err(Short::Ask(self.taker(tenant, false).needs(demand)?));
        }
        self.taker(tenant, false).take(demand, grant)?;
        self.admitted();
        Ok(())
    }

    /// Decides without the store.
    pub(super) fn fall_back(
        &self,
        tenant: &Arc<Subject>,
        demand: &Demand<'_>,
        grant: &mut Grant,
    ) -> Result<(), Refusal> {
        self.counts.alone.fetch_add(1, Ordering::Relaxed);
        alone::decide(self.taker(tenant, false), &self.lines, demand, grant)?;
        self.admitted();
        Ok(())
    }

    /// The next turn on a shaped route, in how long that is; or, where its line has no room, how long until it has.
    pub(super) async fn turn(
        &self,
        route: RouteKey,
        shape: ShapePolicy,
    ) -> Result<Result<Duration, Duration>, StoreError> {
        let (rate, depth, max_wait) = (shape.rate(), shape.depth(), shape.max_wait());
        let mut builder = Call::builder(self.fleet.shape_epoch(route), &self.terms.session, self.terms.ttl);
        builder.op(&self.fleet.shape(route), Op::Shape(Shape { rate, depth, max_wait }));
        let call = builder.build().map_err(|_| StoreError::Gone)?;
        let breaker = self.line_breaker(route);
        let sent_us = self.terms.clock.now_us();
        let waiting = Waiting::behind(&self.terms, Arc::clone(&breaker));
        let answer = self.link.call(&call).await;
        waiting.ends();
        match &answer {
            Err(error) if error.is_silence() => breaker.gone(),
            // It is there, and meant this route's line alone.
            Err(_) => {}
            Ok(_) => breaker.answered_after(self.terms.since_us(sent_us), self.terms.budget_us),
        }
        let value = answer.map_err(|_| StoreError::Gone)?;
        match call.read(&value).map_err(|_| StoreError::Gone)?.ops.first() {
            Some(Reply::Shape(ShapeReply::Slot(delay))) => Ok(Ok(*delay)),
            Some(Reply::Shape(ShapeReply::Refused(wait))) => Ok(Err(*wait)),
            _ => Err(StoreError::Gone),
        }
    }

    /// A turn in this router's own line of a shaped route; nothing where the store's is to be had.
    pub(super) fn turn_alone(
        &self,
        tenant: &Arc<Subject>,
        demand: &Demand<'_>,
        grant: &mut Grant,
    ) -> Option<Result<(), Refusal>> {
        self.line_breaker(demand.route)
            .is_away()
            .then(|| alone::turn(self.taker(tenant, false), &self.lines, demand, grant))
    }

    /// Decides for a tenant that the table has no room for: by this router's share; and where the store is away (for this
    /// request alone if it `failed`), as `demand.on_store_failure` says.
    pub(super) fn overflow(
        &self,
        demand: &Demand<'_>,
        grant: &mut Grant,
        failed: bool,
    ) -> Result<(), Refusal> {
        let is_away = |level| failed || self.is_level_away(demand, level);
        let mut levels = self.terms.sharers.place(Some(demand.tenant)).levels(demand);
        match demand.on_store_failure {
            OnStoreFailure::Local => {}
            OnStoreFailure::Open => levels.each_mut(|policy| {
                if is_away(policy.level) {
                    *policy = LevelPolicy { shadow: policy.shadow, ..LevelPolicy::unlimited(policy.level) };
                }
            }),
            OnStoreFailure::Closed => {
                if levels.as_slice().iter().any(|policy| is_away(policy.level)) {
                    return Err(Refusal::store_away(self.overflow_standing(demand)));
                }
            }
        }
        self.overflow.fall_back(&Demand { levels: &levels, ..*demand }, grant)?;
        let now_us = self.terms.clock.now_us();
        // Who stands in it is let through as slowly as all others whom this router lets through by itself.
        alone::line(&self.terms, &self.lines, demand, grant, now_us).map_err(|(level, limited, wait)| {
            grant.clear();
            Refusal { level, limited, wait, standing: self.overflow_standing(demand) }
        })
    }

    /// Whether a server is away that has something of this level.
    fn is_level_away(&self, demand: &Demand<'_>, level: Level) -> bool {
        let bucket = (level != Level::Fleet).then(|| self.fleet.bucket(demand.tenant));
        let is_shaped = level == Level::Route && demand.levels.route().is_some_and(|it| it.shape.is_some());
        self.breaker_of(bucket).is_away() || (is_shaped && self.line_breaker(demand.route).is_away())
    }

    fn overflow_standing(&self, demand: &Demand<'_>) -> Standing {
        let look = |policy| self.overflow.look(demand.tenant, demand.route, policy);
        demand.levels.get(Level::Tenant).map(look).unwrap_or_default()
    }

    /// Whether the server answers in time that has the line of `route`.
    fn line_breaker(&self, route: RouteKey) -> Arc<Breaker> {
        self.link.breaker(Link::slot(&self.fleet.shape_epoch(route)))
    }

    /// What the store holds in this process's memory.
    pub(super) fn metrics(&self) -> StoreMetrics {
        StoreMetrics {
            admitted: self.counts.admitted.load(Ordering::Relaxed),
            fleet_in_flight: self.ceiling.permits.read().used,
            tenants: self.table.len(),
            tenants_max: self.table.max(),
            evicted: self.table.forgotten(),
            overflowed: self.table.overflowed(),
            ..StoreMetrics::default()
        }
    }

    /// A request was admitted.
    pub(super) fn admitted(&self) {
        self.counts.admitted.fetch_add(1, Ordering::Relaxed);
    }

    /// A request waits for the store.
    pub(super) fn asked(&self) {
        self.counts.asked.fetch_add(1, Ordering::Relaxed);
    }
}
