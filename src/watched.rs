//! A file that is looked at now and then, for whether it has changed. It knows nothing of what is in it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::sleep;

/// How often it is looked whether the file has changed. Twice in a row it must look the same, so that who writes it
/// has come to the end.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// What tells one state of a file from another: its inode, its size and when it was written, in nanoseconds. A link
/// that was turned to another file, as mounted configuration is renewed, changes the first.
type Look = (u64, u64, i64, i64);

/// A file that is looked at now and then.
#[derive(Debug)]
pub(crate) struct Watched {
    path: PathBuf,
    every: Duration,
    /// The state that was told last.
    told: Option<Look>,
    /// The state at the last look.
    seen: Option<Look>,
}

impl Watched {
    /// Watches a file as it is now. Call it before the file is read: what is written between the two has then changed.
    pub(crate) fn new(path: &Path) -> Self {
        Self::looking_every(LOOK_EVERY, path)
    }

    fn looking_every(every: Duration, path: &Path) -> Self {
        let now = look(path);
        Self { path: path.to_owned(), every, told: now, seen: now }
    }

    /// The file is read now: what it is like needs no telling.
    pub(crate) fn read_now(&mut self) {
        self.told = look(&self.path);
    }

    /// Waits until the file has changed, and is no longer being written. A file that is gone has not changed: whoever
    /// replaces it is about to. Dropping the future loses nothing.
    pub(crate) async fn changed(&mut self) {
        loop {
            sleep(self.every).await;
            let now = look(&self.path);
            let rests = now == self.seen;
            self.seen = now;
            if rests && now.is_some() && now != self.told {
                self.told = now;
                return;
            }
        }
    }
}

fn look(path: &Path) -> Option<Look> {
    let found = fs::metadata(path).ok()?;
    Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_file_has_changed_once_it_is_another_and_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fleet.yaml");
        fs::write(&path, "one").unwrap();
        let mut file = Watched::looking_every(Duration::from_millis(2), &path);
        let (a_while, in_time) = (Duration::from_millis(40), Duration::from_secs(20));
        assert!(timeout(a_while, file.changed()).await.is_err(), "nothing has changed");
        fs::write(&path, "another").unwrap();
        assert!(timeout(in_time, file.changed()).await.is_ok());
        assert!(timeout(a_while, file.changed()).await.is_err(), "it was told already");
        fs::write(&path, "read by somebody").unwrap();
        file.read_now();
        assert!(timeout(a_while, file.changed()).await.is_err());
        fs::remove_file(&path).unwrap();
        assert!(timeout(a_while, file.changed()).await.is_err(), "one that is gone is about to be replaced");
        fs::write(folder.path().join("next"), "another").unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert!(timeout(in_time, file.changed()).await.is_ok());
    }
}
