//! Clocks and bounds that hold where nobody sets any. Rows play with shorter ones.

use std::time::Duration;

use cofferdam_fleet::normal_path;
use cofferdam_proxy::replay::{BodyLimits, REPLAY_BYTES};
use cofferdam_proxy::serve::ServeLimits;
use cofferdam_proxy::target::MAX_TARGET;
use cofferdam_proxy::upstream::UpstreamLimits;
use http::Method;

use crate::support::ANY;
use crate::support::files::alone;
use crate::support::routers::parse;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_clocks_and_bounds_are_those_that_were_promised() {
    let (serve, body, upstream) = (ServeLimits::default(), BodyLimits::default(), UpstreamLimits::default());
    assert_eq!((serve.head, serve.idle, body.idle), (s(10), s(75), s(30)));
    assert_eq!((upstream.connect, upstream.stream_idle), (s(1), s(300)));
    // A router lets go of an agent's connection before the agent does.
    assert!(upstream.idle < serve.idle);
    assert_eq!(cofferdam_router::Settings::default().drain_deadline, s(30));
    let fleet = parse(&alone(ANY, "").replace(":0", ":1"));
    let route = fleet.routes.classify(&Method::GET, &normal_path("/"), None);
    assert_eq!(fleet.routes.as_slice()[route.get()].timeout, s(15));
    assert_eq!((serve.max_head_bytes, MAX_TARGET), (32 * 1024, 8 * 1024));
    assert_eq!((serve.max_fields, serve.max_list_bytes), (100, 16 * 1024));
    assert_eq!((body.max_bytes, REPLAY_BYTES), (10 * 1024 * 1024, 64 * 1024));
}
