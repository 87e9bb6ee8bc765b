//! The breakers of a cell: one for its backend, and one for each dependency, where the fleet file says so. A request passes those
//! that stand before what it needs, or is refused at once.

use std::fmt;
use std::time::Duration;

use cofferdam_bulkhead::{Breaker, BreakerCounts, BreakerPolicy, BreakerState, Pass};
use cofferdam_fleet::{BreakerRules, CellRules, DependencyIndex};
use cofferdam_model::CellReason;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// What the backend's own is called.
const BACKEND: &str = "backend";

/// A counter's name, what it shows, and how it is read off.
type Count = (&'static str, &'static str, fn(&BreakerCounts) -> u64);

/// The breakers.
#[derive(Debug)]
pub(crate) struct Breakers {
    backend: Option<Guarding>,
    /// By index.
    dependencies: Vec<Option<Guarding>>,
}

/// A breaker, and what stands behind it.
#[derive(Debug, Clone)]
struct Guarding {
    of: Box<str>,
    rules: BreakerRules,
    breaker: Breaker,
}

/// Leave to call the backend. Dropped without a word, it says nothing of the backend.
#[derive(Debug, Default)]
pub(crate) struct Passed([Option<(Pass, Box<str>)>; 2]);

/// What a request needs is left alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("breaker of {of} is open")]
pub(crate) struct Tripped {
    of: Box<str>,
    /// Another cell has another backend, and the same dependencies.
    pub(crate) reason: CellReason,
    /// For how long.
    pub(crate) left: Duration,
}

impl Breakers {
    /// The breakers that `rules` have. One whose rules have not changed goes on as it is in `before`.
    pub(crate) fn new(rules: &CellRules, before: Option<&Self>) -> Self {
        let all = || before.into_iter().flat_map(Self::all);
        let guarding = |of: &str, rules: BreakerRules| {
            let same = all().find(|old| &*old.of == of && old.rules == rules).cloned();
            same.unwrap_or_else(|| Guarding { of: of.into(), rules, breaker: Breaker::new(policy(rules)) })
        };
        let dependencies = rules.dependencies.iter();
        let dependencies = dependencies
            .map(|it| it.breaker.map(|rules| guarding(&format!("dependency {}", it.name), rules)));
        Self {
            backend: rules.breaker.map(|rules| guarding(BACKEND, rules)),
            dependencies: dependencies.collect(),
        }
    }

    /// Leave to call the backend for a request that needs `dependency`.
    ///
    /// Nothing is to be said where nobody guards what it needs.
    pub(crate) fn pass(&self, dependency: Option<DependencyIndex>) -> Result<Option<Box<Passed>>, Tripped> {
        let dependency = dependency.and_then(|at| self.dependencies.get(at.get())?.as_ref());
        if dependency.is_none() && self.backend.is_none() {
            return Ok(None);
        }
        let mut passed = Box::<Passed>::default();
        for (at, guarding, reason) in
            [(0, dependency, CellReason::Class), (1, self.backend.as_ref(), CellReason::Cell)]
        {
            let Some(Guarding { of, breaker, .. }) = guarding else { continue };
            match breaker.pass() {
                Ok(pass) => passed.0[at] = Some((pass, of.clone())),
                Err(open) => return Err(Tripped { of: of.clone(), reason, left: open.0 }),
            }
        }
        Ok(Some(passed))
    }

    /// Writes what they do and have counted, each by its name.
    pub(crate) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether the breaker is closed (0), lets a few try (0.5) or is open (1)";
        let mut family =
            encoder.encode_descriptor("cofferdam_agent_breaker_open", help, None, MetricType::Gauge)?;
        for (of, counts) in self.counts() {
            let state = match counts.state {
                BreakerState::Closed => 0.0,
                BreakerState::HalfOpen => 0.5,
                BreakerState::Open => 1.0,
            };
            ConstGauge::new(state).encode(family.encode_family(&[("of", of)])?)?;
        }
        let counters: [Count; 2] = [
            ("cofferdam_agent_breaker_opened", "Times that the breaker opened", |counts| counts.opened),
            ("cofferdam_agent_breaker_refusals", "Requests that the open breaker refused", |counts| {
                counts.refused
            }),
        ];
        for (name, help, value) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (of, counts) in self.counts() {
                ConstCounter::new(value(&counts)).encode(family.encode_family(&[("of", of)])?)?;
            }
        }
        Ok(())
    }

    fn counts(&self) -> impl Iterator<Item = (&str, BreakerCounts)> {
        self.all().map(|guarding| (&*guarding.of, guarding.breaker.counts()))
    }

    fn all(&self) -> impl Iterator<Item = &Guarding> {
        self.backend.iter().chain(self.dependencies.iter().flatten())
    }
}

impl Passed {
    /// What was called did its work.
    pub(crate) fn succeeded(self) {
        for (pass, of) in self.0.into_iter().flatten() {
            if pass.succeeded() {
                tracing::info!(%of, "breaker has closed");
            }
        }
    }

    /// What was called failed: the dependency, if one is known, unless there was `no_connection` to the backend at all. Of
    /// the other nothing is known then.
    pub(crate) fn failed(self, no_connection: bool) {
        let [dependency, backend] = self.0;
        let blamed = if no_connection { backend } else { dependency.or(backend) };
        if let Some((pass, of)) = blamed
            && pass.failed()
        {
            tracing::warn!(%of, "breaker has opened");
        }
    }
}

fn policy(rules: BreakerRules) -> BreakerPolicy {
    BreakerPolicy {
        failures: rules.failures,
        share_thousandths: rules.share.of(1000),
        window: rules.window,
        open_for: rules.open_for,
        probes: rules.probes,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cofferdam_fleet::Fleet;

    use super::*;

    fn rules(breaker: &str, of_db: &str) -> CellRules {
        let text = format!(
            "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}, {{ id: b, url: 'http://b:1' }}]\n\
             routes: [{{ match: {{ path: /x }}, dependency: db }}, {{ match: {{ path: /y }}, dependency: mail }}]\n\
             cell: {{ {breaker} dependencies: {{ db: {{ {of_db} }}, mail: {{}} }} }}\n"
        );
        Fleet::parse(&text, Path::new(".")).unwrap().fleet.cell
    }

    const DB: Option<DependencyIndex> = Some(DependencyIndex(0));
    const MAIL: Option<DependencyIndex> = Some(DependencyIndex(1));

    #[tokio::test(start_paused = true)]
    async fn a_dependency_that_fails_is_left_alone_and_nothing_else() {
        let breakers = Breakers::new(&rules("breaker: {},", "breaker: { failures: 2 }"), None);
        for _ in 0..2 {
            breakers.pass(DB).unwrap().unwrap().failed(false);
        }
        let tripped = breakers.pass(DB).unwrap_err();
        assert_eq!((&*tripped.of, tripped.reason), ("dependency db", CellReason::Class));
        assert_eq!(tripped.left, Duration::from_secs(30));
        breakers.pass(MAIL).unwrap().unwrap().succeeded();
        breakers.pass(None).unwrap().unwrap().succeeded();
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_fails_is_left_alone_by_everybody_and_another_cell_may_serve() {
        let breakers = Breakers::new(&rules("breaker: {},", "breaker: {}"), None);
        // What DB does is not the backend's; a connection that there is not is.
        for (dependency, no_connection) in
            [(DB, false), (DB, true), (MAIL, false), (None, false), (DB, true), (MAIL, true)]
        {
            breakers.pass(dependency).unwrap().unwrap().failed(no_connection);
        }
        let tripped = breakers.pass(MAIL).unwrap_err();
        assert_eq!((&*tripped.of, tripped.reason), ("backend", CellReason::Cell));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reload_leaves_alone_what_it_does_not_change() {
        let breakers = Breakers::new(&rules("breaker: {},", "breaker: { failures: 1 }"), None);
        breakers.pass(DB).unwrap().unwrap().failed(false);
        let again = Breakers::new(&rules("", "breaker: { failures: 1 }"), Some(&breakers));
        assert!(again.pass(DB).is_err());
        let anew = Breakers::new(&rules("", "breaker: { failures: 2 }"), Some(&again));
        assert!(anew.pass(DB).is_ok());
    }
}
