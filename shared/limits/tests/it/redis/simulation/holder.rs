//! A session that holds permits, by the written rules: bound to its cap before it sends, to its deadline from the first
//! sending, and to what an answer leaves it.

use cofferdam_limits::redis::{Dealing, Key, Op, Permits, Reply};

use super::world::{Heard, MARGIN_US, N_ROUTERS, Router, TTL, Terms};
use crate::redis::concurrency::cap_of;
use crate::redis::{Names, seq};

#[derive(Debug, Default)]
pub(super) struct Holder {
    number: u64,
    cap: u32,
    /// In use, as the server knows.
    by_right: u32,
    /// In use since before a lapse: the server may have given their places to others.
    from_before: u32,
    deadline: i128,
    pending: Option<Pending>,
    /// When the last answer that counts was executed by a server that was not learning.
    known_at: Option<i128>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    op: Permits,
    first_sent: i128,
}

impl Holder {
    pub(super) fn in_use(&self) -> u32 {
        self.by_right + self.from_before
    }

    pub(super) fn in_use_by_right(&self) -> u32 {
        self.by_right
    }

    pub(super) fn cap(&self) -> u32 {
        self.cap
    }

    /// What it uses by right, or may use without another answer.
    pub(super) fn may_use(&self) -> u32 {
        self.cap.max(self.by_right)
    }

    /// Whether a server that had learned has answered it since `at`.
    pub(super) fn knows_since(&self, at: i128) -> bool {
        self.known_at.is_some_and(|known_at| known_at > at)
    }
}

impl Router for Holder {
    fn call(&mut self, now: i128, want: u32, terms: &Terms) -> (u64, Op) {
        if let Some(Pending { number, op, first_sent }) = self.pending
            && now < first_sent + TTL.as_micros() as i128
        {
            return (number, Op::Permits(op));
        }
        self.number += 1;
        // Who wants nothing gives back what is spare: from here on it is not to be used.
        if want == 0 {
            self.cap = self.cap.min(self.in_use());
        }
        let held = Some(self.cap.max(self.in_use()));
        let op = Permits {
            limit: terms.limit,
            seq: seq(self.number),
            held,
            want,
            min: 0,
            dealing: Dealing::PLAIN,
        };
        self.pending = Some(Pending { number: self.number, op, first_sent: now });
        (self.number, Op::Permits(op))
    }

    fn hear(&mut self, now: i128, heard: &Heard, terms: &Terms) {
        let (Reply::Permits(reply), Some(pending)) = (heard.reply, self.pending) else { return };
        if pending.number != heard.number {
            return;
        }
        self.pending = None;
        let deadline = pending.first_sent + TTL.as_micros() as i128 - MARGIN_US;
        if reply.stale || now >= deadline {
            return;
        }
        self.deadline = deadline;
        let cap = cap_of(reply, terms.limit).try_into().unwrap();
        if heard.learning {
            // Nothing is granted, and nothing restored that had ended meanwhile: until the server knows everybody again, each
            // may use its share.
            self.cap = self.cap.min(cap).max(terms.limit / N_ROUTERS as u32);
            return;
        }
        self.cap = cap;
        self.known_at = Some(heard.executed);
        if reply.total + reply.others <= terms.limit.into() {
            self.by_right = self.in_use();
            self.from_before = 0;
        }
    }

    fn tick(&mut self, now: i128) {
        if now >= self.deadline {
            self.cap = 0;
            self.from_before = self.in_use();
            self.by_right = 0;
        }
    }

    fn start(&mut self, now: i128, n: u32) {
        if now < self.deadline {
            self.by_right += n.min(self.cap.saturating_sub(self.in_use()));
        }
    }

    fn finish(&mut self, n: u32) {
        let first = n.min(self.from_before);
        self.from_before -= first;
        self.by_right -= (n - first).min(self.by_right);
    }

    fn key(names: &Names) -> Key {
        names.permits()
    }
}
