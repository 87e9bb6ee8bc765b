//! How long something lasts, as a flag says it. No such time is too long for a clock to say when it is over.

use std::time::Duration;

/// The longest time that a flag takes.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// A time such as 30s.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time > LONGEST { Err("it must be no more than 30days".to_owned()) } else { Ok(time) }
}

/// The same, but not 0s.
pub(crate) fn more_than_nothing(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time.is_zero() { Err("it must be more than 0s".to_owned()) } else { Ok(time) }
}
