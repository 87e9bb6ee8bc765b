//! One thing that is to be said of a tenant, and how bad it is.

/// What is said, what to do about it, and before what else it is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The higher comes first.
    pub(super) rank: u32,
    /// Whether something is wrong. What is only worth knowing, such as an operator's pin, is not.
    pub(super) is_fault: bool,
    pub(super) what: String,
    /// What to do; empty where there is nothing to do.
    pub(super) todo: String,
}

/// Ranks: a cause comes before what follows from it, and what callers see before what they may see.
pub(super) mod rank {
    /// All requests are refused whatever happens.
    pub(in super::super) const REFUSED: u32 = 9_000;
    /// A fault that was let loose on purpose.
    pub(in super::super) const DRILL: u32 = 8_000;
    /// The tenant is kept to its home cell, because cells died under its requests.
    pub(in super::super) const CONFINED: u32 = 7_000;
    /// A breaker is open: what failed before it opened is why.
    pub(in super::super) const BREAKER: u32 = 6_500;
    pub(in super::super) const ALL_DOWN: u32 = 6_000;
    /// The store is away or has forgotten, and limits refused something: less passes than usual.
    pub(in super::super) const LOCAL_SHARE: u32 = 5_900;
    /// Requests that were refused or failed; a thousandth of them each adds one.
    pub(in super::super) const ANSWERS: u32 = 4_500;
    pub(in super::super) const WAITING: u32 = 4_400;
    /// Attempts that another cell made good.
    pub(in super::super) const ATTEMPTS: u32 = 4_000;
    pub(in super::super) const SLOW: u32 = 3_800;
    pub(in super::super) const CELL: u32 = 3_000;
    pub(in super::super) const STORE: u32 = 2_500;
    pub(in super::super) const TENANT: u32 = 2_000;
    /// A limit that nothing was refused by so far.
    pub(in super::super) const USED_UP: u32 = 1_500;
    pub(in super::super) const FILE: u32 = 1_000;
    /// An operator's word, and what is under way: no fault.
    pub(in super::super) const STATE: u32 = 500;
    pub(in super::super) const ZONES: u32 = 100;
}

impl Finding {
    pub(super) fn fault(rank: u32, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { rank, is_fault: true, what: what.into(), todo: todo.into() }
    }

    pub(super) fn note(rank: u32, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self { is_fault: false, ..Self::fault(rank, what, todo) }
    }
}

/// Worst first, each once.
pub(super) fn sorted(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse((finding.rank, finding.is_fault)));
    let mut once: Vec<Finding> = Vec::new();
    for finding in findings {
        if once.iter().all(|other| other.what != finding.what) {
            once.push(finding);
        }
    }
    once
}
