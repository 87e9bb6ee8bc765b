//! A router before a scripted cell, and an agent before a scripted backend, with bounds that a row can reach.

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam_agent as agent;
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::serve::ServeLimits;

use crate::support::ANY;
use crate::support::files::{alone, cell_id};
use crate::support::routers::{self, TestRouter, parse};

/// The rows' bounds; `peers/` says the same to the others.
const BODY: BodyLimits = BodyLimits { max_bytes: 1000, idle: Duration::from_secs(2) };

/// `/hang` is where rows wait for a deadline.
const ROUTES: &str = "routes:\n  - { match: { path: /hang }, class: default, timeout: 500ms }\n";

fn serve() -> ServeLimits {
    ServeLimits { head: Duration::from_secs(2), ..ServeLimits::default() }
}

/// A router before `cell`.
pub(crate) fn router(cell: SocketAddr) -> TestRouter {
    let settings = cofferdam_router::Settings { body: BODY, serve: serve(), ..routers::settings() };
    TestRouter::with(&alone(cell, ROUTES), settings, 1)
}

/// An agent before `backend`, and where it listens.
pub(crate) fn agent(backend: SocketAddr) -> (agent::Running, SocketAddr) {
    let data = listen::one(ANY).unwrap();
    let address = data.local_addr().unwrap();
    let origin = format!("http://{backend}").parse().unwrap();
    let settings = agent::Settings {
        body: BODY,
        serve: serve(),
        // Its checks are connections too.
        check_every: Duration::from_secs(3600),
        ..agent::Settings::new(CellId::parse(&cell_id(0)).unwrap(), origin)
    };
    let listeners = agent::Listeners { data: vec![data], probes: None };
    (agent::Agent::start(&parse(&alone(address, ROUTES)), settings, listeners).unwrap(), address)
}
