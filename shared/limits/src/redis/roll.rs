//! The roll call: each session says that it lives, and hears who else does. Shares of a limit are reckoned by it while the store
//! is away.

use std::sync::Arc;

use ::redis::{Value, cmd};

use super::core::Core;

const ROLL: &str = include_str!("../../lua/roll.lua");

/// Calls the roll in the background; without an answer the last one stands.
pub(super) fn call(core: &Arc<Core>) {
    let core = Arc::clone(core);
    let mut roll = cmd("EVAL");
    roll.arg(ROLL).arg(1).arg(core.fleet.roll().as_str());
    roll.arg(core.terms.session.as_str()).arg(core.terms.ttl_us);
    tokio::spawn(async move {
        if let Ok(Value::Array(names)) = core.link.command(roll).await {
            let (terms, names) = (&core.terms, names.into_iter().filter_map(name).collect());
            terms.sharers.saw(names, terms.clock.now_us(), terms.ttl_us);
        }
    });
}

fn name(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
