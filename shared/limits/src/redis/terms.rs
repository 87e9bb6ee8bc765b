//! On what terms a process borrows from the store: its session, for how long, and which limits are asked for each request.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::contest::RecallCounts;
use super::ledger::{BLOCK_US, IDLE_US, Spare};
use super::measure::Measure;
use super::op::Session;
use super::share::Sharers;
use crate::Clock;

/// How long a session lives in the store without a word from it.
pub const DEFAULT_TTL: Duration = Duration::from_secs(6);
/// Scarce tokens are asked for again after so long, where a share of them may come.
const SCARCE_US: u64 = 50_000;
/// A share of fewer tokens or permits than this is no block.
const SMALLEST_BLOCK: u64 = 4;
/// Of a limit, all routers together may keep one part in so many at hand for tenants that send now and then: so little is
/// missed by nobody.
const SPARE_PARTS: u64 = 16;

/// How a limit is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The store is asked for each request, also for one that another level is known to refuse: the strictest is named.
    Exact,
    /// Permits and tokens are borrowed in blocks and spent from memory.
    Lease,
    /// Blocks where a limit is large enough for them, else exact.
    #[default]
    Auto,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Exact, Self::Lease, Self::Auto];
}

/// The terms of one process.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) session: Session,
    pub(super) ttl: Duration,
    pub(super) ttl_us: u64,
    /// An answer that takes longer is late.
    pub(super) budget_us: u64,
    // A place in `Mode::ALL`. It may change between two looks at it, and so may what it says of one limit, as that does with
    // the number of routers.
    mode: AtomicU8,
    pub(super) sharers: Sharers,
    pub(super) clock: Clock,
    pub(super) recalls: RecallCounts,
    seq: AtomicU64,
}

impl Terms {
    pub(super) fn new(
        session: Session,
        ttl: Duration,
        budget: Duration,
        mode: Mode,
        routers: u32,
        clock: Clock,
    ) -> Self {
        let budget_us = budget.as_micros() as u64;
        let sharers = Sharers::new(routers, session.to_string());
        Self {
            session,
            ttl,
            ttl_us: ttl.as_micros() as u64,
            budget_us,
            mode: AtomicU8::new(mode as u8),
            sharers,
            clock,
            recalls: RecallCounts::default(),
            seq: AtomicU64::new(0),
        }
    }

    /// Changes what may change while the process runs.
    pub(super) fn change(&self, mode: Mode, routers: u32) {
        self.mode.store(mode as u8, Ordering::Relaxed);
        self.sharers.configure(routers);
    }

    /// How limits are held to.
    #[inline]
    pub(super) fn mode(&self) -> Mode {
        Mode::ALL[usize::from(self.mode.load(Ordering::Relaxed))]
    }

    /// A sequence number larger than any before. One sequence serves all limits, so that a limit that was forgotten goes on
    /// where it was.
    pub(super) fn next_seq(&self) -> NonZeroU64 {
        NonZeroU64::MIN.saturating_add(self.seq.fetch_add(1, Ordering::Relaxed))
    }

    /// Until when a loan counts that was asked for at `sent_us`: a twentieth before the store's own end, which is counted
    /// from its receipt.
    pub(super) fn ends_us(&self, sent_us: u64) -> u64 {
        sent_us + self.ttl_us - self.margin_us()
    }

    /// How much sooner than the store this process takes a loan for ended.
    fn margin_us(&self) -> u64 {
        self.ttl_us / 20
    }

    /// Whether a loan that had not ended at `now_us` may have ended in the store by now.
    #[inline]
    pub(super) fn may_have_ended_since(&self, now_us: u64) -> bool {
        self.clock.now_us().saturating_sub(now_us) >= self.margin_us()
    }

    /// How long ago that was.
    pub(super) fn since_us(&self, then_us: u64) -> u64 {
        self.clock.now_us().saturating_sub(then_us)
    }

    /// When the store is to hear of a loan again.
    pub(super) fn heartbeat_us(&self) -> u64 {
        self.ttl_us / 3
    }

    /// Whether each request asks for its tokens, or for its place in a quota: where a router's share is too few for a block, or
    /// too little flows in.
    pub(super) fn is_exact(&self, measure: &Measure) -> bool {
        match self.mode() {
            Mode::Exact => true,
            Mode::Lease => false,
            Mode::Auto => {
                let is_slow = match measure {
                    Measure::Bucket(bucket) => bucket.inflow(BLOCK_US) < bucket.units(SMALLEST_BLOCK),
                    Measure::Window(_) => false,
                };
                is_slow || measure.capacity() < SMALLEST_BLOCK * u64::from(self.sharers.count())
            }
        }
    }

    /// What of a limit of `capacity` this process may keep at hand for whoever comes next.
    pub(super) fn spare(&self, capacity: u64) -> Spare {
        let most = capacity / (SPARE_PARTS * u64::from(self.sharers.count()));
        Spare { most: u32::try_from(most).unwrap_or(u32::MAX), idle_us: self.heartbeat_us().max(IDLE_US) }
    }

    /// Until when a limit counts as contended of which that was said at `now_us`; the script has the same time.
    pub(super) fn contended_until_us(&self, now_us: u64) -> u64 {
        now_us + self.ttl_us / 3
    }

    /// What nobody waits for may be at most one part in so many of what is left: what can idle here shrinks with it.
    pub(super) fn parts(&self) -> u32 {
        self.sharers.count().saturating_mul(2)
    }

    /// Whether each request asks for its permit.
    pub(super) fn is_exact_permits(&self, limit: u32) -> bool {
        match self.mode() {
            Mode::Exact => true,
            Mode::Lease => false,
            Mode::Auto => u64::from(limit) < SMALLEST_BLOCK * u64::from(self.sharers.count()),
        }
    }

    /// When it is worth asking again for tokens of which there are fewer than everybody wants: when a few more are there.
    pub(super) fn scarce_until_us(&self, measure: &Measure, now_us: u64) -> u64 {
        match measure {
            Measure::Bucket(bucket) => now_us + SCARCE_US.max(bucket.time_for(bucket.units(SMALLEST_BLOCK))),
            Measure::Window(_) => now_us + SCARCE_US,
        }
    }

    /// When it is worth asking again for tokens that were refused until `until_us`; sooner where the limit is asked for at
    /// intervals (`is_paced`), since more may have flowed in than one request needs.
    pub(super) fn ask_at_us(&self, measure: &Measure, now_us: u64, until_us: u64, is_paced: bool) -> u64 {
        match measure {
            Measure::Bucket(bucket) => {
                let shares = bucket.inflow(SCARCE_US) >= bucket.units(SMALLEST_BLOCK);
                if is_paced && shares && !self.is_exact(measure) {
                    until_us.min(now_us + SCARCE_US)
                } else {
                    until_us
                }
            }
            // Another router may give back what it holds of the quota.
            Measure::Window(_) => until_us.min(now_us + self.ttl_us),
        }
    }
}
