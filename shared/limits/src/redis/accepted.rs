//! Which fleet file the routers of a fleet accepted last: a revision, a digest, and a text of theirs. It knows nothing of what
//! the text says.

use super::keys::{Fleet, Key};
use super::link::{Link, LinkError, read};
use super::script::Script;

/// What the store has of the file that was accepted last.
#[derive(Debug)]
pub struct AcceptedBook {
    link: Link,
    script: Script,
    key: [Key; 1],
}

/// A fleet file, as far as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedFile {
    /// Its revision: the highest one stays.
    pub revision: u64,
    /// The digest of its placement.
    pub digest: String,
    /// What its readers keep of it; not empty.
    pub text: String,
}

impl AcceptedBook {
    /// That of `fleet`, over `link`.
    pub fn new(link: Link, fleet: &Fleet) -> Self {
        Self { link, script: Script::accepted(), key: [fleet.accepted()] }
    }

    /// What was accepted last, if anything was.
    pub async fn look(&self) -> Result<Option<AcceptedFile>, LinkError> {
        self.run(&[b"0", b"", b"", b"0"]).await
    }

    /// Puts `file` there where its revision is the higher one, and says what is there then.
    pub async fn offer(&self, file: &AcceptedFile) -> Result<Option<AcceptedFile>, LinkError> {
        self.write(file, b"0").await
    }

    /// The same, and puts its text in the place of another one of the same revision and digest.
    pub async fn amend(&self, file: &AcceptedFile) -> Result<Option<AcceptedFile>, LinkError> {
        self.write(file, b"1").await
    }

    async fn write(&self, file: &AcceptedFile, amends: &[u8]) -> Result<Option<AcceptedFile>, LinkError> {
        let revision = file.revision.to_string();
        self.run(&[revision.as_bytes(), file.digest.as_bytes(), file.text.as_bytes(), amends]).await
    }

    async fn run(&self, args: &[&[u8]]) -> Result<Option<AcceptedFile>, LinkError> {
        let (revision, digest, text): (String, String, String) =
            read(self.link.run(&self.script, &self.key, args).await?)?;
        let unexpected = |_| LinkError::Unexpected(format!("{revision:?} is no revision"));
        match revision.as_str() {
            "" => Ok(None),
            number => Ok(Some(AcceptedFile { revision: number.parse().map_err(unexpected)?, digest, text })),
        }
    }
}
