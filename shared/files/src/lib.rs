//! Files that somebody else writes, read whole: regular ones alone, and no larger than their reader says. It knows nothing of
//! what is in them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// What the system said.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A pipe would keep its reader waiting, and a device may have no end.
    #[error("it is {0}, and no regular file")]
    NotRegular(&'static str),
    /// More bytes than its reader takes.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
}

/// What a regular file holds, which has `most` bytes at most. Opening one that is none does not block.
///
/// # Errors
///
/// [`ReadError`]: it is not there, not regular or too large, or may not be read.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    // The writer of a pipe would be waited for otherwise.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(ReadError::NotRegular(kind(found.file_type())));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(found.len().min(most)).unwrap_or_default());
    // It may grow meanwhile. One byte more than may be there tells a file that is too large from one that just fits.
    File::take(file, most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(ReadError::TooLarge(most));
    }
    Ok(bytes)
}

/// The same for text in UTF-8.
///
/// # Errors
///
/// [`ReadError`], and bytes that are no UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let text = String::from_utf8(read(path, most)?);
    text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error).into())
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error,
            ReadError::TooLarge(_) => Self::new(io::ErrorKind::FileTooLarge, error.to_string()),
            ReadError::NotRegular(_) => Self::other(error.to_string()),
        }
    }
}

fn kind(file_type: std::fs::FileType) -> &'static str {
    match file_type {
        it if it.is_dir() => "a folder",
        it if it.is_fifo() => "a pipe",
        it if it.is_socket() => "a socket",
        _ => "a device",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_regular_file_up_to_its_bound_is_read_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("fits"), "12345").unwrap();
        std::os::unix::fs::symlink(at("fits"), at("link")).unwrap();
        for name in ["fits", "link"] {
            assert_eq!(read(&at(name), 5).unwrap(), b"12345");
        }
        assert!(Command::new("mkfifo").arg(at("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for (path, why) in [
            (at("fits"), "it has more than 4 bytes"),
            (at("pipe"), "it is a pipe, and no regular file"),
            (folder.path().to_owned(), "it is a folder, and no regular file"),
            ("/dev/zero".into(), "it is a device, and no regular file"),
            (at("socket"), "No such device or address (os error 6)"),
            (at("missing"), "No such file or directory (os error 2)"),
        ] {
            assert_eq!(read(&path, 4).unwrap_err().to_string(), why);
        }
        fs::write(at("latin"), b"caf\xe9").unwrap();
        assert!(read_text(&at("latin"), 9).unwrap_err().to_string().contains("utf-8"));
    }

    #[test]
    fn a_file_that_is_much_too_large_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(matches!(read(&path, 1000), Err(ReadError::TooLarge(1000))));
    }
}
