//! What is known of a tenant, wherever it comes from. It judges nothing.

use cofferdam_router::{RecentAnswer, TenantRecent};
use serde::Serialize;
use serde_json::Value;

/// What one router, or a fleet file, says of a tenant; what is not known is null.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    /// `GET /tenants/{tenant}`.
    pub(super) placement: Value,
    /// `GET /tenants/{tenant}/limits`; null where it has no plan.
    pub(super) limits: Value,
    /// `GET /fleet`.
    pub(super) fleet: Value,
    /// `release` of `GET /placement/release`; null where the tenant waits for none.
    pub(super) release: Value,
    /// `GET /tenants/{tenant}/recent`; nothing by a fleet file.
    #[serde(skip)]
    pub(super) recent: Option<RecentAnswer>,
}

/// Which routers were asked, and how many there are.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Routers {
    /// Those that answered.
    pub(super) asked: usize,
    /// Those that live, as the store knows them; none where there is no store, or it does not say.
    pub(super) live: Option<usize>,
    /// Those that were named and did not answer.
    pub(super) silent: Vec<String>,
}

/// Everything that is known of a tenant.
#[derive(Debug, Default, Serialize)]
pub(super) struct Explanation {
    /// What the first router says.
    #[serde(flatten)]
    pub(super) seen: Seen,
    /// What the others say.
    pub(super) others: Vec<Seen>,
    /// The last minute at all routers that were asked; nothing by a fleet file.
    pub(super) recent: Option<TenantRecent>,
    /// Nothing by a fleet file.
    pub(super) routers: Option<Routers>,
    /// Whether something is wrong.
    pub(super) is_wrong: bool,
    /// What is wrong or worth knowing, worst first.
    pub(super) findings: Vec<String>,
    /// What to do about each of them, in the same order.
    pub(super) todo: Vec<String>,
}

impl Explanation {
    /// Puts together what several routers say.
    pub(super) fn of(seen: Seen, others: Vec<Seen>, silent: Vec<String>) -> Self {
        let answers: Vec<&RecentAnswer> =
            std::iter::once(&seen).chain(&others).filter_map(|seen| seen.recent.as_ref()).collect();
        let recent = answers.iter().map(|answer| answer.recent.clone()).reduce(TenantRecent::with);
        let live = answers.iter().filter_map(|answer| answer.live.as_ref()).map(Vec::len).max();
        // One router that was named twice is asked once.
        let mut sessions: Vec<_> = answers.iter().filter_map(|answer| answer.session.as_ref()).collect();
        sessions.sort();
        sessions.dedup();
        let asked = if sessions.is_empty() { answers.len() } else { sessions.len() };
        let routers = (!answers.is_empty()).then_some(Routers { asked, live, silent });
        Self { seen, others, recent, routers, ..Self::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Seen> {
        std::iter::once(&self.seen).chain(&self.others)
    }
}

impl Routers {
    /// How many live and were not asked.
    pub(super) fn n_unasked(&self) -> usize {
        self.live.map_or(0, |live| live.saturating_sub(self.asked))
    }
}
