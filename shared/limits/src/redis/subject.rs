//! Whose limits lie together in one slot of the store: a tenant's with those of its routes and its quotas, or the fleet's
//! ceiling. It keeps what is on loan and who waits; it decides nothing and calls nobody.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use cofferdam_model::{Level, TenantId};
use parking_lot::Mutex;

use super::lease::{PermitLease, TokenLease};
use super::ledger::{PermitLedger, TokenLedger};
use super::measure::Measure;
use super::queue::{Queue, Queueable, Queueing};
use super::want::Want;
use crate::embedded::Local;
use crate::{Demand, Held, LevelPolicy, RouteKey};

/// One tenant, or the fleet.
pub(super) struct Subject {
    /// `None` is the fleet.
    pub(super) tenant: Option<TenantId>,
    pub(super) permits: PermitLease,
    pub(super) permit_ledger: Mutex<PermitLedger>,
    /// The bucket of the plan, or of the ceiling.
    pub(super) tokens: Meter,
    /// Buckets of routes, and quotas; few tenants have any.
    more: Mutex<Vec<Arc<Meter>>>,
    pub(super) desk: Mutex<Desk>,
    queueing: Queueing,
    /// Until then the store learns who holds what, and grants nothing.
    learning_until_us: AtomicU64,
    queue: Queue<Self>,
    me: Weak<Self>,
}

/// Tokens of one kind: those on loan, and the account of them.
pub(super) struct Meter {
    pub(super) key: MeterKey,
    pub(super) lease: TokenLease,
    pub(super) ledger: Mutex<TokenLedger>,
    /// What stands in while the store is away.
    pub(super) alone: Mutex<Local>,
}

/// Which of a subject's meters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MeterKey {
    /// The plan's bucket, or the ceiling's.
    Plan,
    /// A route's.
    Route(RouteKey),
    /// The quota of a window of so many seconds.
    Window(u32),
}

/// Who waits for the store's word on this subject, and whether a call is on its way.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) wants: Vec<Want>,
    pub(super) is_calling: bool,
    /// Whether there was more to say while it was on its way.
    pub(super) is_again: bool,
    /// Whether the syncer looks at it from time to time.
    pub(super) is_watched: bool,
    /// When the store last answered.
    pub(super) called_us: u64,
}

/// The route level of one request: tokens of a route's own meter, and no permit.
struct OnRoute {
    subject: Arc<Subject>,
    meter: Arc<Meter>,
}

impl Subject {
    pub(super) fn new(tenant: Option<TenantId>, queue: Queue<Self>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            tenant,
            permits: PermitLease::new(),
            permit_ledger: Mutex::default(),
            tokens: Meter::new(MeterKey::Plan),
            more: Mutex::default(),
            desk: Mutex::default(),
            queueing: Queueing::default(),
            learning_until_us: AtomicU64::new(0),
            queue,
            me: Weak::clone(me),
        })
    }

    /// The meter of `key`, which is made if there is none.
    pub(super) fn meter(&self, key: MeterKey) -> Arc<Meter> {
        let mut more = self.more.lock();
        if let Some(meter) = more.iter().find(|meter| meter.key == key) {
            return Arc::clone(meter);
        }
        let meter = Arc::new(Meter::new(key));
        more.push(Arc::clone(&meter));
        meter
    }

    /// Meters beside the plan's.
    pub(super) fn more(&self) -> Vec<Arc<Meter>> {
        self.more.lock().clone()
    }

    /// Tokens on loan, of all its meters, that nobody has spent.
    pub(super) fn idle_tokens(&self) -> u64 {
        let count = |meter: &Meter| u64::from(meter.lease.count());
        let of_more: u64 = self.more.lock().iter().map(|meter| count(meter)).sum();
        count(&self.tokens) + of_more
    }

    /// What a request holds of the route's meter.
    pub(super) fn on_route(self: &Arc<Self>, route: RouteKey) -> Arc<dyn Held> {
        let meter = self.meter(MeterKey::Route(route));
        Arc::new(OnRoute { subject: Arc::clone(self), meter })
    }

    /// Has the syncer call the store for it.
    pub(super) fn call_soon(&self) {
        if let Some(me) = self.me.upgrade() {
            self.queue.put(&me);
        }
    }

    /// Has the next call, which comes soon, give back all that idles; nothing is kept idle until `until_us`.
    pub(super) fn return_idle(&self, until_us: u64) {
        self.permits.contest.ask(until_us);
        self.tokens.lease.contest.ask(until_us);
        self.more().iter().for_each(|meter| meter.lease.contest.ask(until_us));
        self.call_soon();
    }

    /// Whether the store grants nothing yet, because it lost what it knew.
    #[inline]
    pub(super) fn is_learning(&self, now_us: u64) -> bool {
        now_us < self.learning_until_us.load(Ordering::Relaxed)
    }

    pub(super) fn learn_until(&self, until_us: u64) {
        self.learning_until_us.store(until_us, Ordering::Relaxed);
    }

    /// Gives back a permit that was taken.
    pub(super) fn release_permit(&self) {
        self.permits.release();
        // A permit that waits for nobody goes back at once where others have few.
        if self.permits.is_surplus_wanted() {
            self.call_soon();
        }
    }

    /// Gives back `n` tokens that were taken of `key`: of what is on loan, or of the share that stands in for it.
    pub(super) fn give_back(&self, key: MeterKey, is_share: bool, n: u32) {
        self.with_meter(key, |meter| match is_share {
            true => meter.refund_share(n),
            false => self.settle(meter, n.into()),
        });
    }

    /// Shows the meter of `key`.
    pub(super) fn with_meter<R>(&self, key: MeterKey, visit: impl FnOnce(&Meter) -> R) -> R {
        match key {
            MeterKey::Plan => visit(&self.tokens),
            MeterKey::Route(_) | MeterKey::Window(_) => visit(&self.meter(key)),
        }
    }

    /// Takes over what a request gives back of the tokens of `meter`, or, below zero, is charged.
    fn settle(&self, meter: &Meter, returned: i64) {
        if returned != 0 {
            meter.settle(-returned);
            self.call_soon();
        }
    }
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

impl Queueable for Subject {
    fn queueing(&self) -> &Queueing {
        &self.queueing
    }
}

impl Held for Subject {
    fn release(&self, returned: i64) {
        self.release_permit();
        if returned != 0 {
            self.settle(&self.tokens, returned);
            for meter in self.more().iter().filter(|meter| matches!(meter.key, MeterKey::Window(_))) {
                self.settle(meter, returned);
            }
        }
    }
}

impl Held for OnRoute {
    fn release(&self, returned: i64) {
        self.subject.settle(&self.meter, returned);
    }
}

impl Meter {
    /// Puts back what was taken of this router's share.
    fn refund_share(&self, n: u32) {
        self.ledger.lock().owe(-i64::from(n));
        if !matches!(self.key, MeterKey::Window(_)) {
            self.alone.lock().refund(n);
        }
    }

    fn new(key: MeterKey) -> Self {
        Self { key, lease: TokenLease::new(), ledger: Mutex::default(), alone: Mutex::default() }
    }

    /// Notes `extra` tokens that were spent beside the loan, or, below zero, that were not spent after all.
    pub(super) fn settle(&self, extra: i64) {
        self.ledger.lock().settle(extra);
        if extra < 0 {
            self.lease.forget_refusal();
        }
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject")
            .field("tenant", &self.tenant)
            .field("permits", &self.permits)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("key", &self.key).field("lease", &self.lease).finish_non_exhaustive()
    }
}
