//! A router before a scripted cell, and an agent before a scripted backend, with bounds that a row can reach, and
//! clocks that only a row about a clock can.

use std::net::SocketAddr;
use std::time::Duration;

use cofferdam_agent as agent;
use cofferdam_model::CellId;
use cofferdam_proxy::listen;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::serve::ServeLimits;

use super::row::{Party, Row};
use crate::support::ANY;
use crate::support::files::{alone, cell_id};
use crate::support::routers::{self, TestRouter, parse};

/// The clocks of a row; `peers.rs` says the same to the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clocks {
    /// For a whole head, and for the silence in a body.
    pub(crate) silence: Duration,
    /// For the answer to `/hang`, which is where rows wait for a deadline.
    pub(crate) hang: Duration,
}

impl Clocks {
    /// For rows that are about a clock.
    const SHORT: Self = Self { silence: Duration::from_secs(2), hang: Duration::from_millis(500) };
    /// For all others: far longer than anything is waited for.
    const LONG: Self = Self { silence: Duration::from_secs(60), hang: Duration::from_secs(60) };

    pub(crate) fn of(row: &Row, party: Party) -> Self {
        if row.is_clocked(party) { Self::SHORT } else { Self::LONG }
    }

    /// `peers/` says the same bound to the others.
    fn body(self) -> BodyLimits {
        BodyLimits { max_bytes: 1000, idle: self.silence }
    }

    fn serve(self) -> ServeLimits {
        ServeLimits { head: self.silence, ..ServeLimits::default() }
    }

    fn routes(self) -> String {
        let hang = self.hang.as_millis();
        format!("routes:\n  - {{ match: {{ path: /hang }}, class: default, timeout: {hang}ms }}\n")
    }
}

/// A router before `cell`.
pub(crate) fn router(cell: SocketAddr, clocks: Clocks) -> TestRouter {
    let settings =
        cofferdam_router::Settings { body: clocks.body(), serve: clocks.serve(), ..routers::settings() };
    TestRouter::with(&alone(cell, &clocks.routes()), settings, 1)
}

/// An agent before `backend`, and where it listens.
pub(crate) fn agent(backend: SocketAddr, clocks: Clocks) -> (agent::Running, SocketAddr) {
    let data = listen::one(ANY).unwrap();
    let address = data.local_addr().unwrap();
    let origin = format!("http://{backend}").parse().unwrap();
    let settings = agent::Settings {
        body: clocks.body(),
        serve: clocks.serve().behind_a_hop(),
        // Its checks are connections too.
        check_every: Duration::from_secs(3600),
        ..agent::Settings::new(CellId::parse(&cell_id(0)).unwrap(), origin)
    };
    let listeners = agent::Listeners { data: vec![data], probes: None, admin: None };
    (agent::Agent::start(&parse(&alone(address, &clocks.routes())), settings, listeners).unwrap(), address)
}
