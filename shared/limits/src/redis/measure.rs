//! What tokens are measured by: a bucket, or the window of a quota. One kind of loan serves both.

use cofferdam_model::Limited;

use crate::{BucketPolicy, WindowPolicy};

/// A limit in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    Bucket(BucketPolicy),
    Window(WindowPolicy),
}

impl Measure {
    /// The most tokens that can be there at once.
    pub(super) fn capacity(&self) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.capacity(),
            Self::Window(window) => window.limit(),
        }
    }

    /// What a refusal by it is called.
    pub(super) fn limited(&self) -> Limited {
        match self {
            Self::Bucket(_) => Limited::Rate,
            Self::Window(_) => Limited::Quota,
        }
    }
}
