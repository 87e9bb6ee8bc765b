//! The demand for a class's places: without repeated refusals, without any one tenant's flood, and with the slowest holds that there
//! were. It knows no compartments and reads no clock.

use std::time::Duration;

use cofferdam_model::{CellReason, TenantId};
use parking_lot::Mutex;
use tokio::time::Instant;

/// A refusal within this time after another one of the same tenant is a request that comes again, not further demand.
const COMES_AGAIN: Duration = Duration::from_secs(1);

/// How many tenants are told apart, by their hashes. More of them replace each other.
const SLOTS: usize = 256;

/// How many holds in a row are compared with the others.
const WINDOW: usize = 200;

/// The hold of a full window that stands for it: the 90th percentile, since a few slow ones are no slowdown.
const OF_WINDOW: usize = WINDOW * 9 / 10;

/// Measures the demand for one class, from any thread. Its memory is bounded, however many tenants there are.
#[derive(Debug)]
pub struct ClassMeter {
    began: Instant,
    state: Mutex<State>,
}

/// The demand for a class so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassDemand {
    /// Requests that count as demand.
    pub requests: u64,
    /// The most of them within one second.
    pub peak_per_second: u32,
    /// The highest 90th percentile of 200 holds in a row; zero before there were so many.
    pub slowest_hold: Duration,
}

#[derive(Debug)]
struct State {
    demand: ClassDemand,
    second: u64,
    in_second: u32,
    /// The places that one tenant may hold; 0 where it may hold all.
    tenant_places: u32,
    tenants: Box<[Tenant; SLOTS]>,
    window: Vec<u32>,
    holds: u64,
    held_us: u64,
}

/// One tenant's requests in one second, and its last refusal.
#[derive(Debug, Clone, Copy, Default)]
struct Tenant {
    hash: u64,
    second: u64,
    requests: u32,
    refused: Option<Instant>,
}

impl ClassMeter {
    /// Measures from `began` on.
    pub fn new(began: Instant) -> Self {
        let state = State {
            demand: ClassDemand::default(),
            second: 0,
            in_second: 0,
            tenant_places: 0,
            tenants: Box::new([Tenant::default(); SLOTS]),
            window: Vec::with_capacity(WINDOW),
            holds: 0,
            held_us: 0,
        };
        Self { began, state: Mutex::new(state) }
    }

    /// Bounds what one tenant's requests count for: what so many places could serve in a second.
    pub fn bound_tenants(&self, places: u32) {
        self.state.lock().tenant_places = places;
    }

    /// A request was given its place at `at`.
    pub fn admitted(&self, tenant: &TenantId, at: Instant) {
        let second = at.saturating_duration_since(self.began).as_secs();
        self.state.lock().count(hash(tenant), second);
    }

    /// A request was refused at `at`. Its tenant's own share is no demand for the class.
    pub fn refused(&self, tenant: &TenantId, reason: CellReason, at: Instant) {
        let (hash, second) = (hash(tenant), at.saturating_duration_since(self.began).as_secs());
        let mut state = self.state.lock();
        let tenant = state.tenant(hash);
        let before = tenant.refused.replace(at);
        let again = before.is_some_and(|before| at.saturating_duration_since(before) < COMES_AGAIN);
        if reason != CellReason::Tenant && !again {
            state.count(hash, second);
        }
    }

    /// A place was held for so long.
    pub fn held(&self, hold: Duration) {
        let us = u32::try_from(hold.as_micros()).unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        state.holds += 1;
        state.held_us = state.held_us.saturating_add(u64::from(us));
        state.window.push(us);
        if state.window.len() == WINDOW {
            let (_, slow, _) = state.window.select_nth_unstable(OF_WINDOW);
            let slow = Duration::from_micros(u64::from(*slow));
            state.demand.slowest_hold = state.demand.slowest_hold.max(slow);
            state.window.clear();
        }
    }

    /// The demand so far.
    pub fn demand(&self) -> ClassDemand {
        self.state.lock().demand
    }
}

impl State {
    /// Counts a request as demand, unless its tenant has had more in this second than its places could serve.
    fn count(&mut self, hash: u64, second: u64) {
        let most = self.most_of_tenant();
        let tenant = self.tenant(hash);
        if tenant.second != second {
            (tenant.second, tenant.requests) = (second, 0);
        }
        tenant.requests = tenant.requests.saturating_add(1);
        if tenant.requests > most {
            return;
        }
        if second > self.second {
            (self.second, self.in_second) = (second, 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        self.demand.requests += 1;
        self.demand.peak_per_second = self.demand.peak_per_second.max(self.in_second);
    }

    /// The requests that a tenant's places serve in a second at the mean hold, once a window of holds is known.
    fn most_of_tenant(&self) -> u32 {
        if self.tenant_places == 0 || self.holds < WINDOW as u64 {
            return u32::MAX;
        }
        let served = u64::from(self.tenant_places) * 1_000_000 * self.holds / self.held_us.max(1);
        u32::try_from(served.max(1)).unwrap_or(u32::MAX)
    }

    /// The tenant's slot, which another tenant may have had until now.
    fn tenant(&mut self, hash: u64) -> &mut Tenant {
        let slot = &mut self.tenants[hash as usize % SLOTS];
        if slot.hash != hash {
            *slot = Tenant { hash, ..Tenant::default() };
        }
        slot
    }
}

/// FNV-1a: short ids, no attacker, since a collision only merges two tenants' counts.
fn hash(tenant: &TenantId) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = tenant.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step);
    // The slot is chosen by the low bits, which the last byte alone moves least.
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_refused_tenant_that_comes_again_at_once_is_no_further_demand() {
        let (began, acme) = (Instant::now(), tenant("acme"));
        let meter = ClassMeter::new(began);
        meter.admitted(&acme, began);
        for at in [10, 60, 110, 900, 1_800] {
            meter.refused(&acme, CellReason::Class, began + ms(at));
        }
        assert_eq!(meter.demand().requests, 2, "one served, one refused");
        meter.refused(&acme, CellReason::Cell, began + ms(2_900));
        meter.refused(&tenant("globex"), CellReason::Cell, began + ms(2_900));
        assert_eq!((meter.demand().requests, meter.demand().peak_per_second), (4, 2));
    }

    #[test]
    fn what_is_beyond_a_tenants_share_is_no_demand() {
        let (began, acme) = (Instant::now(), tenant("acme"));
        let meter = ClassMeter::new(began);
        for at in 0..1_000 {
            meter.refused(&acme, CellReason::Tenant, began + ms(at * 5));
        }
        assert_eq!(meter.demand(), ClassDemand::default());
    }

    #[test]
    fn a_flood_of_one_tenant_counts_for_what_its_places_serve() {
        let began = Instant::now();
        let meter = ClassMeter::new(began);
        meter.bound_tenants(5);
        // At 100 ms, five places serve 50 requests in a second.
        (0..WINDOW).for_each(|_| meter.held(ms(100)));
        (0..1_000).for_each(|_| meter.admitted(&tenant("flood"), began));
        (0..30).for_each(|at| meter.admitted(&tenant(&format!("t{at}")), began));
        assert_eq!((meter.demand().requests, meter.demand().peak_per_second), (80, 80));
        (0..60).for_each(|_| meter.admitted(&tenant("flood"), began + ms(1_500)));
        assert_eq!((meter.demand().requests, meter.demand().peak_per_second), (130, 80));
    }

    #[test]
    fn a_slowdown_is_kept_and_a_few_slow_holds_are_none() {
        let meter = ClassMeter::new(Instant::now());
        for at in 0..WINDOW {
            meter.held(if at % 20 == 0 { ms(900) } else { ms(10) });
        }
        assert_eq!(meter.demand().slowest_hold, ms(10));
        (0..WINDOW).for_each(|_| meter.held(ms(110)));
        (0..3 * WINDOW).for_each(|_| meter.held(ms(10)));
        assert_eq!(meter.demand().slowest_hold, ms(110));
    }
}
