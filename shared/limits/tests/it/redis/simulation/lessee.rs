//! A session that spends leased tokens, by the written rules: it answers for what it was granted, and drops what is left at
//! its deadline, before the server does.

use cofferdam_limits::redis::{Dealing, Key, Op, Reply, Report, Tokens};

use super::world::{Heard, MARGIN_US, Router, TTL, Terms, World};
use crate::redis::{Names, seq};

#[derive(Debug, Default)]
pub(super) struct Lessee {
    number: u64,
    unspent: u32,
    spent: i64,
    deadline: i128,
    pending: Option<Pending>,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    op: Tokens,
    first_sent: i128,
}

impl Lessee {
    pub(super) fn unspent(&self) -> i128 {
        self.unspent.into()
    }
}

impl World<'_, Lessee> {
    /// What all have spent.
    pub(super) fn spent(&self) -> i64 {
        self.routers.iter().map(|router| router.spent).sum()
    }
}

impl Router for Lessee {
    fn call(&mut self, now: i128, want: u32, terms: &Terms) -> (u64, Op) {
        if let Some(Pending { number, op, first_sent }) = self.pending
            && now < first_sent + TTL.as_micros() as i128
        {
            return (number, Op::Tokens(op));
        }
        self.number += 1;
        // Who wants nothing gives everything back: from here on it is not to be spent.
        if want == 0 {
            self.unspent = 0;
        }
        let report = Report::Account { seq: seq(self.number), held: self.unspent, spent: self.spent };
        let op = Tokens { bucket: terms.bucket(), report, want, min: 0, dealing: Dealing::PLAIN };
        self.pending = Some(Pending { number: self.number, op, first_sent: now });
        (self.number, Op::Tokens(op))
    }

    fn hear(&mut self, now: i128, heard: &Heard, _: &Terms) {
        let (Reply::Tokens(reply), Some(pending)) = (heard.reply, self.pending) else { return };
        if pending.number != heard.number {
            return;
        }
        self.pending = None;
        let deadline = pending.first_sent + TTL.as_micros() as i128 - MARGIN_US;
        if !reply.stale && now < deadline {
            self.deadline = deadline;
            self.unspent += reply.granted;
        }
    }

    fn tick(&mut self, now: i128) {
        if now >= self.deadline {
            self.unspent = 0;
        }
    }

    fn start(&mut self, now: i128, n: u32) {
        if now < self.deadline {
            let spends = n.min(self.unspent);
            self.unspent -= spends;
            self.spent += i64::from(spends);
        }
    }

    /// Tokens that are spent are gone.
    fn finish(&mut self, _: u32) {}

    fn key(names: &Names) -> Key {
        names.tokens()
    }
}
