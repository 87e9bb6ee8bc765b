//! The bucket, with accounts.

use cofferdam_limits::redis::{Reply, Report, Tokens, TokensReply};

use super::accounts::{Accounts, Booked, share};
use super::contention::Mark;
use super::moment::{Moment, Outcome, Stored, ceil, room};

#[derive(Debug, Clone)]
pub(super) struct Bucket {
    /// In 1/period tokens.
    level: i128,
    period: i128,
    at: i128,
    accounts: Accounts,
    mark: Mark,
}

/// A bucket's policy.
#[derive(Clone, Copy)]
struct Policy {
    n: i128,
    p: i128,
    capacity: i128,
}

/// A bucket brought to the present.
struct Present {
    level: i128,
    /// How far its time lies ahead.
    ahead: i128,
    is_reset: bool,
    accounts: Accounts,
}

impl Policy {
    fn full(&self) -> i128 {
        self.capacity * self.p
    }

    fn fill_time(&self) -> i128 {
        ceil(self.full(), self.n)
    }

    /// What is left beside what is outstanding.
    fn beside(&self, outstanding: i128) -> i128 {
        (self.capacity - outstanding).max(0) * self.p
    }

    fn until(&self, level: i128, target: i128) -> i128 {
        ceil((target - level).max(0), self.n)
    }

    fn present(&self, bucket: Option<&Bucket>, moment: &Moment<'_>) -> Present {
        let flowed = |us: i128| us * self.n;
        let Some(bucket) = bucket else {
            let level = flowed(moment.now - moment.start).min(self.full());
            return Present { level, ahead: 0, is_reset: false, accounts: Accounts::default() };
        };
        let (ended, accounts) = bucket.accounts.split(moment);
        let mut level = (bucket.level * self.p).div_euclid(bucket.period).clamp(-self.full(), self.full());
        let ahead = bucket.at - moment.now;
        if ahead > 0 {
            let is_reset = ahead > self.fill_time();
            return Present { level, ahead: if is_reset { 0 } else { ahead }, is_reset, accounts };
        }
        let mut from = bucket.at;
        let mut outstanding =
            accounts.outstanding() + ended.iter().map(|account| account.outstanding).sum::<i128>();
        for account in ended {
            let to = account.ends.max(from);
            level = (level + flowed(to - from)).min(self.full()).min(self.beside(outstanding));
            (from, outstanding) = (to, outstanding - account.outstanding);
        }
        level = (level + flowed(moment.now - from)).min(self.full());
        Present { level, ahead: 0, is_reset: false, accounts }
    }

    /// How long a key is worth keeping.
    fn lifetime(&self, present: &Present, moment: &Moment<'_>) -> i128 {
        let us = match present.accounts.last() {
            None => present.ahead + self.until(present.level, self.full()),
            Some(last) => {
                let outstanding = present.accounts.outstanding();
                let to_limit = present.ahead + self.until(present.level, self.beside(outstanding));
                to_limit.max(last - moment.now) + ceil(outstanding.min(self.capacity) * self.p, self.n)
            }
        };
        let remembered = present.accounts.remembered_until(moment) - moment.now;
        us.max(moment.start + self.fill_time() - moment.now).max(remembered)
    }
}

pub(super) fn ask(bucket: Option<&Bucket>, op: &Tokens, moment: &Moment<'_>) -> Outcome<Bucket> {
    let rate = op.bucket.rate();
    let [n, p, capacity] = [rate.tokens(), rate.period_us(), op.bucket.capacity()].map(i128::from);
    let policy = Policy { n, p, capacity };
    let mut present = policy.present(bucket, moment);
    present.level = present.level.min(policy.beside(present.accounts.outstanding()));
    let (mut stale, mut want, mut is_new) = (false, i128::from(op.want), true);
    match present.accounts.book(op.report, op.want, op.dealing.keeps, moment) {
        Booked::Old { stale: is_stale, want: stored } => (stale, want, is_new) = (is_stale, stored, false),
        Booked::Back(tokens, _) => {
            let level = (present.level + tokens * p).max(-policy.full());
            present.level = level.min(policy.beside(present.accounts.outstanding()));
        }
    }
    let (available, min) = (present.level.div_euclid(p).max(0), i128::from(op.min));
    let wanted = present.accounts.wanted(moment, want);
    let offer = if is_new { share(available, op.want, wanted, op.min, op.dealing) } else { 0 };
    let wait = match min {
        min if min > capacity => None,
        min if min <= available => Some(0),
        min => Some(present.ahead + policy.until(present.level, min * p)),
    };
    let mut mark = bucket.map_or_else(Mark::default, |bucket| bucket.mark);
    let is_short = is_new && offer < op.dealing.need.into();
    let contention = mark.meet(is_short, present.accounts.is_idle(moment), moment);
    let grant = if moment.gives { offer } else { 0 };
    let says = grant > 0 || op.report != Report::Spent(0);
    if is_new {
        present.level -= grant * p;
        present.accounts.grant(op.report, grant, moment);
    }
    let reply = Reply::Tokens(TokensReply {
        stale,
        granted: grant.try_into().unwrap(),
        level: present.level.try_into().unwrap(),
        outstanding: present.accounts.outstanding().try_into().unwrap(),
        room: room(wait),
        wanted: wanted.try_into().unwrap(),
        contention,
    });
    let stored = match (is_new, bucket) {
        (true, _) if says => store(&policy, present, mark, op, moment),
        (true, Some(bucket)) if present.is_reset && wait.is_some_and(|us| us > 0) => {
            Stored::Touched(Bucket { at: moment.now, mark, ..bucket.clone() })
        }
        (true, Some(bucket)) => Stored::Touched(Bucket { mark, ..bucket.clone() }),
        _ => Stored::Unchanged,
    };
    Outcome { reply, has_min: offer >= min, stored }
}

fn store(policy: &Policy, present: Present, mark: Mark, op: &Tokens, moment: &Moment<'_>) -> Stored<Bucket> {
    let is_full = present.level >= policy.full() && moment.now - moment.start >= policy.fill_time();
    let has_account = matches!(op.report, Report::Account { .. });
    if is_full && !has_account && present.accounts.is_empty() && moment.forgets {
        return Stored::Gone;
    }
    let lifetime = policy.lifetime(&present, moment);
    let Present { level, ahead, accounts, .. } = present;
    Stored::Until(Bucket { level, period: policy.p, at: moment.now + ahead, accounts, mark }, lifetime)
}
