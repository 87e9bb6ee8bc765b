//! What the script should do, in plain whole numbers of 128 bits: written from the rules, not from the script. It holds all
//! keys of one slot in memory. It knows no wire, and no doubles.
//!
//! An operation is a pure function of what is stored. A group is tried with everything granted; where one of it has not its
//! `min`, it is done anew with nothing granted.

mod accounts;
mod contention;
mod moment;
mod permits;
mod shape;
mod tokens;
mod window;

use std::collections::BTreeMap;

use cofferdam_limits::redis::{Key, Op, Replies, Reply};

use moment::{Moment, Stored, ceil};

/// Every key of one slot.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    epoch: Option<(String, i128)>,
    keys: BTreeMap<String, Entry>,
    /// Whether a key ends, and is deleted where it says nothing. A model that never forgets must answer the same, unless
    /// limits change, since a key that ends is the same as what it held.
    forgets: bool,
}

/// A key, and when it ends.
#[derive(Debug, Clone)]
struct Entry {
    state: State,
    ends: i128,
}

#[derive(Debug, Clone)]
enum State {
    Permits(permits::Fields),
    Tokens(tokens::Bucket),
    Window(window::Counters),
    Shape(shape::Next),
}

/// What all operations of a call have in common.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    pub(crate) now: i128,
    pub(crate) run_id: String,
    pub(crate) session: String,
    pub(crate) ttl: i128,
}

/// An operation of a call, with its group.
pub(crate) type Step = (u32, Key, Op);

impl Model {
    pub(crate) fn new(forgets: bool) -> Self {
        Self { epoch: None, keys: BTreeMap::new(), forgets }
    }

    /// Begins an epoch that began long ago.
    pub(crate) fn with_epoch(mut self, run_id: &str, start: i128) -> Self {
        self.epoch = Some((run_id.to_owned(), start));
        self
    }

    pub(crate) fn wipe(&mut self) {
        *self = Self::new(self.forgets);
    }

    /// What the script answers.
    pub(crate) fn call(&mut self, with: &Circumstances, steps: &[Step]) -> Replies {
        if self.forgets {
            let named = |key: &str| steps.iter().any(|(_, step, _)| step.as_str() == key);
            self.keys.retain(|key, entry| entry.ends > with.now || !named(key));
        }
        let start = match &self.epoch {
            Some((run_id, start)) if *run_id == with.run_id && *start <= with.now => *start,
            _ => with.now,
        };
        self.epoch = Some((with.run_id.clone(), start));
        let mut ops = Vec::new();
        for group in steps.chunk_by(|(a, ..), (b, ..)| a == b && *a != 0) {
            let (tried, keys, all_have_min) = self.group(with, start, group, true);
            let (replies, keys) = match all_have_min {
                true => (tried, keys),
                false => {
                    let (replies, keys, _) = self.group(with, start, group, false);
                    (replies, keys)
                }
            };
            self.keys = keys;
            ops.extend(replies);
        }
        Replies { now_us: with.now as u64, learning: with.now - start < with.ttl, ops }
    }

    fn group(
        &self,
        with: &Circumstances,
        start: i128,
        steps: &[Step],
        gives: bool,
    ) -> (Vec<Reply>, BTreeMap<String, Entry>, bool) {
        let (session, ttl, forgets) = (with.session.as_str(), with.ttl, self.forgets);
        let moment = Moment { now: with.now, start, ttl, session, gives, forgets };
        let (mut keys, mut replies, mut all_have_min) = (self.keys.clone(), Vec::new(), true);
        for (_, key, op) in steps {
            let (reply, has_min) = one(&mut keys, key.as_str(), op, &moment);
            replies.push(reply);
            all_have_min &= has_min;
        }
        (replies, keys, all_have_min)
    }
}

fn one(keys: &mut BTreeMap<String, Entry>, key: &str, op: &Op, moment: &Moment<'_>) -> (Reply, bool) {
    let state = keys.get(key).map(|entry| entry.state.clone());
    let outcome = match (op, state) {
        (Op::Permits(op), None) => permits::ask(&permits::Fields::default(), op, moment).wrap(State::Permits),
        (Op::Permits(op), Some(State::Permits(fields))) => {
            permits::ask(&fields, op, moment).wrap(State::Permits)
        }
        (Op::Tokens(op), None) => tokens::ask(None, op, moment).wrap(State::Tokens),
        (Op::Tokens(op), Some(State::Tokens(bucket))) => {
            tokens::ask(Some(&bucket), op, moment).wrap(State::Tokens)
        }
        (Op::Window(op), None) => window::ask(None, op, moment).wrap(State::Window),
        (Op::Window(op), Some(State::Window(counters))) => {
            window::ask(Some(&counters), op, moment).wrap(State::Window)
        }
        (Op::Shape(op), None) => shape::ask(None, op, moment).wrap(State::Shape),
        (Op::Shape(op), Some(State::Shape(next))) => shape::ask(Some(&next), op, moment).wrap(State::Shape),
        (op, state) => panic!("{op:?} on {state:?}"),
    };
    match outcome.stored {
        Stored::Unchanged => {}
        Stored::Touched(state) => {
            let ends = keys[key].ends;
            keys.insert(key.to_owned(), Entry { state, ends });
        }
        Stored::Until(state, us) => {
            // Redis counts in whole milliseconds, up; the last of them is whole.
            let ends = (moment.now.div_euclid(1_000) + ceil(us, 1_000).max(1) + 1) * 1_000;
            keys.insert(key.to_owned(), Entry { state, ends });
        }
        Stored::Gone => _ = keys.remove(key),
    }
    (outcome.reply, outcome.has_min)
}
