//! The one task that calls the store: it takes subjects out of the queue, puts what they have to say into calls by slot, and
//! has the answers applied. From time to time it looks at everything on loan: what lies idle goes back, and what is held is
//! renewed. It decides nothing.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::oneshot;

use super::apply;
use super::begin;
use super::breaker::Breaker;
use super::call::Call;
use super::compose::compose;
use super::core::Core;
use super::due::{Due, due};
use super::exchange::Exchange;
use super::keys::Key;
use super::link::Link;
use super::probe::{self, MAX_PROBES};
use super::queue::{Item, Queued};
use super::reply::Replies;
use super::roll;
use super::settle::{self, Next};
use super::subject::Subject;
use super::want::AGAIN_AFTER;

/// How often a part of what is on loan is looked at.
const TURN_EVERY: Duration = Duration::from_millis(10);
/// In so many turns everything was looked at, unless it is very much. All at once would hold up those who wait.
const TURNS: usize = 10;
/// The most that is looked at in a turn, as long as everything is in [`MAX_TURNS`], well within a heartbeat.
const MAX_IN_TURN: usize = 2048;
const MAX_TURNS: usize = 150;
/// How often the live sessions are called, in rounds of [`TURNS`].
const ROLL_EVERY: u64 = 10;
/// Subjects in one call, and in one go.
const MAX_SUBJECTS: usize = 64;
/// Calls on their way to one server while it is well. More would only wait in line there, and make each other late.
const MAX_CALLS: usize = 256;
/// Subjects that are called for at each look while their server is away.
const MAX_WHILE_AWAY: usize = 1024;

/// The task, and what it works with.
pub(super) struct Syncer {
    core: Arc<Core>,
    queued: Queued<Subject>,
    /// Everybody who may hold anything.
    watched: Vec<Arc<Subject>>,
    /// Who of them is looked at next.
    next: usize,
    n_turns: usize,
    n_rounds: u64,
    /// Connections to the store that were made so far.
    connections: u64,
    /// Times that the store came back so far.
    n_returns: u64,
    /// How many are still to be looked at since it last did.
    n_to_register: usize,
    calls: FuturesUnordered<Calling>,
    /// Those for whom others may have returned something in a moment.
    soon: FuturesUnordered<Soon>,
    /// Calls on their way at once to all servers together.
    most_calls: usize,
    settling: Vec<oneshot::Sender<()>>,
}

type Soon = Pin<Box<dyn Future<Output = Arc<Subject>> + Send>>;
type Calling = Pin<Box<dyn Future<Output = Returned> + Send>>;

/// A call that came back, or did not.
struct Returned {
    exchanges: Vec<Exchange>,
    replies: Result<Replies, Fault>,
    epoch: Key,
    breaker: Arc<Breaker>,
}

/// Why a call brought nothing.
struct Fault {
    /// Whether the store may have heard it.
    was_sent: bool,
    /// Whether the server said nothing at all.
    is_silence: bool,
}

impl Syncer {
    pub(super) fn new(core: Arc<Core>, queued: Queued<Subject>) -> Self {
        // The ceiling is never forgotten.
        let watched = vec![Arc::clone(&core.ceiling)];
        core.ceiling.desk.lock().is_watched = true;
        Self {
            core,
            queued,
            watched,
            next: 0,
            n_turns: 0,
            n_rounds: 0,
            connections: 0,
            n_returns: 0,
            n_to_register: 0,
            calls: FuturesUnordered::new(),
            soon: FuturesUnordered::new(),
            most_calls: MAX_CALLS,
            settling: Vec::new(),
        }
    }

    /// Calls for ever: it ends with its runtime.
    pub(super) async fn run(mut self) {
        let mut turns = tokio::time::interval(TURN_EVERY);
        turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                // First, and seldom: whatever else comes without end, loans have to be renewed.
                _ = turns.tick() => self.turn(),
                Some(returned) = self.calls.next() => self.take_over(returned),
                Some(subject) = self.soon.next() => self.call(vec![subject]),
                item = self.queued.next(), if self.calls.len() < self.most_calls => match item {
                    Some(item) => self.serve(item),
                    None => return,
                },
            }
            self.register();
            self.settle();
        }
    }

    /// Calls for `first`, and for all who stand behind it in the queue.
    fn serve(&mut self, first: Item<Subject>) {
        let (mut batch, mut next) = (Vec::new(), Some(first));
        while let Some(item) = next {
            match item {
                Item::Subject(subject) => batch.push(subject),
                Item::Settle(done) => self.settling.push(done),
                Item::Leave(done) => {
                    self.settling.push(done);
                    let terms = &self.core.terms;
                    let until_us = terms.contended_until_us(terms.clock.now_us());
                    self.watched.iter().for_each(|subject| subject.return_idle(until_us));
                }
            }
            next = if batch.len() < MAX_SUBJECTS { self.queued.next_now() } else { None };
        }
        for subject in &batch {
            if !std::mem::replace(&mut subject.desk.lock().is_watched, true) {
                self.watched.push(Arc::clone(subject));
            }
        }
        self.call(batch);
    }

    /// Looks at the next part of what is on loan, and, once a round, at who else is there.
    fn turn(&mut self) {
        if self.n_turns == 0 {
            self.round();
        }
        let (n, done) = (self.watched.len(), self.n_turns);
        self.n_turns = (done + 1) % TURNS;
        let part = n * (done + 1) / TURNS - n * done / TURNS;
        let part = part.max(self.n_to_register.min(MAX_IN_TURN)).min(MAX_IN_TURN.max(n.div_ceil(MAX_TURNS)));
        self.n_to_register = self.n_to_register.saturating_sub(part);
        self.look(part);
    }

    fn round(&mut self) {
        self.n_rounds += 1;
        let connections = self.core.link.n_connections();
        if std::mem::replace(&mut self.connections, connections) != connections {
            // It may be another server, or one that lost everything.
            begin::call(&self.core);
        }
        self.most_calls = MAX_CALLS * self.core.link.n_servers().max(1);
        let is_away = self.core.link.tally().n_away() > 0;
        if self.n_rounds % ROLL_EVERY == 1 || is_away {
            roll::call(&self.core);
        }
        if is_away {
            probe::call_all(&self.core);
        }
    }

    /// Looks at the next `n` of those who may hold anything: calls for whom it is time, and forgets who holds nothing any more.
    fn look(&mut self, n: usize) {
        let now_us = self.core.terms.clock.now_us();
        let mut batch = Vec::new();
        for _ in 0..n {
            if self.next >= self.watched.len() {
                self.next = 0;
            }
            let Some(subject) = self.watched.get(self.next) else { break };
            match due(subject, &self.core.terms, now_us) {
                // The last one takes its place, and is looked at next.
                Due::Never if self.core.table.forget(subject) => {
                    self.watched.swap_remove(self.next);
                    continue;
                }
                Due::Now => batch.push(Arc::clone(subject)),
                // Whoever is still held by a request is looked at again.
                Due::Later | Due::Never => {}
            }
            self.next += 1;
        }
        if self.core.link.tally().n_away() > 0 {
            // All are registered once it is back: until then a few suffice.
            let mut n_left = MAX_WHILE_AWAY;
            batch.retain(|subject| {
                let is_kept = n_left > 0 || !self.core.breaker(subject).is_away();
                n_left = n_left.saturating_sub(1);
                is_kept
            });
        }
        self.call(batch);
    }

    /// Once the store is back, whatever was admitted meanwhile is registered, and nothing is made up for: as many as may be are
    /// looked at in each of the next turns. All at once would hold up the answers, which then were late again.
    fn register(&mut self) {
        let n_returns = self.core.link.tally().n_closed();
        if std::mem::replace(&mut self.n_returns, n_returns) != n_returns {
            tracing::info!("the limit store answers again");
            self.n_to_register = self.watched.len();
        }
    }

    /// Tells those who wait for it that everything was said and heard, if that is so.
    fn settle(&mut self) {
        if !self.settling.is_empty() && self.calls.is_empty() && self.queued.is_empty() {
            for done in self.settling.drain(..) {
                // Whoever went away needs no answer.
                let _ = done.send(());
            }
        }
    }

    /// Puts what `subjects` have to say into calls, one for each slot, and sends them.
    fn call(&mut self, subjects: Vec<Arc<Subject>>) {
        let fleet = &self.core.fleet;
        let mut slots: HashMap<Key, Vec<Arc<Subject>>> = HashMap::new();
        for subject in subjects {
            let epoch = match &subject.tenant {
                Some(tenant) => fleet.epoch(fleet.bucket(tenant)),
                None => fleet.ceiling_epoch(),
            };
            slots.entry(epoch).or_default().push(subject);
        }
        for (epoch, subjects) in slots {
            let breaker = self.core.link.breaker(Link::slot(&epoch));
            for subjects in subjects.chunks(MAX_SUBJECTS) {
                // Those for whom there is no room are watched, and so come again with the next look.
                if breaker.n_calls() < if breaker.is_away() { MAX_PROBES } else { MAX_CALLS } {
                    self.call_slot(epoch.clone(), &breaker, subjects);
                }
            }
        }
    }

    fn call_slot(&mut self, epoch: Key, breaker: &Arc<Breaker>, subjects: &[Arc<Subject>]) {
        let terms = &self.core.terms;
        let (now_us, fleet, is_away) = (terms.clock.now_us(), &self.core.fleet, breaker.is_away());
        let mut builder = Call::builder(epoch.clone(), &terms.session, terms.ttl);
        let composed =
            subjects.iter().map(|subject| compose(subject, terms, fleet, now_us, is_away, &mut builder));
        let exchanges: Vec<_> = composed.flatten().collect();
        if exchanges.is_empty() {
            return;
        }
        let link = self.core.link.clone();
        let (call, breaker) = (builder.build(), Arc::clone(breaker));
        breaker.call_begins();
        self.calls.push(Box::pin(async move {
            let replies = match &call {
                Ok(call) => match link.call(call).await {
                    Ok(value) => call.read(&value).map_err(|_| Fault { was_sent: true, is_silence: false }),
                    Err(error) => {
                        Err(Fault { was_sent: !error.changed_nothing(), is_silence: error.is_silence() })
                    }
                },
                Err(error) => {
                    tracing::error!(%error, "a call to the limit store could not be put together");
                    Err(Fault { was_sent: false, is_silence: false })
                }
            };
            Returned { exchanges, replies, epoch, breaker }
        }));
    }

    fn take_over(&mut self, returned: Returned) {
        let Returned { exchanges, replies, epoch, breaker } = returned;
        breaker.call_ends();
        let terms = &self.core.terms;
        let (mut again, mut is_slow) = (Vec::new(), false);
        match replies {
            Ok(Replies { learning, ops, .. }) => {
                let mut ops = ops.as_slice();
                for exchange in exchanges {
                    let took_us = terms.since_us(exchange.sent_us);
                    let (own, rest) = ops.split_at(exchange.parts.len().min(ops.len()));
                    ops = rest;
                    let subject = Arc::clone(&exchange.subject);
                    match apply::apply(exchange, terms, learning, own) {
                        Next::Now => again.push(subject),
                        Next::Soon => self.soon.push(Box::pin(async move {
                            tokio::time::sleep(AGAIN_AFTER).await;
                            subject
                        })),
                        Next::Whenever => {}
                    }
                    breaker.answered_after(took_us, terms.budget_us);
                    // It is there after all: whether it is in time again need not wait for the next look.
                    is_slow |= took_us > terms.budget_us && breaker.is_away();
                }
            }
            Err(Fault { was_sent, is_silence }) => {
                match is_silence {
                    true => breaker.gone(),
                    // It is there, and may have meant this call alone.
                    false => breaker.late(terms.clock.now_us(), terms.budget_us),
                }
                for exchange in exchanges {
                    settle::lose(exchange, terms, was_sent);
                }
            }
        }
        if is_slow {
            probe::call(&self.core, &breaker, epoch);
        }
        self.call(again);
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, TenantId};

    use super::super::keys::Fleet;
    use super::super::op::Session;
    use super::super::script::Script;
    use super::super::terms::{DEFAULT_TTL, Mode, Terms};
    use super::*;
    use crate::ManualClock;

    #[tokio::test]
    async fn a_store_that_is_back_is_told_of_everybody_turn_by_turn() {
        let link = Link::open("redis://127.0.0.1:1".parse().unwrap(), Script::sync());
        let (session, clock) = (Session::parse("sessiona").unwrap(), ManualClock::at(1_000_000));
        let terms = Terms::new(session, DEFAULT_TTL, crate::DEFAULT_BUDGET, Mode::Lease, 1, clock.into());
        let (core, queued) = Core::new(terms, 1, Fleet::parse("f").unwrap(), link);
        let core = Arc::new(core);
        let mut syncer = Syncer::new(Arc::clone(&core), queued);
        let subject = |n: usize| {
            let tenant = TenantId::parse(format!("tenant-{n}").as_bytes(), &Alphabet::default()).unwrap();
            Subject::new(Some(tenant), core.table.queue().clone())
        };
        syncer.watched = (0..10 * MAX_IN_TURN).map(subject).collect();
        let breaker = core.link.breaker(0);
        breaker.gone();
        breaker.answered_after(0, 1);
        syncer.register();
        assert_eq!(syncer.next, 0, "answers are not held up for it");
        for n in 1..=10 {
            syncer.turn();
            assert_eq!(syncer.next, n * MAX_IN_TURN);
        }
    }
}
