//! What becomes of a word of an operator's: whether the tenant has cells by it, and if not, why.

/// How a pin or a quarantine stands that an operator has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The tenant has the cells that it names.
    Binds,
    /// The tenant has other cells by it, and why.
    BindsElsewhere(String),
    /// The tenant has no cell by it, and why.
    Idle(String),
}

impl Standing {
    /// Whether it is what decides the tenant's cells.
    pub(crate) fn binds(&self) -> bool {
        !matches!(self, Self::Idle(_))
    }

    /// Why it is not as it says.
    pub(crate) fn why(&self) -> Option<&str> {
        match self {
            Self::Binds => None,
            Self::BindsElsewhere(why) | Self::Idle(why) => Some(why),
        }
    }
}
