//! A folder in which a router keeps what it has to know before it can ask anybody. Each file is written whole or not at all; what
//! it means is its owner's affair.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// One router's folder. It is no other router's.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    folder: PathBuf,
}

impl StateDir {
    /// A folder, which is made where it is not there.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// What a file holds. One that is not there holds nothing; nor does one that cannot be read, which is told.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let told = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, file = %path.display(), "state on disk cannot be read, and counts as none");
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Ok(found) if found.len() > MAX_BYTES => {
                told(&format_args!("it has more than {MAX_BYTES} bytes"));
                return None;
            }
            _ => {}
        }
        fs::read(&path).inspect_err(|error| told(error)).ok()
    }

    /// Writes a file in the place of the one before. It is on the disk when this returns; whatever happens meanwhile, what is
    /// there is whole.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Of its own: a successor writes beside its predecessor.
        let new = self.folder.join(format!("{name}.{}.new", std::process::id()));
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(name))?;
        File::open(&self.folder)?.sync_all()
    }
}
