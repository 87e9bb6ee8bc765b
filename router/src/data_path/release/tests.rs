//! Requests that end otherwise than by an answer, and how calls count.

use std::path::Path;

use arc_swap::ArcSwap;
use cofferdam_fleet::Fleet;
use cofferdam_model::Alphabet;
use cofferdam_proxy::handover::Ownership;
use cofferdam_proxy::upstream::UpstreamLimits;
use http::{HeaderName, HeaderValue, StatusCode};
use prometheus_client::registry::Registry;

use super::super::view::CachedView;
use super::*;
use crate::cells::Directory;
use crate::door::Doors;
use crate::overrides::Overrides;
use crate::snapshot::Snapshot;
use crate::top::Top;

fn inside() -> Inside {
    let acme = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
    Doors::default().worker().enter(&acme).unwrap()
}

/// The counters that are not zero, after `work` with what closes a call.
fn counted(work: impl FnOnce(Closing<'_>)) -> Vec<String> {
    let text = "fleet: f\nrevision: 7\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\n";
    let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
    let snapshot = Arc::new(Snapshot::build(fleet, &Directory::default()).unwrap());
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    let snapshots = Arc::new(ArcSwap::new(snapshot));
    let overrides = Arc::new(Overrides::new(Arc::clone(&snapshots), None, None, &Ownership::default()));
    let top = &Top::default().worker();
    let view =
        CachedView::new(overrides, metrics.clone(), Arc::clone(top), UpstreamLimits::default()).current();
    work(Closing { view: &view, metrics: &metrics, top, arrived: Instant::now(), is_grpc: true });
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let counters = text.lines().filter(|line| line.starts_with("cofferdam_router_requests_total{"));
    counters.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
}

#[test]
fn a_request_that_panics_on_its_way_is_no_client_that_went() {
    let panics = |closing: Closing<'_>| {
        let waiting = closing.waits(ClassIndex(0), inside());
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _waiting = waiting;
            panic!("on its way");
        }));
        assert!(caught.is_err());
    };
    let counted = counted(panics);
    assert!(counted.len() == 1 && counted[0].contains(r#"outcome="failed""#), "{counted:?}");
}

#[test]
fn a_call_counts_by_the_status_in_its_trailers() {
    for (status, outcome) in [("0", "success"), ("14", "server_error"), ("5", "client_error")] {
        let counted = counted(|closing| {
            let mut in_flight = closing.hold(ClassIndex(0), None, Outcome::of_status(StatusCode::OK));
            let trailers = [(HeaderName::from_static("grpc-status"), HeaderValue::from_static(status))];
            in_flight.on_trailers(&mut HeaderMap::from_iter(trailers));
            in_flight.on_end(End::Complete);
        });
        let expected = format!(r#"outcome="{outcome}""#);
        assert!(counted.len() == 1 && counted[0].contains(&expected), "{counted:?}");
    }
}

#[test]
fn a_call_that_panics_is_refused_as_a_call() {
    counted(|closing| {
        let answer = panicked(closing.metrics, true);
        assert_eq!(
            (answer.status(), &answer.headers()[grpc::STATUS]),
            (StatusCode::OK, &"13".parse().unwrap())
        );
        assert_eq!(panicked(closing.metrics, false).status(), StatusCode::INTERNAL_SERVER_ERROR);
    });
}
