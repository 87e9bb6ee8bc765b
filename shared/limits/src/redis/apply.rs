//! What the store's answer changes: loans are renewed, refusals remembered, and those who waited are told.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use cofferdam_model::{Level, Limited};

use super::answer::{Hope, TokensAnswer, Word, is_stale, wait_of};
use super::contest::Contest;
use super::exchange::{Exchange, Metered, Of, Part};
use super::fresh::Fresh;
use super::ledger::Seen;
use super::measure::Measure;
use super::needs::Lack;
use super::reply::{Contention, PermitsReply, Reply};
use super::settle::{Next, settle_desk};
use super::subject::{Meter, MeterKey, Subject};
use super::take::{self, Taker};
use super::terms::Terms;
use super::want::{Told, Want};
use crate::refusal::Refused;
use crate::{Grant, Wait};

/// Permits that were refused are asked for again after so long: others give theirs back without a word to us.
const PERMITS_AGAIN_US: u64 = 20_000;
/// While the store learns it is asked again after so long.
const LEARNING_US: u64 = 250_000;

/// What an answer means for one exchange.
struct Applier<'a> {
    subject: &'a Arc<Subject>,
    terms: &'a Terms,
    sent_us: u64,
    now_us: u64,
    learning: bool,
    // What the store counts for this process, as far as the answer was read.
    total: Cell<u64>,
    fresh: Fresh,
    // The loans that go on.
    renewed: RefCell<Vec<MeterKey>>,
    // What was said to everybody: what there is to hope for, whether the store said no, and whether others compete since now.
    hope: Cell<Hope>,
    is_denied: Cell<bool>,
    is_contended: Cell<bool>,
}

/// Takes over what the store said. The result is when it is to be called next.
pub(super) fn apply(exchange: Exchange, terms: &Terms, learning: bool, replies: &[Reply]) -> Next {
    let Exchange { subject, sent_us, parts, wants } = exchange;
    let now_us = terms.clock.now_us();
    let (total, fresh, renewed) = (Cell::new(0), Fresh::default(), RefCell::default());
    let (hope, is_denied, is_contended) = Default::default();
    let applier = Applier {
        subject: &subject,
        terms,
        sent_us,
        now_us,
        learning,
        total,
        fresh,
        renewed,
        hope,
        is_denied,
        is_contended,
    };
    let mut words: Vec<Word> = wants.iter().map(|_| Word::default()).collect();
    let (mut stale, mut hope_of_all) = (false, Hope::None);
    for (part, reply) in parts.iter().zip(replies) {
        applier.hope.set(Hope::None);
        let refusal = applier.part(part, reply);
        match part.alone {
            Some(at) => words[at].add(reply, refusal, applier.hope.get()),
            None => (stale, hope_of_all) = (stale || is_stale(reply), hope_of_all.max(applier.hope.get())),
        }
    }
    // Whoever was stopped may read an answer when what was granted is somebody else's already.
    let is_void = now_us >= terms.ends_us(sent_us);
    if learning {
        subject.learn_until(now_us + LEARNING_US.min(terms.ttl_us / 4));
    }
    for (want, word) in wants.into_iter().zip(words) {
        let stale = stale || word.stale;
        let hope = word.hope.max(hope_of_all);
        if let Some(want) = applier.answer(want, Word { stale, hope, ..word }, is_void) {
            subject.desk.lock().wants.push(want);
        }
    }
    applier.publish();
    if applier.is_contended.get() {
        // What idles here goes back.
        subject.call_soon();
    }
    settle_desk(&subject, now_us)
}

impl Applier<'_> {
    /// Tells one who waits what became of it; or hands it back where it waits for what others return.
    fn answer(&self, mut want: Want, word: Word, is_void: bool) -> Option<Want> {
        let Word { refused, stale, mut hope } = word;
        let (shadowed, mut refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(level, ..)| want.is_shadow(*level));
        let (mut grant, mut is_unknown) = (Grant::new(), false);
        if is_void {
            is_unknown = refused.is_empty();
        } else if refused.is_empty() {
            // Nobody else has heard of it yet: nobody has to ask again because others were faster.
            match self.serve(&want, &mut grant) {
                Ok(()) => {}
                // A store that learns, or has heard of something later, has said nothing of the limits; and what it said is void
                // where this process was stopped since.
                Err(_) if self.learning || stale || self.terms.may_have_ended_since(self.now_us) => {
                    is_unknown = true
                }
                Err(short) => {
                    refused.push(short);
                    hope = hope.max(if self.is_denied.get() { Hope::None } else { Hope::Once });
                }
            }
        }
        if !refused.is_empty() && self.waits_again(&mut want, hope) {
            return Some(want);
        }
        // Whoever gave up waiting takes nothing: what was taken goes back with what it would have been told.
        drop(want.told.send(Told { refused, shadowed, is_unknown, grant }));
        None
    }

    /// Takes for one who waits all levels that lie here, or says what was short.
    fn serve(&self, want: &Want, grant: &mut Grant) -> Result<(), Refused> {
        let (terms, now_us) = (self.terms, self.now_us);
        let of = if self.subject.tenant.is_some() { take::Of::Tenant } else { take::Of::Ceiling };
        let (subject, fresh) = (self.subject, Some(&self.fresh));
        let taker = Taker { terms, tenant: subject, ceiling: subject, now_us, is_told: true, of, fresh };
        taker.take_levels(&want.question.lend(), grant).map_err(|lack| match lack {
            Lack::Refused(refused) => refused,
            Lack::Ask(needs) => {
                let (level, limited) = needs.short.unwrap_or((Level::Tenant, Limited::Concurrency));
                (level, limited, Wait::Unknown)
            }
        })
    }

    /// Whether one who was refused waits for what may come back; one who does not, though others have yet to answer, is counted.
    fn waits_again(&self, want: &mut Want, hope: Hope) -> bool {
        let is_worth_it = hope == Hope::Returns || (hope == Hope::Once && want.again_at.is_none());
        let waits = is_worth_it && want.wait_again();
        if !waits && hope == Hope::Returns {
            self.terms.recalls.unanswered();
        }
        waits
    }

    /// Takes over whether others compete for a limit; the result is what there is to hope for.
    fn note(&self, contest: &Contest, contention: Contention) {
        if contest.note(contention, self.now_us, self.terms.contended_until_us(self.now_us)) {
            self.is_contended.set(true);
        }
        match contention {
            Contention::None | Contention::Contended => {}
            Contention::Recalled => {
                self.terms.recalls.sent();
                self.hope.set(Hope::Returns);
            }
            Contention::Mute => self.terms.recalls.is_mute(),
        }
    }

    fn part(&self, part: &Part, reply: &Reply) -> Option<Refused> {
        match (&part.of, reply) {
            (&Of::Permits { limit, held }, Reply::Permits(reply)) => self.permits(part, limit, held, reply),
            (Of::Tokens { meter, measure, min }, reply) => {
                let answer = TokensAnswer::of(reply)?;
                self.tokens(part, meter, measure, *min, answer)
            }
            // What it says of a loan was asked for without one.
            _ => None,
        }
    }

    /// Has everybody hear of what those who waited have left. Of what was granted to one of them alone, that goes back.
    fn publish(&self) {
        let ends_us = self.terms.ends_us(self.sent_us);
        if let Some(cap) = self.fresh.cap() {
            self.subject.permits.renew(cap, ends_us);
        }
        for key in self.renewed.take() {
            let rest = self.fresh.take_some(key, u32::MAX);
            self.subject.with_meter(key, |meter| {
                let low = meter.ledger.lock().low().min(meter.lease.count().saturating_add(rest) / 4);
                meter.lease.renew(rest, low, ends_us);
            });
        }
        for (key, rest) in self.fresh.rest() {
            self.subject.give_back(key, false, rest);
        }
    }

    /// The cap is what the store counts for this process, as long as all fits into the limit.
    fn permits(&self, part: &Part, limit: u32, held: Option<u32>, reply: &PermitsReply) -> Option<Refused> {
        if reply.stale {
            return None;
        }
        let before = held.map_or(self.total.get(), u64::from);
        self.total.set(reply.total);
        let room = u64::from(limit).saturating_sub(reply.others);
        // Both are at most the limit, or what was held, which are numbers of 32 bits.
        let mut cap = u32::try_from(reply.total.min(room)).unwrap_or(limit);
        if self.learning {
            // A loan that ended since this was sent may be somebody else's, of whom the store does not know yet.
            cap = cap.min(self.subject.permits.worth(self.now_us));
        }
        self.fresh.set_cap(cap);
        self.note(&self.subject.permits.contest, reply.contention);
        if part.alone.is_none() && reply.total > before {
            self.subject.permit_ledger.lock().grant(self.now_us);
        }
        // Nothing granted though there was room: another limit of the group refused, or the store learns.
        if part.want == 0 || reply.total > before || reply.total < room || self.learning {
            return None;
        }
        if reply.others > 0 {
            // Others may give one back at any moment, and one may be on its way.
            self.hope.set(self.hope.get().max(Hope::Once));
        } else {
            self.is_denied.set(true);
            self.subject.permits.refuse_until(self.now_us + PERMITS_AGAIN_US);
        }
        let in_use = self.subject.permits.read().used;
        if u64::from(in_use) < before {
            // One was given back while the answer was on its way.
            self.subject.permits.forget_refusal();
        }
        let level = if self.subject.tenant.is_some() { Level::Tenant } else { Level::Fleet };
        Some((level, Limited::Concurrency, Wait::Unknown))
    }

    fn tokens(
        &self,
        part: &Part,
        meter: &Metered,
        measure: &Measure,
        min: u32,
        answer: TokensAnswer,
    ) -> Option<Refused> {
        let alone = part.alone.is_some();
        if answer.stale {
            return None;
        }
        let TokensAnswer { granted, level, outstanding, room, contention, .. } = answer;
        let key = meter.key;
        let meter = meter.of(self.subject);
        let mut ledger = meter.ledger.lock();
        ledger.heard();
        ledger.seen = Some(Seen { level, at_us: self.now_us, outstanding });
        if !alone {
            ledger.grant(granted, self.now_us);
        }
        drop(ledger);
        self.note(&meter.lease.contest, contention);
        self.fresh.add(key, granted);
        if !alone {
            self.renewed.borrow_mut().push(key);
        }
        if part.shadow && granted < part.want {
            return Some((self.level(key), measure.limited(), Wait::Unknown));
        }
        let Some(wait) = wait_of(room) else {
            if !alone && part.is_paced && granted < part.want {
                self.go_easy(meter, measure);
            }
            return None;
        };
        // Refusing the same again, until it would pass, needs no call, unless others may return some before.
        if self.hope.get() != Hope::Returns {
            self.is_denied.set(true);
        }
        if let Wait::Until(wait) = wait
            && self.hope.get() != Hope::Returns
        {
            let until_us = self.now_us + wait.as_micros() as u64;
            meter.lease.refuse(
                min,
                self.now_us,
                until_us,
                self.terms.ask_at_us(measure, self.now_us, until_us, part.is_paced),
            );
        }
        Some((self.level(key), measure.limited(), wait))
    }

    /// There is less than is wanted: what was granted is spent, and then others have their turn.
    fn go_easy(&self, meter: &Meter, measure: &Measure) {
        let again_us = self.terms.scarce_until_us(measure, self.now_us);
        meter.lease.refuse(0, self.now_us, again_us, again_us);
    }

    fn level(&self, key: MeterKey) -> Level {
        match key {
            MeterKey::Route(_) => Level::Route,
            MeterKey::Plan | MeterKey::Window(_) if self.subject.tenant.is_none() => Level::Fleet,
            MeterKey::Plan | MeterKey::Window(_) => Level::Tenant,
        }
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

    use std::time::Duration;

    use super::super::op::Session;
    use super::super::queue::queue;
    use super::super::terms::{DEFAULT_TTL, Mode};
    use super::*;
    use crate::{BucketPolicy, Demand, LevelPolicy, Levels, ManualClock, WindowPolicy, Windows};
    use tokio::sync::oneshot;

    #[test]
    fn an_answer_of_a_store_that_learns_restores_no_loan_that_had_ended() {
        for (ends_in_us, cap) in [(1, 6), (0, 0)] {
            let (clock, (calls, _queued)) = (ManualClock::at(10_000_000), queue());
            let (session, now_us) = (Session::parse("sessiona").unwrap(), clock.now_us());
            let terms = Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 3, clock.into());
            let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
            let subject = Subject::new(Some(id), calls);
            subject.permits.renew(6, now_us + ends_in_us);
            let of = Of::Permits { limit: 6, held: Some(6) };
            let parts = vec![Part { alone: None, want: 1, shadow: false, is_paced: false, of }];
            let exchange =
                Exchange { subject: Arc::clone(&subject), sent_us: now_us - 1_000, parts, wants: Vec::new() };
            let reply =
                PermitsReply { stale: false, total: 6, others: 0, n_live: 1, contention: Contention::None };
            apply(exchange, &terms, true, &[Reply::Permits(reply)]);
            assert_eq!(subject.permits.worth(now_us), cap);
        }
    }

    #[test]
    fn who_asked_in_vain_is_told_which_limit_was_short() {
        let plain = LevelPolicy::unlimited;
        let bucket = BucketPolicy::new("5/s".parse().unwrap(), 10).ok();
        let windows = Windows::new(&[WindowPolicy::new(3_600, 5).unwrap()]).unwrap();
        let permits = |level| LevelPolicy { max_in_flight: Some(3), ..plain(level) };
        let paced = |level| LevelPolicy { bucket, ..plain(level) };
        let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        for (levels, expected) in [
            (vec![paced(Level::Tenant), paced(Level::Route)], (Level::Route, Limited::Rate)),
            (vec![permits(Level::Fleet), paced(Level::Tenant)], (Level::Tenant, Limited::Rate)),
            (vec![permits(Level::Fleet)], (Level::Fleet, Limited::Concurrency)),
            (vec![paced(Level::Fleet)], (Level::Fleet, Limited::Rate)),
            (vec![LevelPolicy { windows, ..plain(Level::Tenant) }], (Level::Tenant, Limited::Quota)),
        ] {
            let (clock, (calls, _queued)) = (ManualClock::at(10_000_000), queue());
            let (session, sent_us) = (Session::parse("sessiona").unwrap(), clock.now_us());
            let terms = Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 3, clock.into());
            let levels = Levels::new(&levels).unwrap();
            let question = Arc::new(Demand::new(&id, 1, &levels).owned());
            let ((told, mut hears), parts) = (oneshot::channel(), Vec::new());
            let subject = Subject::new((expected.0 != Level::Fleet).then_some(id), calls);
            let wants = vec![Want::new(question, told, Duration::ZERO)];
            // The store has nothing against anybody, and there is nothing to take.
            apply(Exchange { subject, sent_us, parts, wants }, &terms, false, &[]);
            let Told { refused, is_unknown, .. } = hears.try_recv().unwrap();
            assert_eq!((refused, is_unknown), (vec![(expected.0, expected.1, Wait::Unknown)], false));
        }
    }

    #[test]
    fn an_answer_that_is_read_after_its_loan_has_ended_serves_nobody() {
        for (later_us, in_use) in [(0, 1), (6_000_000, 0)] {
            let (clock, (calls, _queued)) = (ManualClock::at(10_000_000), queue());
            let (session, sent_us) = (Session::parse("sessiona").unwrap(), clock.now_us());
            clock.set_us(sent_us + later_us);
            let terms = Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 3, clock.into());
            let id = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
            let plan = LevelPolicy { max_in_flight: Some(6), ..LevelPolicy::unlimited(Level::Tenant) };
            let levels = Levels::new(&[plan]).unwrap();
            let question = Arc::new(Demand::new(&id, 1, &levels).owned());
            let (told, mut hears) = oneshot::channel();
            let subject = Subject::new(Some(id), calls);
            let of = Of::Permits { limit: 6, held: Some(0) };
            let parts = vec![Part { alone: None, want: 1, shadow: false, is_paced: false, of }];
            let wants = vec![Want::new(question, told, Duration::ZERO)];
            let reply =
                PermitsReply { stale: false, total: 1, others: 0, n_live: 1, contention: Contention::None };
            let exchange = Exchange { subject: Arc::clone(&subject), sent_us, parts, wants };
            apply(exchange, &terms, false, &[Reply::Permits(reply)]);
            let told = hears.try_recv().unwrap();
            assert_eq!((told.is_unknown, subject.permits.read().used), (in_use == 0, in_use));
        }
    }
}
