//! What is in force while the store is away: this router's share of a limit, or what the plan or the route says instead.

use cofferdam_limits::LevelPolicy;
use cofferdam_limits::redis::LocalShare;
use cofferdam_model::OnStoreFailure;
use serde::Serialize;

/// One level's limits without the store.
#[derive(Debug, Serialize)]
pub(super) struct LocalLimit {
    /// What decides then: `local`, `open` or `closed`.
    on_store_failure: &'static str,
    /// How many routers share.
    routers: u32,
    /// This router's share; nothing where nothing limits, or all is refused.
    #[serde(flatten)]
    share: Option<ShareView>,
}

#[derive(Debug, Serialize)]
struct ShareView {
    sustained: Option<String>,
    burst: Option<u64>,
    max_in_flight: Option<u32>,
    /// A quota is not counted then: nobody knows how much of it is left.
    counts_quotas: bool,
}

impl LocalLimit {
    pub(super) fn of(policy: &LevelPolicy, share: LocalShare, on_failure: OnStoreFailure) -> Self {
        let bucket = policy.bucket.map(|bucket| share.bucket(bucket));
        let view = ShareView {
            sustained: bucket.map(|bucket| bucket.rate().to_string()),
            burst: bucket.map(|bucket| bucket.capacity()),
            max_in_flight: policy.max_in_flight.map(|limit| share.permits(limit)),
            counts_quotas: false,
        };
        let is_local = on_failure == OnStoreFailure::Local;
        Self {
            on_store_failure: on_failure.as_str(),
            routers: share.routers(),
            share: is_local.then_some(view),
        }
    }
}
