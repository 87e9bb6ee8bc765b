//! How far a change of the fleet's table is let loose, by the store's clock, so that every router of the fleet says the same. It
//! knows no table: a release has a digest, and so many slots.

use super::keys::{Fleet, Key};
use super::link::{Link, LinkError, read};
use super::script::Script;

/// The release of a fleet in the store.
#[derive(Debug)]
pub struct ReleaseBook {
    link: Link,
    script: Script,
    key: [Key; 1],
}

/// A release as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTerms {
    /// The digest of the table that it leads to.
    pub digest: String,
    /// The revision of the file: a lower one than the stored release's begins nothing.
    pub revision: u64,
    /// How many slots change.
    pub total: u32,
    /// How many are let loose in a minute.
    pub per_minute: u32,
}

/// How a release stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseState {
    /// What it leads to, and how fast.
    pub terms: ReleaseTerms,
    /// How many slots are loose.
    pub n_loose: u32,
    /// Whether somebody stopped it.
    pub is_stopped: bool,
}

impl ReleaseBook {
    /// That of `fleet`, over `link`.
    pub fn new(link: Link, fleet: &Fleet) -> Self {
        Self { link, script: Script::release(), key: [fleet.release()] }
    }

    /// Begins a release, unless it is under way already: then its rate is taken. `known` slots are loose at least. Says how
    /// the store's release stands, which may be another one.
    pub async fn begin(&self, terms: &ReleaseTerms, known: u32) -> Result<Option<ReleaseState>, LinkError> {
        let [revision, total, rate, known] =
            [terms.revision, terms.total.into(), terms.per_minute.into(), known.into()]
                .map(|number: u64| number.to_string());
        let args = [&terms.digest, &revision, &total, &rate, &known].map(|text| text.as_bytes());
        self.run(b"begin", &args).await
    }

    /// How it stands.
    pub async fn look(&self) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"look", &[b""]).await
    }

    /// Lets no more slots loose, where the release leads to `digest`.
    pub async fn stop(&self, digest: &str) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"stop", &[digest.as_bytes()]).await
    }

    /// Goes on where it was stopped, where the release leads to `digest`.
    pub async fn go(&self, digest: &str) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"go", &[digest.as_bytes()]).await
    }

    async fn run(&self, what: &[u8], args: &[&[u8]]) -> Result<Option<ReleaseState>, LinkError> {
        let args = [&[what], args].concat();
        let (digest, revision, total, n_loose, per_minute, goes_on): Row =
            read(self.link.run(&self.script, &self.key, &args).await?)?;
        let terms = ReleaseTerms { digest, revision, total, per_minute };
        let is_none = terms.digest.is_empty();
        Ok((!is_none).then_some(ReleaseState { terms, n_loose, is_stopped: goes_on == 0 }))
    }
}

type Row = (String, u64, u32, u32, u32, u8);
