//! What the store's answer changes: loans are renewed, refusals remembered, and those who waited are told. What becomes of an
//! answer that never came is here as well.

use std::cell::Cell;
use std::sync::Arc;

use cofferdam_model::{Level, Limited};

use super::compose::{Exchange, Metered, Of, Part};
use super::ledger::Seen;
use super::measure::Measure;
use super::reply::{PermitsReply, Reply, Room, TokensReply, WindowReply};
use super::reserved::ForOne;
use super::subject::{Meter, MeterKey, Subject};
use super::terms::Terms;
use super::want::{Reserved, Told};
use crate::Wait;
use crate::refusal::Refused;

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
}

/// Takes over what the store said. The result is `true` where somebody waits already for the next call.
pub(super) fn apply(exchange: Exchange, terms: &Terms, learning: bool, replies: &[Reply]) -> bool {
    let Exchange { subject, sent_us, parts, wants } = exchange;
    let now_us = terms.clock.now_us();
    let applier = Applier { subject: &subject, terms, sent_us, now_us, learning, total: Cell::new(0) };
    let mut words: Vec<Word> = wants.iter().map(|_| Word::default()).collect();
    let mut stale = false;
    for (part, reply) in parts.iter().zip(replies) {
        let refusal = applier.part(part, reply);
        match part.alone {
            Some(at) => words[at].add(part, reply, refusal),
            None => stale |= is_stale(reply),
        }
    }
    if learning {
        subject.learn_until(now_us + LEARNING_US.min(terms.ttl_us / 4));
    }
    for (want, word) in wants.into_iter().zip(words) {
        let (shadowed, refused): (Vec<_>, _) =
            word.refused.into_iter().partition(|(level, ..)| want.is_shadow(*level));
        let reserved = (word.is_granted && refused.is_empty())
            .then(|| Box::new(ForOne::new(&subject, word.tokens)) as Box<dyn Reserved>);
        let stale = stale || word.stale;
        // Whoever gave up waiting takes nothing: what was granted for it alone goes back with what it would have been told.
        drop(want.told.send(Told { refused, shadowed, learning, stale, reserved }));
    }
    settle_desk(&subject, now_us)
}

/// What was said of one who waits, to that one alone.
#[derive(Default)]
struct Word {
    refused: Vec<Refused>,
    /// Whether there was anything that it alone was granted.
    is_granted: bool,
    tokens: Vec<(MeterKey, u32)>,
    stale: bool,
}

impl Word {
    fn add(&mut self, part: &Part, reply: &Reply, refusal: Option<Refused>) {
        self.refused.extend(refusal);
        self.stale |= is_stale(reply);
        match (&part.of, TokensAnswer::of(reply)) {
            (Of::Tokens { meter, .. }, Some(TokensAnswer { granted, stale: false, .. })) => {
                self.is_granted |= granted > 0;
                self.tokens.push((meter.key, granted));
            }
            _ => self.is_granted |= matches!(reply, Reply::Permits(reply) if !reply.stale),
        }
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
        self.subject.permits.renew(cap, self.terms.ends_us(self.sent_us));
        if part.alone.is_none() && reply.total > before {
            self.subject.permit_ledger.lock().grant(self.now_us);
        }
        // Nothing granted though there was room: another limit of the group refused, or the store learns.
        if part.want == 0 || reply.total > before || reply.total < room || self.learning {
            return None;
        }
        self.subject.permits.refuse_until(self.now_us + PERMITS_AGAIN_US);
        let in_use = self.subject.permits.read().used + self.subject.reservations.count();
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
        let low = if alone { 0 } else { ledger.low() };
        drop(ledger);
        meter.lease.renew(granted, low, self.terms.ends_us(self.sent_us));
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
    use crate::ManualClock;

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
}
