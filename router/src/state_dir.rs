//! A folder in which a router keeps what it has to know before it can ask anybody. Each file is written whole or not at all; what
//! it means is its owner's affair.

use std::fs::{self, DirBuilder, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_files::ReadError;

/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 20;

/// How the name of a file ends that is being written, and after how long it was left so.
const NEW: &str = "new";
const LEFT_AFTER: Duration = Duration::from_secs(600);

/// One router's folder. It is no other router's.
#[derive(Debug, Clone)]
pub(crate) struct StateDir {
    folder: PathBuf,
}

impl StateDir {
    /// A folder, which is made where it is not there, for its owner alone: it names tenants. What processes left that ended while
    /// they wrote is taken away.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for entry in fs::read_dir(folder)?.flatten() {
            let is_left = entry.path().extension().is_some_and(|extension| extension == NEW)
                && age(&entry).is_some_and(|age| age > LEFT_AFTER);
            if is_left && let Err(error) = fs::remove_file(entry.path()) {
                tracing::warn!(%error, file = %entry.path().display(), "a file that was left half written stays");
            }
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// What a file holds. One that is not there holds nothing; nor does one that cannot be read, which is told.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.folder.join(name);
        let told = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, file = %path.display(), "state on disk cannot be read, and counts as none");
        };
        match cofferdam_files::read(&path, MAX_BYTES) {
            Ok(bytes) => Some(bytes),
            Err(ReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                told(&error);
                None
            }
        }
    }

    /// Writes a file in the place of the one before. It is on the disk when this returns; whatever happens meanwhile, what is
    /// there is whole.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Of its own: a successor writes beside its predecessor.
        let new = self.folder.join(format!("{name}.{}.{NEW}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(name))?;
        File::open(&self.folder)?.sync_all()
    }
}

/// How long ago a file was last written, where that can be told.
fn age(entry: &DirEntry) -> Option<Duration> {
    entry.metadata().ok()?.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_it_keeps_is_for_its_owner_alone() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("state/of/one");
        let state = StateDir::open(&folder).unwrap();
        state.write("a.json", b"{}").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&folder.join("a.json"))), (0o700, 0o600));
        assert_eq!(state.read("a.json").as_deref(), Some(&b"{}"[..]));
    }

    #[test]
    fn what_a_process_left_half_written_goes_and_what_another_writes_now_stays() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, age: Duration| {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        for (name, age) in
            [("a.json.1.new", LEFT_AFTER * 2), ("a.json.2.new", Duration::ZERO), ("a.json", LEFT_AFTER * 2)]
        {
            write(name, age);
        }
        StateDir::open(folder.path()).unwrap();
        let mut left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a.json", "a.json.2.new"]);
    }
}
