//! What one subject has to say to the store and to ask of it: its loans, what goes back, and who waits. It binds the process
//! to what it says before it is said; what the store answers is for `apply.rs`.

use std::sync::Arc;
use std::time::Instant;

use cofferdam_model::Level;

use super::call::CallBuilder;
use super::exchange::{Exchange, Metered, Of, Part};
use super::keys::{Fleet, Key};
use super::measure::Measure;
use super::op::{Dealing, Keeps, Op, Permits, Report, Tokens, Window};
use super::subject::{MeterKey, Subject, each_meter};
use super::terms::Terms;
use super::want::Want;
use crate::{Demand, LevelPolicy};

/// Those who wait and are served by one call.
const MAX_WANTS: usize = 64;

/// Adds to `call` what `subject` has to say, and remembers it; `None` where it has nothing to say, or a call is out already. While
/// the store `is_away` nothing is said that it must hear exactly once.
pub(super) fn compose(
    subject: &Arc<Subject>,
    terms: &Terms,
    fleet: &Fleet,
    now_us: u64,
    is_away: bool,
    call: &mut CallBuilder,
) -> Option<Exchange> {
    let wants = take_wants(subject)?;
    let parts = Vec::new();
    let mut composer = Composer { subject, terms, fleet, now_us, is_away, call, wants: &wants, parts };
    composer.shared();
    for at in 0..wants.len() {
        composer.alone(at);
    }
    let parts = composer.parts;
    if parts.is_empty() && wants.is_empty() {
        subject.desk.lock().is_calling = false;
        return None;
    }
    Some(Exchange { subject: Arc::clone(subject), sent_us: now_us, parts, wants })
}

/// Those who wait for the next call, which from here on is out; `None` where one is out already.
fn take_wants(subject: &Subject) -> Option<Vec<Want>> {
    let mut desk = subject.desk.lock();
    if desk.is_calling {
        desk.is_again = true;
        return None;
    }
    desk.is_calling = true;
    let (now, mut wants) = (Instant::now(), Vec::new());
    for want in std::mem::take(&mut desk.wants) {
        // Whoever has given up waiting wants nothing any more.
        if want.told.is_closed() {
            continue;
        }
        let is_taken = wants.len() < MAX_WANTS && want.is_ready(now);
        if is_taken { wants.push(want) } else { desk.wants.push(want) }
    }
    Some(wants)
}

struct Composer<'a> {
    subject: &'a Arc<Subject>,
    terms: &'a Terms,
    fleet: &'a Fleet,
    now_us: u64,
    is_away: bool,
    call: &'a mut CallBuilder,
    wants: &'a [Want],
    parts: Vec<Part>,
}

/// A part with its op and key, before it is said.
type Line = (Key, Op, Part);

impl Composer<'_> {
    /// What is said for everybody: loans that are renewed, raised or given back.
    fn shared(&mut self) {
        let permits = self.shared_permits();
        let meters = self.meters();
        let owed: Vec<_> = meters.iter().filter_map(|meter| self.owed(meter.clone())).collect();
        let tokens: Vec<_> = meters.into_iter().filter_map(|meter| self.shared_tokens(meter)).collect();
        for (key, op, part) in permits.into_iter().chain(owed).chain(tokens) {
            self.call.op(&key, op);
            self.parts.push(part);
        }
    }

    fn shared_permits(&self) -> Option<Line> {
        let subject = self.subject;
        let mut ledger = subject.permit_ledger.lock();
        let mut n_waiting = 0_u32;
        for limit in self.wants.iter().filter_map(|want| permits_of(subject, &want.question.lend())) {
            (n_waiting, ledger.limit) = (n_waiting + 1, Some(limit));
        }
        let limit = ledger.limit?;
        let (is_exact, contest) = (self.terms.is_exact_permits(limit), &subject.permits.contest);
        let has_spare = !is_exact && !contest.is_on(self.now_us);
        subject.permits.set_exact(!has_spare);
        if is_exact && n_waiting > 0 {
            return None;
        }
        let is_asked = contest.take_asked();
        let (seen, spare) = (subject.permits.read(), self.terms.spare(limit.into()));
        let keep = if !has_spare || is_asked {
            seen.used
        } else {
            let is_moving = subject.tokens.ledger.lock().is_moving(spare.idle_us(1), self.now_us);
            let keep = ledger.keep(seen.used, n_waiting > 0 || is_moving, spare, self.now_us);
            // Who waits takes what is free first.
            if n_waiting > 0 { keep.max(seen.cap) } else { keep }
        };
        let held = subject.permits.bind(keep, self.now_us);
        // What waits for tokens alone takes a permit that is free here. Others may have taken it by then, so as many more are
        // wanted, where there are plenty.
        let free = held.saturating_sub(seen.used);
        let need = n_waiting.saturating_sub(free);
        let most =
            if has_spare { ledger.want(n_waiting, seen.used, spare).saturating_sub(free) } else { need };
        let want = most.max(need);
        let dealing = self.dealing(need, true, has_spare, is_asked);
        if held == 0 && want == 0 && !ledger.has_account {
            return None;
        }
        ledger.has_account = held > 0 || want > 0;
        let op = Permits { limit, seq: self.terms.next_seq(), held: Some(held), want, min: 0, dealing };
        let of = Of::Permits { limit, held: Some(held) };
        let part = Part { alone: None, want, shadow: false, is_paced: false, of };
        Some((self.permits_key(), Op::Permits(op), part))
    }

    /// How what is left is dealt out: without credit nobody is asked to return anything, and all of it may be had at once.
    fn dealing(&self, need: u32, has_credit: bool, has_spare: bool, is_asked: bool) -> Dealing {
        let keeps = match (has_spare, is_asked) {
            (false, _) => Keeps::Nothing,
            (true, false) => Keeps::Spare,
            (true, true) => Keeps::Returned,
        };
        match has_credit {
            true => Dealing { need, parts: self.terms.parts(), keeps },
            false => Dealing { need: 0, parts: 1, keeps },
        }
    }

    /// What this router's share admitted while the store was away.
    fn owed(&self, metered: Metered) -> Option<Line> {
        let mut ledger = metered.of(self.subject).ledger.lock();
        let measure = ledger.measure.filter(|_| ledger.is_charged() && !self.is_away)?;
        let owed = ledger.take_owed();
        drop(ledger);
        let of = Of::Owed { meter: metered.clone(), owed };
        let (key, op, part) = self.line(None, metered, measure, Report::Spent(owed), (0, 0), Dealing::PLAIN);
        Some((key, op, Part { of, ..part }))
    }

    fn shared_tokens(&self, metered: Metered) -> Option<Line> {
        let meter = metered.clone();
        let meter = meter.of(self.subject);
        let mut ledger = meter.ledger.lock();
        let mut needed = Needed::default();
        for want in self.wants {
            if let Some((measure, cost)) = measure_of(self.subject, &want.question.lend(), metered.key) {
                ledger.measure = Some(measure);
                needed.add(cost);
            }
        }
        let measure = ledger.measure?;
        if self.terms.is_exact(&measure) {
            let owes = needed.n == 0 && ledger.owes();
            return owes.then(|| {
                let report = Report::Spent(ledger.take_extra());
                self.line(None, metered, measure, report, (0, 0), Dealing::PLAIN)
            });
        }
        let (lease, spare) = (&meter.lease, self.terms.spare(measure.capacity()));
        if lease.has_ended(self.now_us) {
            ledger.let_go(lease.expire());
        } else if ledger.look(lease.count(), spare, self.now_us) && needed.n == 0 {
            ledger.let_go(lease.take_up_to(u32::MAX));
        }
        let (is_on, is_asked) = (lease.contest.is_on(self.now_us), lease.contest.take_asked());
        let is_wanted = needed.n > 0 || ledger.want(0, lease.count(), spare) > 0;
        let has_credit = !(is_on || is_wanted) || lease.contest.pay(self.now_us);
        let has_spare = !(is_on && has_credit);
        if is_asked || !has_spare {
            ledger.let_go(lease.take_up_to(u32::MAX));
        }
        let count = lease.count();
        let missing = needed.sum.saturating_sub(u64::from(count));
        let need = u32::try_from(missing).unwrap_or(u32::MAX);
        // As with permits, those who wait get theirs beside what is there, where there is plenty.
        let want = if has_spare { ledger.want(needed.sum, count, spare) } else { need };
        let dealing = self.dealing(need, has_credit, has_spare, is_asked);
        if count == 0 && want == 0 && !ledger.has_account {
            return None;
        }
        ledger.has_account = count > 0 || want > 0;
        let min = if missing == 0 { 0 } else { needed.least.min(want) };
        let report = Report::Account { seq: self.terms.next_seq(), held: count, spent: ledger.spent(count) };
        let (key, op, part) = self.line(None, metered, measure, report, (want, min), dealing);
        Some((key, op, Part { is_paced: !has_credit, ..part }))
    }

    /// What is asked for one who waits: exact limits, all of them or none.
    fn alone(&mut self, at: usize) {
        let demand = self.wants[at].question.lend();
        let mut lines: Vec<Line> = self.alone_permits(at, &demand).into_iter().collect();
        for metered in self.meters() {
            let Some((measure, cost)) = measure_of(self.subject, &demand, metered.key) else { continue };
            if self.terms.is_exact(&measure) {
                let extra = metered.of(self.subject).ledger.lock().take_extra();
                let min = if shadow_of(self.subject, &demand, metered.key) { 0 } else { cost };
                let (report, dealing) = (Report::Spent(extra), Dealing { need: min, ..Dealing::PLAIN });
                lines.push(self.line(Some(at), metered, measure, report, (cost, min), dealing));
            }
        }
        if lines.is_empty() {
            return;
        }
        let ops: Vec<_> = lines.iter().map(|(key, op, _)| (key, *op)).collect();
        self.call.group(&ops);
        self.parts.extend(lines.into_iter().map(|(_, _, part)| part));
    }

    fn alone_permits(&self, at: usize, demand: &Demand<'_>) -> Option<Line> {
        let subject = self.subject;
        let limit = permits_of(subject, demand).filter(|limit| self.terms.is_exact_permits(*limit))?;
        let is_first = !self.parts.iter().any(|part| matches!(part.of, Of::Permits { .. }));
        let kept = subject.permits.read().used;
        let held = is_first.then(|| subject.permits.bind(kept, self.now_us));
        subject.permit_ledger.lock().has_account = true;
        let shadow = is_shadow(subject, demand);
        let min = u32::from(!shadow);
        let dealing = Dealing { need: min, ..Dealing::PLAIN };
        let op = Permits { limit, seq: self.terms.next_seq(), held, want: 1, min, dealing };
        let of = Of::Permits { limit, held };
        let part = Part { alone: Some(at), want: 1, shadow, is_paced: false, of };
        Some((self.permits_key(), Op::Permits(op), part))
    }

    fn line(
        &self,
        alone: Option<usize>,
        meter: Metered,
        measure: Measure,
        report: Report,
        (want, min): (u32, u32),
        dealing: Dealing,
    ) -> Line {
        let op = match measure {
            Measure::Bucket(bucket) => Op::Tokens(Tokens { bucket, report, want, min, dealing }),
            Measure::Window(window) => {
                let (window_s, limit) = (window.window_s(), window.limit());
                Op::Window(Window { window_s, limit, report, want, min, dealing })
            }
        };
        let key = self.meter_key(meter.key);
        (
            key,
            op,
            Part {
                alone,
                want,
                shadow: alone.is_some() && min < want,
                is_paced: false,
                of: Of::Tokens { meter, measure, min },
            },
        )
    }

    fn permits_key(&self) -> Key {
        match &self.subject.tenant {
            Some(tenant) => self.fleet.permits(tenant),
            None => self.fleet.ceiling_permits(),
        }
    }

    fn meter_key(&self, key: MeterKey) -> Key {
        match (&self.subject.tenant, key) {
            (Some(tenant), MeterKey::Plan) => self.fleet.tokens(tenant),
            (Some(tenant), MeterKey::Route(route)) => self.fleet.route_tokens(route, tenant),
            (Some(tenant), MeterKey::Window(window_s)) => self.fleet.window(window_s, tenant),
            // The ceiling has a bucket, and neither routes nor quotas.
            (None, _) => self.fleet.ceiling_tokens(),
        }
    }

    /// Every meter that may have something to say.
    fn meters(&self) -> Vec<Metered> {
        let more =
            self.subject.more().into_iter().map(|meter| Metered { key: meter.key, meter: Some(meter) });
        std::iter::once(Metered::PLAN).chain(more).collect()
    }
}

/// What those who wait need together.
#[derive(Default)]
struct Needed {
    n: u32,
    sum: u64,
    least: u32,
}

impl Needed {
    fn add(&mut self, cost: u32) {
        self.least = if self.n == 0 { cost } else { self.least.min(cost) };
        self.n += 1;
        self.sum += u64::from(cost);
    }
}

/// The levels of a demand that lie in this subject.
fn policies<'d>(subject: &Subject, demand: &Demand<'d>) -> impl Iterator<Item = &'d LevelPolicy> + use<'d> {
    let is_fleet = subject.tenant.is_none();
    demand.levels.as_slice().iter().filter(move |policy| (policy.level == Level::Fleet) == is_fleet)
}

fn permits_of(subject: &Subject, demand: &Demand<'_>) -> Option<u32> {
    policies(subject, demand).find_map(|policy| policy.max_in_flight)
}

/// Whether the level that has permits only counts what it would refuse.
fn is_shadow(subject: &Subject, demand: &Demand<'_>) -> bool {
    policies(subject, demand)
        .find(|policy| policy.max_in_flight.is_some())
        .is_some_and(|policy| policy.shadow)
}

/// Whether the level of a meter only counts what it would refuse.
fn shadow_of(subject: &Subject, demand: &Demand<'_>, key: MeterKey) -> bool {
    let is_route = matches!(key, MeterKey::Route(_));
    policies(subject, demand).any(|policy| policy.shadow && (policy.level == Level::Route) == is_route)
}

/// The limit behind `key` as the demand knows it, and what the demand costs there.
fn measure_of(subject: &Arc<Subject>, demand: &Demand<'_>, key: MeterKey) -> Option<(Measure, u32)> {
    policies(subject, demand).find_map(|policy| {
        let mut found = None;
        each_meter(subject, demand, policy, |meter, measure| {
            found = (meter.key == key).then(|| (measure, demand.cost_at(policy.level)));
            found.is_none()
        });
        found
    })
}
