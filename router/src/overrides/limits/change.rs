//! A change of a tenant's limits as an operator asks for it: JSON, checked word by word. What it does to a plan is not known
//! here.

use std::time::Duration;

use cofferdam_fleet::{MAX_BURST, MAX_IN_FLIGHT};
use cofferdam_model::{Count, Rate, RateError};
use serde::Deserialize;
use serde_json::Value;

use super::super::asked::{self, AskedError};
use super::record::Override;

/// What is asked for, checked.
#[derive(Debug)]
pub(crate) struct Asked {
    sustained: Option<Rate>,
    burst: Option<u64>,
    max_in_flight: Option<u32>,
    lasting: Duration,
    pub(crate) author: Option<String>,
    reason: Option<String>,
}

/// The same as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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
    #[error(transparent)]
    Asked(#[from] AskedError),
    #[error("nothing would change: give sustained, burst or max_in_flight")]
    Nothing,
    #[error("sustained: {0}")]
    Rate(#[from] RateError),
    #[error("{name}: {value} is not a count such as 100, 20k or 10M")]
    Count { name: &'static str, value: Value },
    #[error("{name}: {value} is outside 1 to {most}")]
    Range { name: &'static str, value: u64, most: u64 },
}

impl Asked {
    pub(crate) fn read(json: &[u8]) -> Result<Self, ChangeError> {
        let written: Written = serde_json::from_slice(json).map_err(AskedError::from)?;
        let sustained = written.sustained.map(rate).transpose()?;
        let burst = written.burst.map(|value| count("burst", value, MAX_BURST)).transpose()?;
        let max = written.max_in_flight.map(|value| count("max_in_flight", value, MAX_IN_FLIGHT.into()));
        let max_in_flight = max.transpose()?.and_then(|max| u32::try_from(max).ok());
        if sustained.is_none() && burst.is_none() && max_in_flight.is_none() {
            return Err(ChangeError::Nothing);
        }
        let lasting = asked::lasting(written.lasting)?;
        let (author, reason) = (asked::author(written.author)?, asked::reason(written.reason)?);
        Ok(Self { sustained, burst, max_in_flight, lasting, author, reason })
    }

    /// The override that was asked for, from then on.
    pub(super) fn from(&self, now_ms: u64) -> Override {
        Override {
            until_ms: asked::end_ms(now_ms, self.lasting),
            since_ms: now_ms,
            sustained: self.sustained,
            burst: self.burst,
            max_in_flight: self.max_in_flight,
            author: self.author.clone(),
            reason: self.reason.clone(),
        }
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
