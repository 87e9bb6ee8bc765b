//! How far a change of the fleet's table is let loose, by the store's clock, so that every router of the fleet says the same. It
//! knows no table: a release has a name, and so many slots.

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

/// Which release: the way to one table may be gone more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseName {
    /// The digest of the table that it leads to.
    pub digest: String,
    /// The revision of the file that began it: one with a lower revision than the stored release's begins nothing.
    pub began: u64,
}

/// A release as it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseTerms {
    /// Which one.
    pub name: ReleaseName,
    /// How many slots change.
    pub total: u32,
    /// How many are let loose in a minute.
    pub per_minute: u32,
}

/// How far a release is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReleaseProgress {
    /// How many slots are loose.
    pub n_loose: u32,
    /// How often somebody stopped it or let it go on.
    pub n_orders: u32,
}

/// How a release stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseState {
    /// What it leads to, and how fast.
    pub terms: ReleaseTerms,
    /// How far it is.
    pub progress: ReleaseProgress,
}

impl ReleaseName {
    /// Whether this is `other`, or the same way begun once more.
    pub fn is_or_follows(&self, other: &Self) -> bool {
        self.digest == other.digest && self.began >= other.began
    }
}

impl ReleaseProgress {
    /// Whether somebody stopped it: nobody can but while it goes on, and so each second order is a stop.
    pub fn is_stopped(self) -> bool {
        self.n_orders % 2 == 1
    }
}

impl ReleaseBook {
    /// That of `fleet`, over `link`.
    pub fn new(link: Link, fleet: &Fleet) -> Self {
        Self { link, script: Script::release(), key: [fleet.release()] }
    }

    /// Begins a release, unless it is under way already: then its rate is taken. What is `known` counts where the store has
    /// forgotten it. Says how the store's release stands, which may be another one.
    pub async fn begin(
        &self,
        terms: &ReleaseTerms,
        known: ReleaseProgress,
    ) -> Result<Option<ReleaseState>, LinkError> {
        let numbers = [terms.total, terms.per_minute, known.n_loose, known.n_orders];
        self.run(b"begin", &terms.name, &numbers).await
    }

    /// How it stands.
    pub async fn look(&self) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"look", &ReleaseName { digest: String::new(), began: 0 }, &[]).await
    }

    /// Lets no more slots loose, where the store has this release, or the same way begun once more.
    pub async fn stop(&self, name: &ReleaseName) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"stop", name, &[]).await
    }

    /// Goes on where it was stopped, where the store has this release, or the same way begun once more.
    pub async fn go(&self, name: &ReleaseName) -> Result<Option<ReleaseState>, LinkError> {
        self.run(b"go", name, &[]).await
    }

    async fn run(
        &self,
        what: &[u8],
        name: &ReleaseName,
        numbers: &[u32],
    ) -> Result<Option<ReleaseState>, LinkError> {
        let began = name.began.to_string();
        let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
        let mut args = vec![what, name.digest.as_bytes(), began.as_bytes()];
        args.extend(numbers.iter().map(|number| number.as_bytes()));
        let (digest, began, total, n_loose, per_minute, n_orders): Row =
            read(self.link.run(&self.script, &self.key, &args).await?)?;
        if digest.is_empty() {
            return Ok(None);
        }
        let unexpected = |_| LinkError::Unexpected(format!("{began:?} is no revision"));
        let name = ReleaseName { began: began.parse().map_err(unexpected)?, digest };
        let progress = ReleaseProgress { n_loose, n_orders };
        Ok(Some(ReleaseState { terms: ReleaseTerms { name, total, per_minute }, progress }))
    }
}

type Row = (String, String, u32, u32, u32, u32);
