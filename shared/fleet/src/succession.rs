//! Which fleet file may take the place of the one that runs, as far as that is the same for whoever reads it.

use cofferdam_model::{FleetName, Revision};

use crate::Fleet;

/// Why a fleet file does not replace the one that runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuccessionError {
    /// The file names another fleet.
    #[error("fleet {new} is not {running}, which runs")]
    OtherFleet {
        /// The new file's name.
        new: FleetName,
        /// The running file's name.
        running: FleetName,
    },
    /// The revision went back.
    #[error("revision {new} is below {running}, which runs")]
    OlderRevision {
        /// The new file's.
        new: Revision,
        /// The running file's.
        running: Revision,
    },
}

impl Fleet {
    /// Whether this file is of the same fleet as `running`, and no older.
    ///
    /// # Errors
    /// It is another fleet's, or its revision is lower.
    pub fn may_follow(&self, running: &Self) -> Result<(), SuccessionError> {
        if self.name != running.name {
            return Err(SuccessionError::OtherFleet {
                new: self.name.clone(),
                running: running.name.clone(),
            });
        }
        if self.revision < running.revision {
            return Err(SuccessionError::OlderRevision { new: self.revision, running: running.revision });
        }
        Ok(())
    }
}
