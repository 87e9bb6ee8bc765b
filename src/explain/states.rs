//! What is under way for a tenant, mostly no fault: an operator's word, a quarantine of the fleet file, a move, a release that it waits
//! for. Whoever asks what is wrong with the tenant has to know of it first.

use super::explanation::Seen;
use super::finding::{Finding, rank};
use crate::asked::{list, word};
use crate::placed::standing;
use crate::{moved, rollout};

/// What is under way.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let Seen { placement, release, .. } = seen;
    let mut found: Vec<_> =
        ["quarantine", "pin"].into_iter().filter_map(|of| of_word(of, &placement["override"][of])).collect();
    if placement["reason"] == "quarantine" && placement["override"]["quarantine"]["binds"] != true {
        let cells = list(&placement["shard"]);
        let what = format!("it is kept apart from all others on {cells}, by the fleet file's quarantine");
        found.push(Finding::note(rank::STATE, what, "take it out of placement.quarantine to end that"));
    }
    if let Some(phase) = moved::under_way(&placement["override"]["move"]) {
        let todo = "its requests wait meanwhile; to stop it: cofferdam move --stop";
        found.push(Finding::note(rank::STATE, format!("it {phase}"), todo));
    }
    if placement["waits_for_release"] == true {
        let what = format!(
            "it waits for its turn in a rollout, on the cells that it had before: {}",
            rollout::shown(release)
        );
        found.push(Finding::note(
            rank::STATE,
            what,
            "cofferdam rollout shows how far it is, stops it and lets it go on",
        ));
    }
    found
}

/// What an operator has said, and whether the tenant is where that says.
fn of_word(of: &str, said: &serde_json::Value) -> Option<Finding> {
    if !said.is_object() {
        return None;
    }
    let is_so = said["binds"] == true && said["why"].is_null();
    let (to, how) = (list(&said["to"]), standing(said));
    let end = if of == "pin" { "unpin" } else { "release" };
    let todo = format!("to end it before its time: cofferdam {end}");
    let what = match is_so {
        true => {
            let by = said["author"].as_str().unwrap_or("somebody");
            let why = said["reason"].as_str().map_or_else(String::new, |why| format!(": {why}"));
            format!("the operator's {of} to {to} binds until {}, by {by}{why}", word(&said["until"]))
        }
        false => format!("the operator's {of} to {to} {how}"),
    };
    // What an operator wants and has not is a fault.
    Some(Finding { is_fault: !is_so, ..Finding::note(rank::STATE, what, todo) })
}
