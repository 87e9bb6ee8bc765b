//! What a request is: whose, of which class, and how long it may take. A trusted router's word counts; from anybody
//! else only the tenant is taken, and the class is found by the fleet's own routes.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use cofferdam_fleet::{ClassIndex, RouteIndex};
use cofferdam_model::{ClassName, HopError, HopFields, Resort, TenantId};
use http::request::Parts;
use tokio::time::Instant;

use crate::routers::Routers;
use crate::rules::Rules;

/// What a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classified {
    /// Whether a router sent it.
    pub(crate) from_router: bool,
    pub(crate) tenant: TenantId,
    pub(crate) class: ClassIndex,
    /// By this agent's own routes, whatever a router says of the class.
    pub(crate) route: RouteIndex,
    /// Which attempt of the router's this is, from 1.
    pub(crate) attempt: u8,
    /// Where else the router may go with it; the last resort is who has no router.
    pub(crate) resort: Resort,
    /// When the answer's head must be there.
    pub(crate) deadline: Instant,
}

/// Classifies requests by hop and routes.
#[derive(Debug)]
pub(crate) struct Classifier {
    rules: Arc<ArcSwap<Rules>>,
    routers: Arc<Routers>,
}

impl Classifier {
    pub(crate) fn new(rules: Arc<ArcSwap<Rules>>, routers: Arc<Routers>) -> Self {
        Self { rules, routers }
    }

    /// The rules that hold now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Whether a peer is a router.
    pub(crate) fn trusts(&self, peer: IpAddr) -> bool {
        self.routers.trusts(peer)
    }

    /// Classifies a request that arrived `now` by `rules`. The tenant must be there, whoever sends it. A router's class that this
    /// agent's file lacks counts for nothing, since the two may run on different revisions for a while.
    pub(crate) fn classify(
        &self,
        rules: &Rules,
        peer: IpAddr,
        head: &Parts,
        now: Instant,
    ) -> Result<Classified, HopError> {
        let fleet = &rules.fleet;
        let fields = HopFields::of(&head.headers);
        let tenant = fields.tenant(&fleet.tenant.alphabet)?;
        let index = fleet.routes.classify(&head.method, head.uri.path(), head.uri.query());
        let route = &fleet.routes.as_slice()[index.get()];
        let deadline = now + route.timeout;
        let (from_router, class, resort) = (self.trusts(peer), route.class, Resort::Last);
        let by_routes = Classified { from_router, tenant, class, route: index, attempt: 1, resort, deadline };
        if !from_router {
            // The tenant alone makes nobody a router: a client of the cell's own says as much.
            if fields.names_class() {
                self.routers.ignore(peer);
            }
            return Ok(by_routes);
        }
        let Ok(hop) = fields.hop_of(tenant) else { return Ok(by_routes) };
        self.routers.heard(&hop);
        Ok(Classified {
            class: class_named(rules, &hop.class).unwrap_or(route.class),
            attempt: hop.attempt,
            resort: hop.resort,
            deadline: now + route.timeout.min(hop.remaining),
            ..by_routes
        })
    }
}

/// Classes are sorted by name, and there are at most 64.
fn class_named(rules: &Rules, name: &ClassName) -> Option<ClassIndex> {
    let found = rules.fleet.cell.classes.binary_search_by(|class| class.name.cmp(name)).ok()?;
    Some(ClassIndex(found as u16))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use cofferdam_fleet::{Fleet, Trusted};
    use cofferdam_model::{Alphabet, Digest, Hop, Resort, Revision, headers};
    use http::{HeaderValue, Request};

    use super::*;

    const ROUTER: [u8; 4] = [127, 0, 0, 1];
    const STRANGER: [u8; 4] = [10, 0, 0, 1];

    fn classifier() -> Classifier {
        let fleet = Fleet::parse(
            "
fleet: test
cells: [{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]
routes:
  - { match: { path: /search }, class: search, timeout: 2s }
  - { match: { path: / }, class: default, timeout: 10s }
cell:
  classes: { search: {}, default: {}, checkout: {} }
",
            Path::new("."),
        );
        let rules = Rules::of(fleet.unwrap().fleet);
        Classifier::new(Arc::new(ArcSwap::from(rules)), Arc::new(Routers::new(Trusted::loopback())))
    }

    fn head(path: &str, hop: Option<&Hop>) -> Parts {
        let (mut head, ()) = Request::get(path).body(()).unwrap().into_parts();
        head.headers.insert(headers::TENANT, HeaderValue::from_static("acme"));
        if let Some(hop) = hop {
            hop.write(&mut head.headers);
        }
        head
    }

    fn hop(class: &str) -> Hop {
        Hop {
            tenant: TenantId::parse(b"globex", &Alphabet::default()).unwrap(),
            class: ClassName::parse(class).unwrap(),
            attempt: 2,
            resort: Resort::Another,
            remaining: Duration::from_secs(1),
            revision: Revision(1),
            digest: Digest(1),
        }
    }

    fn seen(peer: [u8; 4], head: &Parts) -> (String, String, u8, Duration) {
        let (classifier, now) = (classifier(), Instant::now());
        let rules = classifier.rules();
        let is = classifier.classify(&rules, peer.into(), head, now).unwrap();
        let class = rules.class_name(is.class).to_string();
        (is.tenant.as_str().to_owned(), class, is.attempt, is.deadline - now)
    }

    #[test]
    fn a_routers_hop_decides_class_attempt_and_the_shorter_deadline() {
        let expected = ("globex".into(), "checkout".into(), 2, Duration::from_secs(1));
        assert_eq!(seen(ROUTER, &head("/search", Some(&hop("checkout")))), expected);
        let patient = Hop { remaining: Duration::from_secs(60), ..hop("checkout") };
        assert_eq!(seen(ROUTER, &head("/search", Some(&patient))).3, Duration::from_secs(2));
    }

    #[test]
    fn a_class_that_this_file_lacks_is_found_by_routes() {
        let expected = ("globex".into(), "search".into(), 2, Duration::from_secs(1));
        assert_eq!(seen(ROUTER, &head("/search", Some(&hop("of-the-next-revision")))), expected);
    }

    // P9, P39
    #[test]
    fn a_strangers_class_attempt_and_deadline_count_for_nothing() {
        let expected = ("globex".into(), "search".into(), 1, Duration::from_secs(2));
        assert_eq!(seen(STRANGER, &head("/search", Some(&hop("checkout")))), expected);
    }

    #[test]
    fn a_hop_that_is_not_whole_counts_for_nothing_but_its_tenant() {
        let mut broken = head("/other", Some(&hop("checkout")));
        broken.headers.remove(headers::DIGEST);
        let expected = ("globex".into(), "default".into(), 1, Duration::from_secs(10));
        assert_eq!(seen(ROUTER, &broken), expected);
    }

    #[test]
    fn a_request_without_exactly_one_usable_tenant_is_refused() {
        let (classifier, now) = (classifier(), Instant::now());
        let rules = classifier.rules();
        let classify = |head: &Parts| classifier.classify(&rules, ROUTER.into(), head, now).unwrap_err();
        let mut none = head("/", None);
        none.headers.remove(headers::TENANT);
        assert_eq!(classify(&none), HopError::Once("cofferdam-tenant"));
        let mut twice = head("/", Some(&hop("search")));
        twice.headers.append(headers::TENANT, HeaderValue::from_static("acme"));
        assert_eq!(classify(&twice), HopError::Once("cofferdam-tenant"));
        let mut strange = head("/", None);
        strange.headers.insert(headers::TENANT, HeaderValue::from_static("{acme}"));
        assert!(matches!(classify(&strange), HopError::Tenant(_)));
    }
}
