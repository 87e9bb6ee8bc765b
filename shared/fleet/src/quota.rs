//! A plan's `quota`: how much a tenant may spend in a long time, such as a day and a month.

use std::fmt;

use cofferdam_model::Count;

use crate::node::{Entry, Node};

/// The most quotas of one plan.
const MAX_QUOTAS: usize = 2;

/// The longest window: a year and a day, in seconds.
const MAX_WINDOW_S: u32 = 366 * 86_400;

/// A store counts a window in doubles, weighted by its seconds, up to twice the quota.
const MAX_WEIGHTED: u64 = 1 << 52;

/// At most `limit` tokens in any `window_s` seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// How long, at least a second and at most 366 days.
    pub window_s: u32,
    /// How many tokens, at least 1. Times the window, they are at most 2^52.
    pub limit: u64,
}

impl Quota {
    /// Reads a plan's quotas, the shortest window first.
    pub(crate) fn read_all(node: &Node<'_>) -> Vec<Self> {
        let entries = node.entries("a map from windows to tokens, such as { 1d: 10M, 30d: 200M }");
        if entries.is_empty() && node.is_map() {
            node.mark.refuse("a quota needs a window, such as 1d: 10M; or leave this out");
        }
        if entries.len() > MAX_QUOTAS {
            node.mark.refuse(format_args!("{} windows exceed {MAX_QUOTAS}", entries.len()));
        }
        let mut quotas: Vec<Self> = Vec::with_capacity(entries.len());
        for entry in &entries {
            let Some(quota) = Self::read(entry) else { continue };
            if quotas.iter().any(|known| known.window_s == quota.window_s) {
                entry.mark.refuse(format_args!("a window of {} s comes twice", quota.window_s));
            }
            if let Some(narrower) = quotas.iter().find(|known| quota.is_slack_beside(known)) {
                entry.mark.warn(format_args!("this quota is never reached: {narrower} is reached first"));
            } else if let Some(slack) = quotas.iter().find(|known| known.is_slack_beside(&quota)) {
                entry
                    .mark
                    .warn(format_args!("the quota of {slack} is never reached: this one is reached first"));
            }
            quotas.push(quota);
        }
        quotas.sort_by_key(|quota| quota.window_s);
        quotas
    }

    fn read(entry: &Entry<'_>) -> Option<Self> {
        let window_s = read_window(entry.name).map_err(|error| entry.mark.refuse(error)).ok();
        // Where the window cannot be read, any number of tokens is as good as another.
        let most = MAX_WEIGHTED / u64::from(window_s.unwrap_or(1));
        let limit = entry.value.read("a number of tokens such as 10M", |text| match text.parse() {
            Ok(Count(0)) => Err("a quota of 0 lets nothing pass".to_owned()),
            Ok(Count(limit)) if limit > most => {
                let window = entry.name.escape_debug();
                Err(format!("quota {limit} is too large to be counted exactly in {window}: at most {most}"))
            }
            Ok(Count(limit)) => Ok(limit),
            Err(error) => Err(error.to_string()),
        });
        Some(Self { window_s: window_s?, limit: limit? })
    }

    /// Whether whoever keeps `other` keeps this as well: a longer window that allows no more.
    fn is_slack_beside(&self, other: &Self) -> bool {
        other.window_s > self.window_s && other.limit <= self.limit
    }
}

/// A whole number of seconds with its unit. A day is a day of 24 hours, and a month is no window.
fn read_window(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is not a window such as 1d, 12h or 30d");
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?);
    let unit_s: u32 = match unit {
        "s" => 1,
        "min" | "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let seconds = number.parse::<u32>().ok().and_then(|number| number.checked_mul(unit_s));
    match seconds {
        Some(seconds) if (1..=MAX_WINDOW_S).contains(&seconds) => Ok(seconds),
        None if number.is_empty() => Err(wrong()),
        _ => Err(format!("a window of {text} is outside 1s to 366d")),
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} s", self.limit, self.window_s)
    }
}
