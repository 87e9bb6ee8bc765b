//! The roll call: each session says that it lives, and hears who else does. Shares of a limit are reckoned by it while the store
//! is away; and whether it is back is seen by it, where nobody else has anything to say.
//!
//! The roll is a limit that grants nothing and of which everybody holds nothing, so that the script keeps it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::cmd;

use super::call::Call;
use super::core::Core;
use super::link::{Link, LinkError, read};
use super::op::{Dealing, Op, Permits};

/// How long after a roll call without an answer the first one is tried again.
const FIRST_AGAIN: Duration = Duration::from_millis(20);

/// Calls the roll in the background; without an answer the last one stands.
pub(super) fn call(core: &Arc<Core>) {
    let core = Arc::clone(core);
    tokio::spawn(async move { call_now(&core).await });
}

/// Calls the roll as soon as there is a connection, until the store answers for the first time.
pub(super) fn call_first(core: &Arc<Core>) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        loop {
            core.link.connected().await;
            if call_now(&core).await {
                return;
            }
            tokio::time::sleep(FIRST_AGAIN).await;
        }
    });
}

/// Calls the roll; whether there was an answer.
async fn call_now(core: &Core) -> bool {
    let Some(names) = live(core).await else { return false };
    let terms = &core.terms;
    terms.sharers.saw(names, terms.clock.now_us(), terms.ttl_us);
    core.has_answered.send_replace(true);
    true
}

/// Signs in, and reads who lives.
async fn live(core: &Core) -> Option<Vec<String>> {
    let (terms, fleet) = (&core.terms, &core.fleet);
    let sent_us = terms.clock.now_us();
    let mut builder = Call::builder(fleet.roll_epoch(), &terms.session, terms.ttl);
    let dealing = Dealing::PLAIN;
    let nothing = Permits { limit: 0, seq: terms.next_seq(), held: Some(0), want: 0, min: 0, dealing };
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
    names(core, replies.now_us).await.ok()
}

/// The names on the roll that have not ended at `now_us`, in the store's time.
async fn names(core: &Core, now_us: u64) -> Result<Vec<String>, LinkError> {
    let mut asked = cmd("HGETALL");
    asked.arg(core.fleet.roll().as_str());
    let fields: HashMap<String, String> = read(core.link.command(asked).await?)?;
    let live = fields.into_iter().filter(|(_, field)| ends_us(field) > Some(now_us));
    Ok(live.map(|(name, _)| name).collect())
}

/// Every session that lives at `now_us`, in the store's time, as the store knows now. Nothing while it has remembered for less than
/// a TTL: it may not yet have heard of all.
pub(super) async fn known(core: &Core, now_us: u64) -> Result<Option<Vec<String>>, LinkError> {
    let mut asked = cmd("GET");
    asked.arg(core.fleet.roll_epoch().as_str());
    let epoch: Option<String> = read(core.link.command(asked).await?)?;
    let begun_us = epoch.as_deref().and_then(|epoch| epoch.split(':').nth(1)?.parse::<u64>().ok());
    if begun_us.is_none_or(|begun_us| now_us.saturating_sub(begun_us) < core.terms.ttl_us) {
        return Ok(None);
    }
    names(core, now_us).await.map(Some)
}

/// When a session of the roll ends, in the store's time.
fn ends_us(field: &str) -> Option<u64> {
    field.split(':').nth(1)?.parse().ok()
}
