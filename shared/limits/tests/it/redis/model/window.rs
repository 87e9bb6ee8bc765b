//! Quotas: two counters, and accounts.

use cofferdam_limits::redis::{Reply, Report, Window, WindowReply};

use super::accounts::{Account, Accounts, Booked, share};
use super::contention::Mark;
use super::moment::{Moment, Outcome, Stored, ceil, room};

#[derive(Debug, Clone)]
pub(super) struct Counters {
    index: i128,
    current: i128,
    previous: i128,
    accounts: Accounts,
    mark: Mark,
}

const MOST: i128 = (1 << 37) - 1;

/// The counters as they are in the window of now; `length` is a window's, in microseconds.
fn present(stored: Option<&Counters>, length: i128, moment: &Moment<'_>) -> Counters {
    let index = moment.now.div_euclid(length);
    let Some(stored) = stored else {
        return Counters {
            index,
            current: 0,
            previous: 0,
            accounts: Accounts::default(),
            mark: Mark::default(),
        };
    };
    let (mark, (ended, accounts)) = (stored.mark, stored.accounts.split(moment));
    let everyone: Vec<Account> = accounts.iter().copied().chain(ended).collect();
    let held_until = |from: i128, to: Option<i128>| -> i128 {
        let within = |account: &&Account| account.ends > from && to.is_none_or(|to| account.ends <= to);
        everyone.iter().filter(within).map(|account| account.outstanding).sum()
    };
    let (begins, current, previous) = (index * length, stored.current, stored.previous);
    let moves = held_until(begins, None);
    match stored.index - index {
        1 => Counters { index: index + 1, current, previous, accounts, mark },
        0.. => Counters { index, current, previous, accounts, mark },
        -1 => Counters { index, current: moves, previous: (current - moves).max(0), accounts, mark },
        _ => Counters {
            index,
            current: moves,
            previous: held_until(begins - length, Some(begins)),
            accounts,
            mark,
        },
    }
}

impl Counters {
    /// What counts as used so many seconds into the window.
    fn used(&self, elapsed_s: i128, window_s: i128) -> i128 {
        self.current + ceil(self.previous * (window_s - elapsed_s), window_s)
    }

    /// The first whole second, from the window's beginning on, in which `room` is enough for what is used.
    fn passes_at(&self, room: i128, window_s: i128) -> i128 {
        let first = |counters: &Self| {
            let (mut no, mut yes) = (-1, window_s);
            while yes - no > 1 {
                let middle = (no + yes).div_euclid(2);
                if counters.used(middle, window_s) <= room { yes = middle } else { no = middle }
            }
            yes
        };
        match first(self) {
            seconds if seconds < window_s => seconds,
            _ => window_s + first(&Self { current: 0, previous: self.current, ..self.clone() }),
        }
    }
}

pub(super) fn ask(stored: Option<&Counters>, op: &Window, moment: &Moment<'_>) -> Outcome<Counters> {
    let (window_s, limit, min) = (i128::from(op.window_s), i128::from(op.limit), i128::from(op.min));
    let length = window_s * 1_000_000;
    let mut counters = present(stored, length, moment);
    let elapsed_s = (moment.now.div_euclid(1_000_000) - counters.index * window_s).max(0);
    let (mut stale, mut want, mut is_new) = (false, i128::from(op.want), true);
    match counters.accounts.book(op.report, op.want, op.dealing.keeps, moment) {
        Booked::Old { stale: is_stale, want: stored } => (stale, want, is_new) = (is_stale, stored, false),
        Booked::Back(back, ended) => {
            // What was left unspent in a window before was used there.
            let is_past = ended.is_some_and(|ended| ended < counters.index * length);
            let back = if is_past { back.min(0) } else { back };
            counters.current = (counters.current - back).max(counters.accounts.outstanding()).min(MOST);
        }
    }
    let used = counters.used(elapsed_s, window_s);
    let wait = match limit - min {
        room if room < 0 => None,
        room if used <= room => Some(0),
        room => {
            let at_s = counters.index * window_s + counters.passes_at(room, window_s);
            Some(at_s * 1_000_000 - moment.now)
        }
    };
    let wanted = counters.accounts.wanted(moment, want);
    let offer = if is_new { share((limit - used).max(0), op.want, wanted, op.min, op.dealing) } else { 0 };
    let (is_short, is_idle) = (is_new && offer < op.dealing.need.into(), counters.accounts.is_idle(moment));
    let contention = counters.mark.meet(is_short, is_idle, moment);
    let grant = if moment.gives { offer } else { 0 };
    if is_new {
        counters.current = (counters.current + grant).min(MOST);
        counters.accounts.grant(op.report, grant, moment);
    }
    let reply = Reply::Window(WindowReply {
        stale,
        granted: grant.try_into().unwrap(),
        used: counters.used(elapsed_s, window_s).try_into().unwrap(),
        room: room(wait),
        outstanding: counters.accounts.outstanding().try_into().unwrap(),
        contention,
    });
    let says = is_new && (grant > 0 || op.report != Report::Spent(0));
    let stored = match stored {
        _ if says => store(counters, length, op, moment),
        Some(stored) => Stored::Touched(Counters { mark: counters.mark, ..stored.clone() }),
        None => Stored::Unchanged,
    };
    Outcome { reply, has_min: offer >= min, stored }
}

fn store(counters: Counters, length: i128, op: &Window, moment: &Moment<'_>) -> Stored<Counters> {
    let has_account = matches!(op.report, Report::Account { .. });
    let is_empty = counters.current == 0 && counters.previous == 0;
    if is_empty && !has_account && counters.accounts.is_empty() && moment.forgets {
        return Stored::Gone;
    }
    let last = counters.accounts.last().map_or(0, |last| last.div_euclid(length)).max(counters.index);
    let ends = ((last + 2) * length).max(counters.accounts.remembered_until(moment));
    Stored::Until(counters, ends - moment.now)
}
