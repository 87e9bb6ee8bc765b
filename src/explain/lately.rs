//! What the last minute says of a tenant: refusals, failures, drills, slow answers and requests that wait, each with its count, its
//! cause and what to do. It asks nobody.

use cofferdam_router::{EventKind, RecentRow, RecentWaiting, TenantRecent};
use serde_json::Value;

use super::causes::{Cause, Group};
use super::explanation::Seen;
use super::finding::{Finding, rank};
use super::shown::{order, seconds};
use crate::asked::word;

/// So many events are a fault, however many requests there were.
const MANY: u64 = 5;

/// So many answers tell how long answers take.
const ENOUGH: u64 = 3;

/// A mean of so many times the usual one, and so much more, is slow.
const SLOWER: u64 = 3;
const SLOWER_BY_MS: u64 = 50;

/// A mean that is slow where nothing is known of the usual one.
const SLOW_MS: u64 = 1_000;

/// What the last minute says.
pub(super) fn findings(seen: &Seen, recent: &TenantRecent) -> Vec<Finding> {
    let lately = Lately { seen, recent };
    let mut found = lately.drills();
    let answers = Group::of(recent.rows.iter().filter(|row| is_trouble(row)));
    found.extend(answers.iter().map(|group| lately.answers(group)));
    found.extend(recent.rows.iter().filter_map(|row| lately.attempts(row)));
    found.extend(recent.rows.iter().filter_map(|row| lately.broke_off(row)));
    found.extend(recent.rows.iter().filter_map(|row| lately.slow(row)));
    found.extend(recent.waiting.iter().filter_map(|waiting| lately.hangs(waiting)));
    found
}

/// Whether a limit of that level and kind refused something.
pub(super) fn refused_by(recent: Option<&TenantRecent>, level: &str, reason: &str) -> bool {
    recent.is_some_and(|recent| recent.rows.iter().any(|row| row.level == level && row.reason == reason))
}

/// Whether a limit that routers share refused something.
pub(super) fn refused_by_limits(recent: Option<&TenantRecent>) -> bool {
    let is_limit = |row: &RecentRow| matches!(row.level.as_str(), "tenant" | "route" | "fleet");
    recent.is_some_and(|recent| recent.rows.iter().any(is_limit))
}

/// Whether callers saw it as a refusal or a failure. Whoever went away did so for reasons of its own, and drills come apart.
fn is_trouble(row: &RecentRow) -> bool {
    row.kind == EventKind::Answer && row.reason != "ok" && row.level != "drill" && row.level != "client"
}

struct Lately<'a> {
    seen: &'a Seen,
    recent: &'a TenantRecent,
}

impl Lately<'_> {
    fn tenant(&self) -> &str {
        &self.recent.tenant
    }

    /// A count beside all requests.
    fn of_all(&self, count: u64) -> String {
        let Self { recent, .. } = self;
        let within = recent.covers_ms.div_ceil(1000).max(1);
        format!("{count} of {} requests of the last {within} s", recent.requests.max(count))
    }

    fn permille(&self, count: u64) -> u32 {
        (count * 1000 / self.recent.requests.max(count).max(1)) as u32
    }

    /// Whether so many are a fault: a single one of very many is only told.
    fn is_many(&self, count: u64) -> bool {
        count >= MANY || self.permille(count) >= 10
    }

    /// `cell-a (home)`.
    fn cell(&self, id: &str) -> String {
        let shard = self.seen.placement["shard"].as_array().into_iter().flatten();
        let at = shard.enumerate().find(|(_, cell)| cell.as_str() == Some(id)).map(|(at, _)| at);
        at.map_or_else(|| id.to_owned(), |at| format!("{id} ({})", order(at)))
    }

    fn is_down(&self, id: &str) -> bool {
        let mut cells = self.seen.placement["cells"].as_array().into_iter().flatten();
        cells.any(|cell| cell["id"] == id && cell["up"] == false)
    }

    fn cells(&self, group: &Group) -> String {
        let cells: Vec<_> = group.cells.iter().map(|cell| self.cell(cell)).collect();
        if cells.is_empty() { "its cells".to_owned() } else { cells.join(" and ") }
    }

    /// Requests that were refused or failed.
    fn answers(&self, group: &Group) -> Finding {
        let cells = self.cells(group);
        let Cause { verb, why, todo, rank: cause } =
            Cause::of(group, &cells, self.tenant(), &self.seen.limits);
        let what = format!("{} {verb}: {why}", self.of_all(group.count));
        let rank = cause.unwrap_or(rank::ANSWERS + self.permille(group.count));
        match self.is_many(group.count) && group.level != "request" {
            true => Finding::fault(rank, what, todo),
            false => Finding::note(rank.min(rank::STATE), what, todo),
        }
    }

    /// Attempts on one cell that another one made good, or that ended with an answer that is told already.
    fn attempts(&self, row: &RecentRow) -> Option<Finding> {
        let id = row.cell.as_deref()?;
        let cell = self.cell(id);
        // A cell that is believed down is told as such.
        if row.kind != EventKind::Attempt || row.reason == "connect" && self.is_down(id) {
            return None;
        }
        let (rank, why, todo) = match row.reason.as_str() {
            "connect" => (
                rank::ATTEMPTS + 550,
                "is down: it takes no connection",
                "see whether its agent runs, and what is in the way",
            ),
            "backend_unreachable" => (
                rank::ATTEMPTS + 600,
                "has no backend: its agent is up, and the backend takes no connection",
                "start the backend again, and read its log",
            ),
            "backend_breaker_open" => (
                rank::BREAKER,
                "has an open breaker before its backend, which failed too often",
                "see why the backend fails; the breaker closes by itself once it is well",
            ),
            "lost" | "backend_lost" => (
                rank::ATTEMPTS,
                "was lost with the request in flight",
                "see why it ends: its log, its exit code",
            ),
            "malformed" => (rank::ATTEMPTS, "answered what is no HTTP", "see what listens there"),
            "refused_cell" => (rank::ATTEMPTS, "had no room", "see what fills it: cofferdam advise"),
            "connections_full" => (
                rank::ATTEMPTS,
                "has all connections that this router may open to it",
                "raise the router's --max-upstream-connections, or see why answers take so long",
            ),
            _ => return None,
        };
        let within = self.recent.covers_ms.div_ceil(1000).max(1);
        let what = format!("{cell} {why}: {} attempts of the last {within} s", row.count);
        let rank = rank + self.permille(row.count).min(100);
        Some(if self.is_many(row.count) {
            Finding::fault(rank, what, todo)
        } else {
            Finding::note(rank, what, todo)
        })
    }

    fn broke_off(&self, row: &RecentRow) -> Option<Finding> {
        let cell = self.cell(row.cell.as_deref()?);
        let why = match (row.kind, row.reason.as_str()) {
            (EventKind::Late, "broke_off") => "broke off behind their head",
            (EventKind::Late, _) => "ended with a failure in their trailers",
            _ => return None,
        };
        let what = format!("answers of {cell} {why}: {} of class {}", row.count, row.class);
        let rank = rank::ANSWERS + self.permille(row.count);
        Some(Finding::fault(rank, what, format!("see the log of the backend of {cell}")))
    }

    /// Answers that take much longer than they usually do.
    fn slow(&self, row: &RecentRow) -> Option<Finding> {
        let is_answer = row.kind == EventKind::Answer && row.reason == "ok" && row.level == "backend";
        let is_gone = row.level == "client" && row.mean_ms >= SLOW_MS;
        if row.count < ENOUGH || !(is_answer || is_gone) {
            return None;
        }
        let is_slow = match row.usual_ms {
            Some(usual) => row.mean_ms >= usual * SLOWER && row.mean_ms >= usual + SLOWER_BY_MS,
            None => row.mean_ms >= SLOW_MS,
        };
        if !is_slow && row.late * 2 < row.count {
            return None;
        }
        let cell = self.cell(row.cell.as_deref()?);
        let usually = row.usual_ms.map_or_else(String::new, |usual| format!(", usually {}", short(usual)));
        let late = match row.late {
            0 => String::new(),
            late => format!("; {late} took more than half of what their route has"),
        };
        let RecentRow { class, count, mean_ms, max_ms, .. } = row;
        let what = match is_gone {
            true => format!("{count} callers of class {class} went away after {} on {cell}", short(*mean_ms)),
            false => format!(
                "answers of class {class} from {cell} are slow: {} on average, {} at most, of {count}{usually}{late}",
                short(*mean_ms),
                short(*max_ms)
            ),
        };
        let todo = format!("see why the backend of {cell} is slow, and what it waits for itself");
        Some(Finding::fault(rank::SLOW + self.permille(*count) / 10, what, todo))
    }

    /// Requests that wait for much longer than answers usually take.
    fn hangs(&self, waiting: &RecentWaiting) -> Option<Finding> {
        let (class, cell) = (waiting.class.as_deref()?, waiting.cell.as_deref()?);
        let usual = self.recent.rows.iter().filter(|row| row.class == class).find_map(|row| row.usual_ms);
        let is_long = usual.is_some_and(|usual| waiting.oldest_ms >= usual * SLOWER + SLOW_MS);
        if waiting.late == 0 && !is_long {
            return None;
        }
        let RecentWaiting { count, oldest_ms, .. } = waiting;
        let cell = self.cell(cell);
        let what = format!(
            "{count} requests of class {class} wait for an answer of {cell}, the oldest for {}",
            seconds(*oldest_ms)
        );
        let todo = format!("see whether the backend of {cell} hangs, and what it waits for itself");
        Some(Finding::fault(rank::WAITING, what, todo))
    }

    /// Drills that struck the tenant, and those that may strike what waits.
    fn drills(&self) -> Vec<Finding> {
        let todo = "it ends by itself; to end it now: cofferdam drill stop, at that agent's admin listener";
        let rows = self.recent.rows.iter().filter(|row| row.level == "drill");
        let struck = Group::of(rows).into_iter().map(|group| {
            let cells = self.cells(&group);
            let did = match group.reason.as_str() {
                "latency" => format!("held up on {cells} by a drill of latency"),
                "status" => format!("answered {} on {cells} by a drill", group.status),
                _ => format!("held on {cells} until their deadline by a drill (hang)"),
            };
            let what = format!("{} were {did}, of class {}", self.of_all(group.count), group.class);
            Finding::fault(rank::DRILL + self.permille(group.count), what, todo)
        });
        let mut found: Vec<_> = struck.collect();
        for cell in self.seen.placement["cells"].as_array().into_iter().flatten() {
            let id = word(&cell["id"]);
            for drill in cell["drills"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                found.extend(self.drill_at(&id, drill, todo, !found.is_empty()));
            }
        }
        found
    }

    /// A drill that goes on at a cell, by its agent's word, which names no tenant.
    fn drill_at(&self, cell: &str, drill: &str, todo: &str, is_told: bool) -> Option<Finding> {
        let is_meant = |class: &str| {
            !drill.contains(" for class ") || drill.split(" for ").any(|of| of == format!("class {class}"))
        };
        let waiting = self.recent.waiting.iter().find(|waiting| {
            waiting.cell.as_deref() == Some(cell) && waiting.class.as_deref().is_some_and(is_meant)
        });
        let late = self.recent.rows.iter().find(|row| {
            row.cell.as_deref() == Some(cell) && row.reason == "deadline" && is_meant(&row.class)
        });
        let name = self.cell(cell);
        match (waiting, late) {
            _ if !drill.starts_with("hang") || is_told => {}
            (Some(waiting), _) => {
                let RecentWaiting { count, oldest_ms, .. } = waiting;
                let what = format!(
                    "{count} requests wait on {name}, the oldest for {}, where a drill goes on: {drill}",
                    seconds(*oldest_ms)
                );
                return Some(Finding::fault(rank::DRILL, what, todo));
            }
            (None, Some(row)) => {
                let what = format!(
                    "{} had no answer of {name} in time, where a drill goes on: {drill}",
                    self.of_all(row.count)
                );
                return Some(Finding::fault(rank::DRILL, what, todo));
            }
            (None, None) => {}
        }
        let what = format!("a drill goes on at {name}: {drill}");
        (!is_told).then(|| Finding::note(rank::STATE, what, todo))
    }
}

/// Milliseconds, for people.
fn short(ms: u64) -> String {
    if ms < 1000 { format!("{ms} ms") } else { seconds(ms) }
}
