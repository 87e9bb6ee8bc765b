//! Changes of a tenant's cells as an operator asks for them: JSON, checked word by word. Whether a fleet has the cells is not known
//! here.

use std::time::Duration;

use cofferdam_model::{CellId, NameError};
use serde::Deserialize;

use super::super::asked::{self, AskedError};
use super::record::Word;

/// Cells that a tenant is to have for a while.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Empty where nobody named any.
    pub(super) to: Vec<CellId>,
    lasting: Duration,
    author: Option<String>,
    reason: String,
}

/// Who ends what was asked for, and why, where that is said.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ended {
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
}

/// Why a change cannot be made as it is asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Asked(#[from] AskedError),
    #[error("to: {0}")]
    Cell(#[from] NameError),
    #[error("reason is missing: whoever finds the tenant elsewhere will want to know why")]
    NoReason,
}

impl Asked {
    pub(crate) fn read(json: &[u8]) -> Result<Self, ChangeError> {
        let written: Written = serde_json::from_slice(json).map_err(AskedError::from)?;
        let to = written.to.iter().map(|cell| CellId::parse(cell)).collect::<Result<_, _>>()?;
        let lasting = asked::lasting(written.lasting)?;
        let author = asked::author(written.author)?;
        let reason = asked::reason(written.reason)?.ok_or(ChangeError::NoReason)?;
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
    /// No body says nothing.
    pub(crate) fn read(json: &[u8]) -> Result<Self, AskedError> {
        let Self { author, reason } =
            if json.is_empty() { Self::default() } else { serde_json::from_slice(json)? };
        Ok(Self { author: asked::author(author)?, reason: asked::reason(reason)? })
    }
}
