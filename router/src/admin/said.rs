//! What an operator has said of a tenant's cells, as it is shown.

use serde_json::{Value, json};

use super::state::time;
use crate::overrides::placement::{Record, Touched, Word};

/// Everything that is said of a tenant's cells.
pub(super) fn shown(record: &Record, now_ms: u64) -> Value {
    let word = |word: &Option<Word>| {
        word.as_ref().filter(|word| word.is_live(now_ms)).map(|word| {
            json!({
                "to": word.to,
                "since": time(word.since_ms),
                "until": time(word.until_ms),
                "author": word.author,
                "reason": word.reason,
            })
        })
    };
    let touched = |touched: &Touched| json!({ "cell": touched.cell, "since": time(touched.at_ms) });
    json!({
        "quarantine": word(&record.quarantine),
        "pin": word(&record.pin),
        "new_cells": record.touched.iter().map(touched).collect::<Vec<_>>(),
    })
}
