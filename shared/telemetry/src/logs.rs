//! Structured logs on standard error.

use std::error::Error;
use std::fmt;
use std::io::IsTerminal;
use std::str::FromStr;

use tracing_subscriber::EnvFilter;

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter does not parse.
    #[error("log filter {0:?} is not a level or a list of target=level")]
    Filter(String),
    /// Logging was set up before.
    #[error("logging is set up already")]
    Twice,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("log format {other:?} is neither text nor json")),
        }
    }
}

/// Sends this process's logs to standard error. `filter` is a level, or `target=level` entries with commas.
pub fn init(format: Format, filter: &str) -> Result<(), LogError> {
    let directives = EnvFilter::try_new(filter).map_err(|_| LogError::Filter(filter.to_owned()))?;
    let colours = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(directives)
        .with_writer(std::io::stderr)
        .with_ansi(colours)
        .with_target(false);
    let done = match format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().flatten_event(true).try_init(),
    };
    done.map_err(|_| LogError::Twice)
}

/// An error on one line, with everything that caused it: what failed first is what helps.
pub fn with_causes<'e>(error: &'e (dyn Error + 'static)) -> impl fmt::Display + 'e {
    fmt::from_fn(move |f| {
        write!(f, "{error}")?;
        std::iter::successors(error.source(), |&cause| cause.source())
            .try_for_each(|cause| write!(f, ": {cause}"))
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_is_shown_with_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("could not connect")]
        struct Outer(#[source] io::Error);
        let error = Outer(io::Error::other("no route"));
        assert_eq!(with_causes(&error).to_string(), "could not connect: no route");
        assert_eq!(with_causes(&io::Error::other("no route")).to_string(), "no route");
    }
}
