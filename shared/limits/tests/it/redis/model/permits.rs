//! Permits: LIMITS' concurrency, session by session.

use std::collections::BTreeMap;

use cofferdam_limits::redis::{Keeps, Permits, PermitsReply, Reply};

use super::contention::{Mark, may_hold_idle};
use super::moment::{Moment, Outcome, Stored};

/// What each session holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields {
    sessions: BTreeMap<String, Field>,
    mark: Mark,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    total: i128,
    ends: i128,
    seq: u64,
    keeps: Keeps,
}

pub(super) fn ask(stored: &Fields, op: &Permits, moment: &Moment<'_>) -> Outcome<Fields> {
    // A field that has been dead for a TTL is gone; one that ends too far ahead ends sooner.
    let Fields { mut sessions, mut mark } = stored.clone();
    sessions.values_mut().for_each(|field| field.ends = moment.ends(field.ends));
    sessions.retain(|_, field| moment.now < field.ends + moment.ttl);
    let is_live = |field: &Field| moment.now < field.ends;
    let others: Vec<_> =
        sessions.iter().filter(|(name, field)| *name != moment.session && is_live(field)).collect();
    let sum: i128 = others.iter().map(|(_, field)| field.total).sum();
    let is_idle =
        others.iter().any(|(_, field)| field.total > 0 && may_hold_idle(field.keeps, field.ends, moment));
    let reply = |stale, total: i128, n_live, contention| {
        let (total, others) = (total.try_into().unwrap(), sum.try_into().unwrap());
        Reply::Permits(PermitsReply { stale, total, others, n_live, contention })
    };
    let n_others = others.len() as u32;
    let own = sessions.get(moment.session).copied();
    let live_total = own.filter(is_live).map_or(0, |own| own.total);
    if let Some(own) = own.filter(|own| op.seq.get() <= own.seq) {
        let stale = op.seq.get() < own.seq || !is_live(&own);
        let n_live = n_others + u32::from(is_live(&own));
        return Outcome {
            reply: reply(stale, live_total, n_live, mark.meet(false, is_idle, moment)),
            has_min: op.min == 0,
            stored: Stored::Unchanged,
        };
    }
    let held = op.held.map_or(live_total, i128::from);
    let (mut grant, mut is_short) = (0, false);
    if moment.now - moment.start >= moment.ttl {
        let free = (i128::from(op.limit) - sum - held).max(0);
        let (want, need) = (i128::from(op.want), i128::from(op.dealing.need));
        let needed = need.min(free);
        grant = needed + (want - need).min((free - needed).div_euclid(op.dealing.parts.into()));
        is_short = grant < need;
    }
    let total = if moment.gives { held + grant } else { held };
    let ends = moment.now + moment.ttl;
    let own = Field { total, ends, seq: op.seq.get(), keeps: op.dealing.keeps };
    let contention = mark.meet(is_short, is_idle, moment);
    sessions.insert(moment.session.to_owned(), own);
    let last = sessions.values().map(|field| field.ends).max().unwrap();
    Outcome {
        reply: reply(false, total, n_others + 1, contention),
        has_min: grant >= op.min.into(),
        stored: Stored::Until(Fields { sessions, mark }, last + 2 * moment.ttl - moment.now),
    }
}
