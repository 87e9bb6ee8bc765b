//! What the store's answer changes: loans are renewed, refusals remembered, and those who waited are told. What becomes of an
//! answer that never came is here as well.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use cofferdam_model::{Level, Limited};

use super::compose::{Exchange, Metered, Of, Part};
use super::fresh::Fresh;
use super::ledger::Seen;
use super::measure::Measure;
use super::needs::Lack;
use super::reply::{PermitsReply, Reply, Room, TokensReply, WindowReply};
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
}

/// Takes over what the store said. The result is `true` where somebody waits already for the next call.
pub(super) fn apply(exchange: Exchange, terms: &Terms, learning: bool, replies: &[Reply]) -> bool {
    let Exchange { subject, sent_us, parts, wants } = exchange;
    let now_us = terms.clock.now_us();
    let (total, fresh, renewed) = (Cell::new(0), Fresh::default(), RefCell::default());
    let applier = Applier { subject: &subject, terms, sent_us, now_us, learning, total, fresh, renewed };
    let mut words: Vec<Word> = wants.iter().map(|_| Word::default()).collect();
    let mut stale = false;
    for (part, reply) in parts.iter().zip(replies) {
        let refusal = applier.part(part, reply);
        match part.alone {
            Some(at) => words[at].add(reply, refusal),
            None => stale |= is_stale(reply),
        }
    }
    // Whoever was stopped may read an answer when what was granted is somebody else's already.
    let is_void = now_us >= terms.ends_us(sent_us);
    if learning {
        subject.learn_until(now_us + LEARNING_US.min(terms.ttl_us / 4));
    }
    for (want, word) in wants.into_iter().zip(words) {
        let stale = stale || word.stale;
        let (shadowed, mut refused): (Vec<_>, Vec<_>) =
            word.refused.into_iter().partition(|(level, ..)| want.is_shadow(*level));
        let (mut grant, mut is_unknown) = (Grant::new(), false);
        if is_void {
            is_unknown = refused.is_empty();
        } else if refused.is_empty() {
            // Nobody else has heard of it yet: nobody has to ask again because others were faster.
            match applier.serve(&want, &mut grant) {
                Ok(()) => {}
                // A store that learns, or has heard of something later, has said nothing of the limits; and what it said is void
                // where this process was stopped since.
                Err(_) if learning || stale || terms.may_have_ended_since(now_us) => is_unknown = true,
                Err(short) => refused.push(short),
            }
        }
        // Whoever gave up waiting takes nothing: what was taken goes back with what it would have been told.
        drop(want.told.send(Told { refused, shadowed, is_unknown, grant }));
    }
    applier.publish();
    settle_desk(&subject, now_us)
}

/// What was said of one who waits, to that one alone.
#[derive(Default)]
struct Word {
    refused: Vec<Refused>,
    stale: bool,
}

impl Word {
    fn add(&mut self, reply: &Reply, refusal: Option<Refused>) {
        self.refused.extend(refusal);
        self.stale |= is_stale(reply);
    }
}

fn is_stale(reply: &Reply) -> bool {
    match reply {
        Reply::Permits(PermitsReply { stale, .. }) => *stale,
        reply => TokensAnswer::of(reply).is_some_and(|answer| answer.stale),
    }
}

/// The answer never came, or says that it was not for this state: the next call heals what it may have changed. What the store
/// cannot have heard (it `was_sent` nothing) is told again; what it may have heard is not, since it would count twice.
pub(super) fn lose(exchange: Exchange, terms: &Terms, was_sent: bool) {
    let Exchange { subject, parts, wants, .. } = exchange;
    // Dropping the senders tells those who wait.
    drop(wants);
    for part in &parts {
        match &part.of {
            Of::Permits { .. } => subject.permit_ledger.lock().has_account = true,
            Of::Tokens { meter, measure, .. } => {
                let is_loan = !terms.is_exact(measure);
                meter.of(&subject).ledger.lock().unheard(was_sent, is_loan);
            }
        }
    }
    settle_desk(&subject, terms.clock.now_us());
}

/// The call is over; the result is whether somebody waits for the next one.
fn settle_desk(subject: &Subject, now_us: u64) -> bool {
    let mut desk = subject.desk.lock();
    desk.is_calling = false;
    desk.called_us = now_us;
    !desk.wants.is_empty()
}

/// What is read of an answer about tokens, whatever measures them.
struct TokensAnswer {
    stale: bool,
    granted: u32,
    level: i64,
    outstanding: u64,
    room: Room,
}

impl TokensAnswer {
    fn of(reply: &Reply) -> Option<Self> {
        match *reply {
            Reply::Tokens(TokensReply { stale, granted, level, outstanding, room, .. }) => {
                Some(Self { stale, granted, level, outstanding, room })
            }
            Reply::Window(WindowReply { stale, granted, used, room, outstanding }) => {
                let level = i64::try_from(used).unwrap_or(i64::MAX);
                Some(Self { stale, granted, level, outstanding, room })
            }
            Reply::Permits(_) | Reply::Shape(_) => None,
        }
    }
}

impl Applier<'_> {
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

    fn part(&self, part: &Part, reply: &Reply) -> Option<Refused> {
        match (&part.of, reply) {
            (&Of::Permits { limit, held }, Reply::Permits(reply)) => self.permits(part, limit, held, reply),
            (Of::Tokens { meter, measure, min }, reply) => {
                let answer = TokensAnswer::of(reply)?;
                self.tokens(part, meter, measure, *min, answer)
            }
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
                let low = meter.ledger.lock().low();
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
        if part.alone.is_none() && reply.total > before {
            self.subject.permit_ledger.lock().grant(self.now_us);
        }
        // Nothing granted though there was room: another limit of the group refused, or the store learns.
        if part.want == 0 || reply.total > before || reply.total < room || self.learning {
            return None;
        }
        self.subject.permits.refuse_until(self.now_us + PERMITS_AGAIN_US);
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
        let TokensAnswer { granted, level, outstanding, room, .. } = answer;
        let key = meter.key;
        let meter = meter.of(self.subject);
        let mut ledger = meter.ledger.lock();
        ledger.heard();
        ledger.seen = Some(Seen { level, at_us: self.now_us, outstanding });
        if !alone {
            ledger.grant(granted, self.now_us);
        }
        drop(ledger);
        self.fresh.add(key, granted);
        if !alone {
            self.renewed.borrow_mut().push(key);
        }
        if part.shadow && granted < part.want {
            return Some((self.level(key), measure.limited(), Wait::Unknown));
        }
        let Some(wait) = wait_of(room) else {
            if !alone && granted < part.want {
                self.go_easy(meter, measure);
            }
            return None;
        };
        // Refusing the same again, until it would pass, needs no call.
        if let Wait::Until(wait) = wait {
            let until_us = self.now_us + wait.as_micros() as u64;
            meter.lease.refuse(
                min,
                self.now_us,
                until_us,
                self.terms.ask_at_us(measure, self.now_us, until_us),
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

/// What a reply says of waiting; nothing where what was needed was there.
fn wait_of(room: Room) -> Option<Wait> {
    match room {
        Room::Now => None,
        Room::In(wait) => Some(Wait::Until(wait)),
        Room::Never => Some(Wait::Never),
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

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
            let parts = vec![Part { alone: None, want: 1, shadow: false, of }];
            let exchange =
                Exchange { subject: Arc::clone(&subject), sent_us: now_us - 1_000, parts, wants: Vec::new() };
            let reply = PermitsReply { stale: false, total: 6, others: 0, n_live: 1 };
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
            let wants = vec![Want { question, told }];
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
            let parts = vec![Part { alone: None, want: 1, shadow: false, of }];
            let wants = vec![Want { question, told }];
            let reply = PermitsReply { stale: false, total: 1, others: 0, n_live: 1 };
            let exchange = Exchange { subject: Arc::clone(&subject), sent_us, parts, wants };
            apply(exchange, &terms, false, &[Reply::Permits(reply)]);
            let told = hears.try_recv().unwrap();
            assert_eq!((told.is_unknown, subject.permits.read().used), (in_use == 0, in_use));
        }
    }
}
