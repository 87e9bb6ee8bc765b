//! Permits: LIMITS' concurrency, session by session.

use std::collections::BTreeMap;

use cofferdam_limits::redis::{Permits, PermitsReply, Reply};

use super::moment::{Moment, Outcome, Stored};

/// What each session holds.
pub(super) type Fields = BTreeMap<String, Field>;

#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    total: i128,
    ends: i128,
    seq: u64,
}

pub(super) fn ask(stored: &Fields, op: &Permits, moment: &Moment<'_>) -> Outcome<Fields> {
    // A field that has been dead for a TTL is gone; one that ends too far ahead ends sooner.
    let mut fields = stored.clone();
    fields.values_mut().for_each(|field| field.ends = moment.ends(field.ends));
    fields.retain(|_, field| moment.now < field.ends + moment.ttl);
    let is_live = |field: &Field| moment.now < field.ends;
    let others: Vec<_> =
        fields.iter().filter(|(name, field)| *name != moment.session && is_live(field)).collect();
    let sum: i128 = others.iter().map(|(_, field)| field.total).sum();
    let reply = |stale, total: i128, n_live| {
        let (total, others) = (total.try_into().unwrap(), sum.try_into().unwrap());
        Reply::Permits(PermitsReply { stale, total, others, n_live })
    };
    let n_others = others.len() as u32;
    let own = fields.get(moment.session).copied();
    let live_total = own.filter(is_live).map_or(0, |own| own.total);
    if let Some(own) = own.filter(|own| op.seq.get() <= own.seq) {
        let stale = op.seq.get() < own.seq || !is_live(&own);
        let n_live = n_others + u32::from(is_live(&own));
        return Outcome {
            reply: reply(stale, live_total, n_live),
            has_min: op.min == 0,
            stored: Stored::Unchanged,
        };
    }
    let held = op.held.map_or(live_total, i128::from);
    let grant = match moment.now - moment.start < moment.ttl {
        true => 0,
        false => (i128::from(op.limit) - sum - held).clamp(0, op.want.into()),
    };
    let total = if moment.gives { held + grant } else { held };
    let ends = moment.now + moment.ttl;
    fields.insert(moment.session.to_owned(), Field { total, ends, seq: op.seq.get() });
    let last = fields.values().map(|field| field.ends).max().unwrap();
    Outcome {
        reply: reply(false, total, n_others + 1),
        has_min: grant >= op.min.into(),
        stored: Stored::Until(fields, last + 2 * moment.ttl - moment.now),
    }
}
