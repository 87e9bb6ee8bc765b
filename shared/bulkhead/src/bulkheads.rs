//! Several bulkheads by name, and one for every name that has none. It makes none by itself.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bulkhead::{Bulkhead, BulkheadSnapshot};

/// Named bulkheads, and one that all other names share. Clones are the same ones.
///
/// ```
/// use cofferdam_bulkhead::{Bulkhead, Bulkheads};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bulkheads = Bulkheads::new(
///     Bulkhead::new("default", 20),
///     [("payment", 10), ("user", 50), ("product", 100)].map(|(name, limit)| Bulkhead::new(name, limit)),
/// )?;
/// assert_eq!(bulkheads.get("payment").snapshot().limit, 10);
/// // A name that nobody configured gets no bulkhead of its own: names may come from outside.
/// let places: Vec<_> = (0..20).map(|n| bulkheads.get(&format!("name-{n}")).try_acquire().unwrap()).collect();
/// assert!(bulkheads.get("yet-another").try_acquire().is_err());
/// # drop(places);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Bulkheads(Arc<Named>);

#[derive(Debug)]
struct Named {
    default: Bulkhead,
    /// In the order in which they were given.
    named: Vec<Bulkhead>,
    index: HashMap<Box<str>, usize>,
}

/// Two bulkheads have one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bulkhead {0} is there twice")]
pub struct NameTaken(
    /// The name.
    pub String,
);

impl Bulkheads {
    /// Bulkheads by their own names, and `default` for every other name.
    ///
    /// # Errors
    /// Two have one name.
    pub fn new(default: Bulkhead, named: impl IntoIterator<Item = Bulkhead>) -> Result<Self, NameTaken> {
        let named: Vec<Bulkhead> = named.into_iter().collect();
        let mut index = HashMap::new();
        for (at, bulkhead) in named.iter().enumerate() {
            if bulkhead.name() == default.name() || index.insert(bulkhead.name().into(), at).is_some() {
                return Err(NameTaken(bulkhead.name().to_owned()));
            }
        }
        Ok(Self(Arc::new(Named { default, named, index })))
    }

    /// The bulkhead of that name, or the default.
    pub fn get(&self, name: &str) -> &Bulkhead {
        self.0.index.get(name).map_or(&self.0.default, |&at| &self.0.named[at])
    }

    /// All of them, the default last.
    pub fn snapshots(&self) -> Vec<BulkheadSnapshot> {
        self.0.named.iter().chain([&self.0.default]).map(Bulkhead::snapshot).collect()
    }

    /// Closes all of them.
    pub fn close(&self) {
        self.0.named.iter().chain([&self.0.default]).for_each(Bulkhead::close);
    }
}
