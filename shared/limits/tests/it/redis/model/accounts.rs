//! Accounts: what sessions were granted and have neither spent nor given back; and their tombstones.

use std::collections::BTreeMap;

use cofferdam_limits::redis::{Dealing, Keeps, Report};

use super::contention::may_hold_idle;
use super::moment::Moment;

/// The accounts of one key, by session, and the tombstones of those that have ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Accounts {
    live: BTreeMap<String, Account>,
    graves: BTreeMap<String, Account>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    pub(super) outstanding: i128,
    pub(super) ends: i128,
    spent: i128,
    seq: u64,
    want: i128,
    keeps: Keeps,
}

/// What a report comes to.
pub(super) enum Booked {
    /// It came before, or too late.
    Old { stale: bool, want: i128 },
    /// So many tokens come back, or are charged where that is below zero. The account that it speaks of had ended then, if any.
    Back(i128, Option<i128>),
}

impl Accounts {
    /// The accounts that have ended by now, in the order in which they did, and those that live beside the tombstones.
    pub(super) fn split(&self, moment: &Moment<'_>) -> (Vec<Account>, Self) {
        let (mut ended, mut left) = (Vec::new(), Self::default());
        let is_remembered = |ends: i128| moment.now < ends + moment.ttl;
        for (session, grave) in &self.graves {
            let grave = Account { ends: moment.ends(grave.ends).min(moment.now), ..*grave };
            if is_remembered(grave.ends) {
                left.graves.insert(session.clone(), grave);
            }
        }
        for (session, account) in &self.live {
            let account = Account { ends: moment.ends(account.ends), ..*account };
            if account.ends > moment.now {
                left.live.insert(session.clone(), account);
                continue;
            }
            ended.push(account);
            if is_remembered(account.ends) {
                left.graves.insert(session.clone(), account);
            }
        }
        ended.sort_by_key(|account| account.ends);
        (ended, left)
    }

    /// Whether nothing is remembered of anybody.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.graves.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.live.values()
    }

    pub(super) fn outstanding(&self) -> i128 {
        self.iter().map(|account| account.outstanding).sum()
    }

    /// When the last of them ends.
    pub(super) fn last(&self) -> Option<i128> {
        self.iter().map(|account| account.ends).max()
    }

    /// Until when anything is remembered of anybody.
    pub(super) fn remembered_until(&self, moment: &Moment<'_>) -> i128 {
        let all = self.live.values().chain(self.graves.values());
        all.map(|account| account.ends + moment.ttl).max().unwrap_or(0)
    }

    /// What all sessions want, this one `want`.
    pub(super) fn wanted(&self, moment: &Moment<'_>, want: i128) -> i128 {
        want + self.others(moment).map(|account| account.want).sum::<i128>()
    }

    /// Whether another session may hold something idle.
    pub(super) fn is_idle(&self, moment: &Moment<'_>) -> bool {
        self.others(moment)
            .any(|account| account.outstanding > 0 && may_hold_idle(account.keeps, account.ends, moment))
    }

    fn others(&self, moment: &Moment<'_>) -> impl Iterator<Item = &Account> {
        let own = moment.session;
        self.live.iter().filter(move |(session, _)| *session != own).map(|(_, account)| account)
    }

    /// Takes over a report.
    pub(super) fn book(&mut self, report: Report, want: u32, keeps: Keeps, moment: &Moment<'_>) -> Booked {
        let (seq, held, spent) = match report {
            Report::Spent(spent) => return Booked::Back(-i128::from(spent), None),
            Report::Account { seq, held, spent } => (seq.get(), i128::from(held), i128::from(spent)),
        };
        let live = self.live.get(moment.session).copied();
        let grave = self.graves.get(moment.session).copied();
        let back = match live.or(grave) {
            Some(own) if seq <= own.seq => {
                let (stale, want) = (seq < own.seq || live.is_none(), live.map_or(0, |own| own.want));
                return Booked::Old { stale, want };
            }
            Some(own) => own.outstanding - held - (spent - own.spent),
            None => 0,
        };
        let (ends, want) = (moment.now + moment.ttl, want.into());
        let account = Account { outstanding: held, ends, spent, seq, want, keeps };
        self.live.insert(moment.session.to_owned(), account);
        self.graves.remove(moment.session);
        Booked::Back(back, grave.filter(|_| live.is_none()).map(|grave| grave.ends))
    }

    /// Adds what was granted to the session's account, where it has one that `report` speaks of.
    pub(super) fn grant(&mut self, report: Report, granted: i128, moment: &Moment<'_>) {
        if let (Report::Account { .. }, Some(own)) = (report, self.live.get_mut(moment.session)) {
            own.outstanding += granted;
        }
    }
}

/// What one gets of `available`: what it needs first, and beyond that one part in so many. Where it needs nothing and takes all, all
/// where it suffices for everybody, else a part by what each wants, at least one; and `min` wherever that is there.
pub(super) fn share(available: i128, want: u32, wanted: i128, min: u32, dealing: Dealing) -> i128 {
    let (want, min, need) = (i128::from(want), i128::from(min), i128::from(dealing.need));
    let needed = need.min(available);
    let beyond = (available - needed).div_euclid(dealing.parts.into()).min(want - need);
    let part = match need == 0 && dealing.parts == 1 && available < wanted {
        false => needed + beyond,
        true => (available * want / wanted).max(1).min(want).min(available),
    };
    if part < min && min <= available { min } else { part }
}
