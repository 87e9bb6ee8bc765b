//! A move of a tenant to other cells with nothing in flight on two pairs at once, as one value that any router may advance: every
//! live router holds the tenant's requests back and says how many are still inside; once there are none, the pin takes
//! effect, and each lets them in again. What is not done by its deadline is undone. How requests are held is not known here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::word::Word;

/// How long routers may take to let requests in again before the move counts as done all the same.
pub(super) const LETTING_IN_MS: u64 = 10_000;

/// For so long it is told how a move ended.
const TOLD_FOR_MS: u64 = 3_600_000;

/// A move that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Tells one from the next.
    pub(crate) id: String,
    pub(crate) phase: Phase,
    pub(crate) since_ms: u64,
    /// Unless the pin has taken effect by then, it never does.
    pub(crate) deadline_ms: u64,
    /// The pin.
    pub(crate) pin: Word,
    /// What each router has said, by its session.
    #[serde(default)]
    pub(crate) routers: BTreeMap<String, Heard>,
}

/// How far a move has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Requests are held back, and those that are inside end.
    Holding,
    /// The tenant has its new cells, and routers let its requests in.
    LettingIn,
}

/// What a router has said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Heard {
    /// It holds requests back, and so many are inside.
    Holding(u32),
    /// It lets them in.
    LettingIn,
}

/// A move that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) id: String,
    pub(crate) to: Vec<String>,
    pub(crate) since_ms: u64,
    pub(crate) ended_ms: u64,
    /// Nothing where the tenant was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undone: Option<String>,
}

impl Move {
    /// A move of which no router has said anything.
    pub(super) fn new(id: String, pin: Word, now_ms: u64, deadline_ms: u64) -> Self {
        Self { id, phase: Phase::Holding, since_ms: now_ms, deadline_ms, pin, routers: BTreeMap::new() }
    }

    /// Whether the tenant has its new cells.
    pub(super) fn has_taken_effect(&self) -> bool {
        self.phase == Phase::LettingIn
    }

    pub(super) fn until_ms(&self) -> u64 {
        self.deadline_ms + LETTING_IN_MS + TOLD_FOR_MS
    }

    /// Whether there is a next step by what is known here: who lives, and the time.
    pub(crate) fn would_go_on(&self, live: Option<&[String]>, now_ms: u64) -> bool {
        let (heard, end_ms) = match self.phase {
            Phase::Holding => (Heard::Holding(0), self.deadline_ms),
            Phase::LettingIn => (Heard::LettingIn, self.deadline_ms + LETTING_IN_MS),
        };
        now_ms >= end_ms || live.is_some_and(|live| self.have_all_said(live, heard))
    }

    /// Whether every router of `live` has said this.
    pub(super) fn have_all_said(&self, live: &[String], heard: Heard) -> bool {
        live.iter().all(|session| self.routers.get(session) == Some(&heard))
    }

    /// What kept it from being done in time.
    pub(super) fn obstacles(&self, live: &[String]) -> String {
        let silent = live.iter().filter(|session| !self.routers.contains_key(*session));
        let silent = silent.map(|session| format!("router {session} has not answered"));
        let busy = self.routers.iter().filter_map(|(session, heard)| match heard {
            Heard::Holding(n) if *n > 0 => Some(format!("{n} requests were in flight at router {session}")),
            _ => None,
        });
        let all: Vec<_> = busy.chain(silent).collect();
        if all.is_empty() { "it was not known which routers live".to_owned() } else { all.join("; ") }
    }
}

impl Ended {
    pub(super) fn until_ms(&self) -> u64 {
        self.ended_ms + TOLD_FOR_MS
    }
}
