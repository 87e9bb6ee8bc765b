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
    #[error(transparent)]
    Filter(#[from] FilterError),
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

/// What is logged: a level, or `target=level` entries with commas. A word that is no level is refused: as the name of a
/// target, which it could be, it would silence the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(String);

/// Why text is no filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// An entry, or what stands behind its `=`, is no level.
    #[error(
        "{0:?} is no level: expected off, error, warn, info, debug, trace, or target=level entries with commas"
    )]
    Level(String),
    /// An entry names a target that cannot be one.
    #[error(
        "{0:?} is no target=level: expected entries such as cofferdam_router=debug, and levels are off, error, warn, info, \
         debug, trace"
    )]
    Entry(String),
}

/// Every level, as users write them.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        for entry in text.split(',').map(str::trim) {
            let (target, level) = match entry.rsplit_once('=') {
                Some((target, level)) => (Some(target), level),
                None => (None, entry),
            };
            if !LEVELS.iter().any(|word| word.eq_ignore_ascii_case(level)) {
                return Err(FilterError::Level(level.to_owned()));
            }
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_:-".contains(&byte);
            if target.is_some_and(|target| target.is_empty() || !target.bytes().all(is_part)) {
                return Err(FilterError::Entry(entry.to_owned()));
            }
        }
        EnvFilter::try_new(text).map_err(|_| FilterError::Entry(text.to_owned()))?;
        Ok(Self(text.to_owned()))
    }
}

/// Sends this process's logs to standard error.
pub fn init(format: Format, filter: &Filter) -> Result<(), LogError> {
    let directives = EnvFilter::try_new(&filter.0).map_err(|_| FilterError::Entry(filter.0.clone()))?;
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
    fn a_filter_has_levels_and_nothing_that_would_be_taken_for_a_target() {
        for text in
            ["info", "WARN", "off", "info,h2=debug", "cofferdam_router::cells=trace, error", "a-b=off"]
        {
            assert_eq!(text.parse::<Filter>(), Ok(Filter(text.to_owned())), "{text}");
        }
        for (text, wrong) in [
            ("inof", "inof"),
            ("", ""),
            ("info,", ""),
            ("h2", "h2"),
            ("h2=warn,inof", "inof"),
            ("h2=inof", "inof"),
            ("h2=", ""),
            ("3", "3"),
        ] {
            assert_eq!(text.parse::<Filter>(), Err(FilterError::Level(wrong.to_owned())), "{text}");
        }
        for text in ["=info", "a b=info", "a[b]=info", "a==info"] {
            assert_eq!(text.parse::<Filter>(), Err(FilterError::Entry(text.to_owned())), "{text}");
        }
    }

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
