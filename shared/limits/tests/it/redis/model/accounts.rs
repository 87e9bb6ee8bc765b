//! Accounts: what sessions were granted and have neither spent nor given back.

use std::collections::BTreeMap;

use cofferdam_limits::redis::Report;

use super::moment::Moment;

/// The accounts of one key, by session.
#[derive(Debug, Clone, Default)]
pub(super) struct Accounts(BTreeMap<String, Account>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Account {
    pub(super) outstanding: i128,
    pub(super) ends: i128,
    spent: i128,
    seq: u64,
    want: i128,
}

/// What a report comes to.
pub(super) enum Booked {
    /// It came before, or too late.
    Old { stale: bool, want: i128 },
    /// So many tokens come back, or are charged where that is below zero.
    Back(i128),
}

impl Accounts {
    /// The accounts that have ended by now, in the order in which they did, and those that live.
    pub(super) fn split(&self, moment: &Moment<'_>) -> (Vec<Account>, Self) {
        let (mut ended, mut live) = (Vec::new(), Self::default());
        for (session, account) in &self.0 {
            let account = Account { ends: moment.ends(account.ends), ..*account };
            if account.ends <= moment.now {
                ended.push(account);
            } else {
                live.0.insert(session.clone(), account);
            }
        }
        ended.sort_by_key(|account| account.ends);
        (ended, live)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.0.values()
    }

    pub(super) fn outstanding(&self) -> i128 {
        self.iter().map(|account| account.outstanding).sum()
    }

    /// When the last of them ends.
    pub(super) fn last(&self) -> Option<i128> {
        self.iter().map(|account| account.ends).max()
    }

    /// What all sessions want, this one `want`.
    pub(super) fn wanted(&self, moment: &Moment<'_>, want: i128) -> i128 {
        let others = self.0.iter().filter(|(session, _)| *session != moment.session);
        want + others.map(|(_, account)| account.want).sum::<i128>()
    }

    /// Takes over a report.
    pub(super) fn book(&mut self, report: Report, want: u32, moment: &Moment<'_>) -> Booked {
        let (seq, held, spent) = match report {
            Report::Spent(spent) => return Booked::Back(-i128::from(spent)),
            Report::Account { seq, held, spent } => (seq.get(), i128::from(held), i128::from(spent)),
        };
        let back = match self.0.get(moment.session) {
            Some(own) if seq <= own.seq => return Booked::Old { stale: seq < own.seq, want: own.want },
            Some(own) => own.outstanding - held - (spent - own.spent),
            None => 0,
        };
        let (ends, want) = (moment.now + moment.ttl, want.into());
        self.0.insert(moment.session.to_owned(), Account { outstanding: held, ends, spent, seq, want });
        Booked::Back(back)
    }

    /// Adds what was granted to the session's account, where it has one that `report` speaks of.
    pub(super) fn grant(&mut self, report: Report, granted: i128, moment: &Moment<'_>) {
        if let (Report::Account { .. }, Some(own)) = (report, self.0.get_mut(moment.session)) {
            own.outstanding += granted;
        }
    }
}

/// What one gets of `available`: all where it suffices for everybody, else a part by what each wants, at least one; and
/// `min` wherever that is there.
pub(super) fn share(available: i128, want: u32, wanted: i128, min: u32) -> i128 {
    let (want, min) = (i128::from(want), i128::from(min));
    let part = match available >= wanted {
        true => want,
        false => (available * want / wanted).max(1).min(want).min(available),
    };
    if part < min && min <= available { min } else { part }
}
