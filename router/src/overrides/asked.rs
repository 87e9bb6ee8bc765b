//! What everybody who asks for a change has to say: for how long, who they are, and why.

use std::time::Duration;

/// The shortest and the longest time that a change may last.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30 * 86_400);
/// The most bytes of an author and of a reason.
const MAX_AUTHOR: usize = 64;
const MAX_REASON: usize = 200;

/// Why what was said is not understood.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskedError {
    #[error("the body is not what is asked for here: {0}")]
    Json(#[from] serde_json::Error),
    #[error("for is missing: a change ends by itself, so say after how long, such as 1h")]
    NoEnd,
    #[error("for: {0:?} is not a time such as 30s, 15min, 1h or 7d")]
    Time(String),
    #[error("for: {0:?} is outside 1s to 30d")]
    TimeRange(String),
    #[error("{name}: it exceeds {most} bytes, or has control characters")]
    Text { name: &'static str, most: usize },
}

/// For how long.
pub(super) fn lasting(text: Option<String>) -> Result<Duration, AskedError> {
    let text = text.ok_or(AskedError::NoEnd)?;
    match humantime::parse_duration(&text) {
        Ok(time) if (SHORTEST..=LONGEST).contains(&time) => Ok(time),
        Ok(_) => Err(AskedError::TimeRange(text)),
        Err(_) => Err(AskedError::Time(text)),
    }
}

/// Who asks.
pub(super) fn author(text: Option<String>) -> Result<Option<String>, AskedError> {
    line("author", text, MAX_AUTHOR)
}

/// Why.
pub(super) fn reason(text: Option<String>) -> Result<Option<String>, AskedError> {
    line("reason", text, MAX_REASON)
}

fn line(name: &'static str, text: Option<String>, most: usize) -> Result<Option<String>, AskedError> {
    match text {
        Some(text) if text.len() > most || text.chars().any(char::is_control) => {
            Err(AskedError::Text { name, most })
        }
        text => Ok(text.filter(|text| !text.is_empty())),
    }
}

/// The end of what begins at `now_ms`, in milliseconds since 1970.
pub(super) fn end_ms(now_ms: u64, lasting: Duration) -> u64 {
    // 30 days are far below 2^64.
    now_ms.saturating_add(lasting.as_millis() as u64)
}
