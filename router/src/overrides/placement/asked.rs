//! Changes of a tenant's cells as an operator asks for them: JSON, checked word by word. Whether a fleet has the cells is not known
//! here.

use std::time::Duration;

use cofferdam_model::{CellId, NameError};
use serde::Deserialize;

use super::super::asked::{self, AskedError};
use super::word::Word;

/// Cells that a tenant is to have for a while.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Empty where nobody named any.
    to: Vec<CellId>,
    lasting: Duration,
    author: String,
    reason: String,
}

/// The longest and the usual time that requests may be held back for a move, and for how long its pin lasts where nobody says.
const LONGEST_HOLD: Duration = Duration::from_secs(300);
const USUAL_HOLD: Duration = Duration::from_secs(30);
const USUAL_PIN: &str = "30d";

/// Who ends what was asked for, and why.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) author: String,
    pub(crate) reason: String,
}

/// Who stops a move, and why, where that is said.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stopped {
    pub(crate) author: Option<String>,
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    to: Vec<String>,
    #[serde(rename = "for")]
    lasting: Option<String>,
    author: Option<String>,
    reason: Option<String>,
    /// Of a move alone.
    timeout: Option<String>,
}

/// Why a change cannot be made as it is asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Asked(#[from] AskedError),
    #[error("to: {0}")]
    Cell(#[from] NameError),
    #[error("timeout: {0:?} is not a time from 1s to 5min")]
    Timeout(String),
    #[error("timeout: only a move has one")]
    NoMove,
    #[error("reason is missing: whoever finds the tenant elsewhere will want to know why")]
    NoReason,
    #[error("author is missing: whoever finds the tenant elsewhere will want to know whom to ask")]
    NoAuthor,
}

impl Asked {
    pub(crate) fn read(json: &[u8]) -> Result<Self, ChangeError> {
        let written: Written = serde_json::from_slice(json).map_err(AskedError::from)?;
        if written.timeout.is_some() { Err(ChangeError::NoMove) } else { Self::check(written) }
    }

    /// A move, and for how long it may take.
    pub(crate) fn read_move(json: &[u8]) -> Result<(Self, Duration), ChangeError> {
        let mut written: Written = serde_json::from_slice(json).map_err(AskedError::from)?;
        let timeout = match written.timeout.take() {
            None => USUAL_HOLD,
            Some(text) => match humantime::parse_duration(&text) {
                Ok(time) if (Duration::from_secs(1)..=LONGEST_HOLD).contains(&time) => time,
                _ => return Err(ChangeError::Timeout(text)),
            },
        };
        written.lasting.get_or_insert_with(|| USUAL_PIN.to_owned());
        Ok((Self::check(written)?, timeout))
    }

    /// The cells; none where nobody named any.
    pub(crate) fn to(&self) -> &[CellId] {
        &self.to
    }

    /// Who asks.
    pub(crate) fn author(&self) -> &str {
        &self.author
    }

    /// Why.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    fn check(written: Written) -> Result<Self, ChangeError> {
        let to = written.to.iter().map(|cell| CellId::parse(cell)).collect::<Result<_, _>>()?;
        let lasting = asked::lasting(written.lasting)?;
        let Ended { author, reason } = Ended::check(written.author, written.reason)?;
        Ok(Self { to, lasting, author, reason })
    }

    /// That `to` are the tenant's cells from then on.
    pub(super) fn word(&self, to: &[CellId], now_ms: u64) -> Word {
        Word {
            to: to.iter().map(ToString::to_string).collect(),
            since_ms: now_ms,
            until_ms: asked::end_ms(now_ms, self.lasting),
            author: self.author.clone(),
            reason: self.reason.clone(),
        }
    }
}

impl Ended {
    pub(crate) fn read(json: &[u8]) -> Result<Self, ChangeError> {
        let Stopped { author, reason } = Stopped::read(json)?;
        Self::check(author, reason)
    }

    fn check(author: Option<String>, reason: Option<String>) -> Result<Self, ChangeError> {
        let reason = asked::reason(reason)?.ok_or(ChangeError::NoReason)?;
        Ok(Self { author: asked::author(author)?.ok_or(ChangeError::NoAuthor)?, reason })
    }
}

impl Stopped {
    /// No body says nothing.
    pub(crate) fn read(json: &[u8]) -> Result<Self, AskedError> {
        let Self { author, reason } =
            if json.is_empty() { Self::default() } else { serde_json::from_slice(json)? };
        Ok(Self { author: asked::author(author)?, reason: asked::reason(reason)? })
    }
}
