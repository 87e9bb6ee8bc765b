//! The roll call: each session says that it lives, and hears who else does. Shares of a limit are reckoned by it while the store
//! is away; and whether it is back is seen by it, where nobody else has anything to say.
//!
//! The roll is a limit that grants nothing and of which everybody holds nothing, so that the script keeps it.

use std::collections::HashMap;
use std::sync::Arc;

use ::redis::{cmd, from_redis_value};

use super::call::Call;
use super::core::Core;
use super::link::Link;
use super::op::{Op, Permits};

/// Calls the roll in the background; without an answer the last one stands.
pub(super) fn call(core: &Arc<Core>) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        if let Some(names) = live(&core).await {
            let terms = &core.terms;
            terms.sharers.saw(names, terms.clock.now_us(), terms.ttl_us);
        }
    });
}

/// Signs in, and reads who lives.
async fn live(core: &Core) -> Option<Vec<String>> {
    let (terms, fleet) = (&core.terms, &core.fleet);
    let sent_us = terms.clock.now_us();
    let mut builder = Call::builder(fleet.roll_epoch(), &terms.session, terms.ttl);
    let nothing = Permits { limit: 0, seq: terms.next_seq(), held: Some(0), want: 0, min: 0 };
    builder.op(&fleet.roll(), Op::Permits(nothing));
    let call = builder.build().ok()?;
    let breaker = core.link.breaker(Link::slot(&fleet.roll_epoch()));
    let answer = core.link.call(&call).await.inspect_err(|error| {
        // Where there is no connection, whoever asks next hears so at once.
        if error.is_silence() && !error.changed_nothing() {
            breaker.gone();
        }
    });
    let replies = call.read(&answer.ok()?).ok()?;
    breaker.answered_after(terms.since_us(sent_us), terms.budget_us);
    let mut read = cmd("HGETALL");
    read.arg(fleet.roll().as_str());
    let fields: HashMap<String, String> = from_redis_value(core.link.command(read).await.ok()?).ok()?;
    let live = fields.into_iter().filter(|(_, field)| ends_us(field) > Some(replies.now_us));
    Some(live.map(|(name, _)| name).collect())
}

/// When a session of the roll ends, in the store's time.
fn ends_us(field: &str) -> Option<u64> {
    field.split(':').nth(1)?.parse().ok()
}
