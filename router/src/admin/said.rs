//! What an operator has said of a tenant's cells, as it is shown.

use cofferdam_model::TenantId;
use cofferdam_placement::Reason;
use serde_json::{Value, json};

use super::state::time;
use crate::overrides::placement::{Fitted, Heard, Move, MoveEnded, Phase, Record, Touched, Word};

/// Everything that is said of a tenant's cells, and whether it binds.
pub(super) fn shown(fitted: &Fitted, tenant: &TenantId, record: &Record) -> Value {
    let now_ms = fitted.now_ms();
    let word = |of: Reason, word: &Option<Word>| {
        word.as_ref().filter(|word| word.is_live(now_ms)).map(|word| {
            let standing = fitted.standing(of, tenant, now_ms);
            json!({
                "to": word.to,
                "since": time(word.since_ms),
                "until": time(word.until_ms),
                "author": word.author,
                "reason": word.reason,
                "binds": standing.binds(),
                // What keeps it from that, or has the tenant elsewhere.
                "why": standing.why(),
            })
        })
    };
    let touched = |touched: &Touched| json!({ "cell": touched.cell, "since": time(touched.at_ms) });
    json!({
        "quarantine": word(Reason::Quarantine, &record.quarantine),
        "pin": word(Reason::Pin, &record.pin),
        "move": record.moving.as_ref().map(moving),
        "last_move": record.moved.as_ref().map(moved),
        "new_cells": record.touched.iter().map(touched).collect::<Vec<_>>(),
    })
}

/// A move that goes on.
pub(super) fn moving(it: &Move) -> Value {
    let heard = |(session, heard): (&String, &Heard)| {
        let said = match heard {
            Heard::Holding(n) => json!({ "phase": "holding", "in_flight": n }),
            Heard::LettingIn => json!({ "phase": "letting_in" }),
        };
        (session.clone(), said)
    };
    json!({
        "id": it.id,
        "phase": match it.phase {
            Phase::Holding => "holding",
            Phase::LettingIn => "letting_in",
        },
        "to": it.pin.to,
        "since": time(it.since_ms),
        "deadline": time(it.deadline_ms),
        "author": it.pin.author,
        "reason": it.pin.reason,
        "routers": it.routers.iter().map(heard).collect::<serde_json::Map<_, _>>(),
    })
}

/// A move that has ended.
pub(super) fn moved(it: &MoveEnded) -> Value {
    json!({
        "id": it.id,
        "to": it.to,
        "since": time(it.since_ms),
        "ended": time(it.ended_ms),
        "took_ms": it.ended_ms.saturating_sub(it.since_ms),
        "outcome": if it.undone.is_none() { "done" } else { "undone" },
        "why": it.undone,
    })
}
