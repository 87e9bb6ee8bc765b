//! A change of a tenant's limits as an operator asks for it: JSON, checked word by word. What it does to a plan is not known
//! here.

use std::time::Duration;

use cofferdam_fleet::{MAX_BURST, MAX_IN_FLIGHT};
use cofferdam_model::{Count, Rate, RateError};
use serde::Deserialize;
use serde_json::Value;

use super::record::{Override, now_ms};

/// The shortest and the longest time that a change may last.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// The most bytes of an author and of a reason.
const MAX_AUTHOR: usize = 64;
const MAX_REASON: usize = 200;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Asked {
    sustained: Option<Value>,
    burst: Option<Value>,
    max_in_flight: Option<Value>,
    #[serde(rename = "for")]
    lasting: Option<String>,
    author: Option<String>,
    reason: Option<String>,
}

/// Why a change cannot be made as it is asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("the body is not what is asked for here: {0}")]
    Json(#[from] serde_json::Error),
    #[error("nothing would change: give sustained, burst or max_in_flight")]
    Nothing,
    #[error("sustained: {0}")]
    Rate(#[from] RateError),
    #[error("{name}: {value} is not a count such as 100, 20k or 10M")]
    Count { name: &'static str, value: Value },
    #[error("{name}: {value} is outside 1 to {most}")]
    Range { name: &'static str, value: u64, most: u64 },
    #[error("for is missing: a change ends by itself, so say after how long, such as 1h")]
    NoEnd,
    #[error("for: {0:?} is not a time such as 30s, 15min, 1h or 7d")]
    Time(String),
    #[error("for: {0:?} is outside 1s to 30d")]
    TimeRange(String),
    #[error("{name}: it exceeds {most} bytes, or has control characters")]
    Text { name: &'static str, most: usize },
}

impl Asked {
    pub(crate) fn read(json: &[u8]) -> Result<Self, ChangeError> {
        Ok(serde_json::from_slice(json)?)
    }

    /// The override that was asked for, from now on.
    pub(crate) fn check(self) -> Result<Override, ChangeError> {
        let sustained = self.sustained.map(rate).transpose()?;
        let burst = self.burst.map(|value| count("burst", value, MAX_BURST)).transpose()?;
        let max = self.max_in_flight.map(|value| count("max_in_flight", value, MAX_IN_FLIGHT.into()));
        let max_in_flight = max.transpose()?.and_then(|max| u32::try_from(max).ok());
        if sustained.is_none() && burst.is_none() && max_in_flight.is_none() {
            return Err(ChangeError::Nothing);
        }
        let lasting = time(self.lasting.ok_or(ChangeError::NoEnd)?)?;
        let (author, reason) =
            (text("author", self.author, MAX_AUTHOR)?, text("reason", self.reason, MAX_REASON)?);
        let since_ms = now_ms();
        // 30 days are far below 2^64.
        let until_ms = since_ms.saturating_add(lasting.as_millis() as u64);
        Ok(Override { until_ms, since_ms, sustained, burst, max_in_flight, author, reason })
    }
}

fn rate(value: Value) -> Result<Rate, ChangeError> {
    match value {
        Value::String(text) => Ok(text.parse()?),
        other => Err(RateError::Rate(other.to_string()).into()),
    }
}

fn count(name: &'static str, value: Value, most: u64) -> Result<u64, ChangeError> {
    let number = match &value {
        Value::String(text) => text.parse().ok().map(|Count(number)| number),
        other => other.as_u64(),
    };
    match number {
        Some(number) if (1..=most).contains(&number) => Ok(number),
        Some(value) => Err(ChangeError::Range { name, value, most }),
        None => Err(ChangeError::Count { name, value }),
    }
}

fn time(text: String) -> Result<Duration, ChangeError> {
    match humantime::parse_duration(&text) {
        Ok(time) if (SHORTEST..=LONGEST).contains(&time) => Ok(time),
        Ok(_) => Err(ChangeError::TimeRange(text)),
        Err(_) => Err(ChangeError::Time(text)),
    }
}

fn text(name: &'static str, text: Option<String>, most: usize) -> Result<Option<String>, ChangeError> {
    match text {
        Some(text) if text.len() > most || text.chars().any(char::is_control) => {
            Err(ChangeError::Text { name, most })
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}
