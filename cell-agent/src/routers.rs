//! What the agent knows of the routers before it: whose word counts, who speaks as a router and is none, and which
//! placement the last of them routed by. It knows no class and no tenant.

use std::net::IpAddr;
use std::sync::{Arc, Once};

use arc_swap::ArcSwapOption;
use cofferdam_fleet::Trusted;
use cofferdam_model::{Digest, Hop, Revision};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// The routers of one agent.
#[derive(Debug)]
pub(crate) struct Routers {
    trusted: Trusted,
    /// Hops of peers that are none of `trusted`.
    ignored: Counter,
    warned: Once,
    routed_by: ArcSwapOption<RoutedBy>,
}

/// The placement that a router routed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoutedBy {
    pub(crate) revision: Revision,
    pub(crate) digest: Digest,
}

impl Routers {
    pub(crate) fn new(trusted: Trusted) -> Self {
        let (ignored, routed_by) = Default::default();
        Self { trusted, ignored, warned: Once::new(), routed_by }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "cofferdam_agent_untrusted_hops",
            "Requests whose class and deadline were ignored, since their peer is no trusted router",
            self.ignored.clone(),
        );
    }

    /// Whether a peer is a router.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted.trusts(peer)
    }

    /// A peer that is not trusted speaks as a router does. Most likely it is one, and a network is missing from this
    /// agent's settings: the log says so once, the counter always.
    pub(crate) fn ignore(&self, peer: IpAddr) {
        self.ignored.inc();
        self.warned.call_once(|| {
            tracing::warn!(%peer, "peer is no trusted router: class and deadline of its hops are ignored");
        });
    }

    /// A router was heard.
    pub(crate) fn heard(&self, hop: &Hop) {
        let now = RoutedBy { revision: hop.revision, digest: hop.digest };
        // Written where it changes alone, so that workers do not wait for each other.
        if self.routed_by() != Some(now) {
            self.routed_by.store(Some(Arc::new(now)));
        }
    }

    /// What the last router that was heard routed by.
    pub(crate) fn routed_by(&self) -> Option<RoutedBy> {
        self.routed_by.load().as_deref().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::captured::Captured;

    #[test]
    fn who_is_no_trusted_router_is_counted_always_and_logged_once_with_its_address() {
        let (log, _logging) = Captured::start();
        let routers = Routers::new(Trusted::loopback());
        routers.ignore([10, 0, 0, 1].into());
        routers.ignore([10, 0, 0, 2].into());
        assert_eq!(routers.ignored.get(), 2);
        let text = log.text();
        assert!(text.contains("peer=10.0.0.1") && !text.contains("peer=10.0.0.2"), "{text}");
    }
}
