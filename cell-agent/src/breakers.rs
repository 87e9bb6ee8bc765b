//! The breakers of a cell: one for its backend, and one for each dependency, where the fleet file says so. A request passes those
//! that stand before what it needs, or is refused at once.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use cofferdam_bulkhead::{Breaker, BreakerCounts, BreakerPolicy, BreakerState, Pass, Verdict, judge_status};
use cofferdam_fleet::{BreakerRules, CellRules, DependencyIndex};
use cofferdam_model::{CellReason, Guard, TenantId};
use cofferdam_proxy::grpc;
use cofferdam_proxy::guard::End;
use http::{HeaderMap, HeaderValue, Response};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

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
    /// Makes a number of a tenant, by which the breakers tell callers apart. A tenant cannot choose the number of another.
    hasher: RandomState,
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

/// A call of gRPC whose answer has begun: what its trailers say is what the breakers hear.
#[derive(Debug)]
pub(crate) struct Judged {
    passed: Passed,
    bounds: Bounds,
    /// Whether a message came.
    heard: bool,
    /// As the trailers say; a call that ends without them has failed.
    verdict: Verdict,
}

/// When what ends a call says nothing of the backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Before this, a deadline that is over is the caller's affair.
    pub(crate) half: Instant,
    /// From here on, an answer that breaks off may have been silent for too long, and its backend be as well as ever.
    pub(crate) idle: Instant,
}

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
            hasher: before.map_or_else(RandomState::new, |before| before.hasher.clone()),
        }
    }

    /// Leave to call the backend for a request of `tenant` that needs `dependency`.
    ///
    /// Nothing is to be said where nobody guards what it needs.
    pub(crate) fn pass(
        &self,
        dependency: Option<DependencyIndex>,
        tenant: &TenantId,
    ) -> Result<Option<Box<Passed>>, Tripped> {
        let dependency = dependency.and_then(|at| self.dependencies.get(at.get())?.as_ref());
        if dependency.is_none() && self.backend.is_none() {
            return Ok(None);
        }
        let caller = self.hasher.hash_one(tenant);
        let mut passed = Box::<Passed>::default();
        for (at, guarding, reason) in
            [(0, dependency, CellReason::Class), (1, self.backend.as_ref(), CellReason::Cell)]
        {
            let Some(Guarding { of, breaker, .. }) = guarding else { continue };
            match breaker.pass_for(caller) {
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
        let help = "Whether the breaker is open for one tenant alone, which asked while no other did";
        let name = "cofferdam_agent_breaker_open_for_one";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (of, counts) in self.counts() {
            let for_one = f64::from(u8::from(counts.for_one));
            ConstGauge::new(for_one).encode(family.encode_family(&[("of", of)])?)?;
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

    /// Those that are not closed, by name.
    pub(crate) fn not_closed(&self) -> Vec<String> {
        let is_closed = |counts: &BreakerCounts| counts.state == BreakerState::Closed;
        self.counts().filter(|(_, counts)| !is_closed(counts)).map(|(of, _)| of.to_owned()).collect()
    }

    fn counts(&self) -> impl Iterator<Item = (&str, BreakerCounts)> {
        self.all().map(|guarding| (&*guarding.of, guarding.breaker.counts()))
    }

    fn all(&self) -> impl Iterator<Item = &Guarding> {
        self.backend.iter().chain(self.dependencies.iter().flatten())
    }
}

impl Passed {
    /// Says how it went by the answer's head; what is returned hears it from what comes behind, where that tells. Whoever was let
    /// through to try has its answer with the head: a stream may be silent for hours, and others wait for it.
    pub(crate) fn judge<B>(
        mut self,
        answer: &Response<B>,
        is_grpc: bool,
        bounds: Bounds,
    ) -> Option<Box<Judged>> {
        let status = answer.headers().get(grpc::STATUS).filter(|_| is_grpc);
        let verdict = match (status, judge_status(answer.status())) {
            (Some(status), _) => judge_grpc(status, bounds.half),
            (None, Verdict::Succeeded) if is_grpc => {
                self.tried();
                let (passed, verdict) = (self, Verdict::Failed);
                return Some(Box::new(Judged { passed, bounds, heard: false, verdict }));
            }
            (None, verdict) => verdict,
        };
        self.say(verdict);
        None
    }

    /// Whoever was let through to try did so well.
    fn tried(&mut self) {
        for passed in &mut self.0 {
            if let Some((pass, of)) = passed.take_if(|(pass, _)| pass.is_trial())
                && pass.succeeded()
            {
                tracing::info!(%of, "breaker has closed");
            }
        }
    }

    fn say(self, verdict: Verdict) {
        match verdict {
            Verdict::Succeeded => self.succeeded(),
            Verdict::Failed => self.failed(false),
            Verdict::Unknown => {}
        }
    }

    /// How it went, by the table of ends.
    pub(crate) fn ended(self, guard: Guard) {
        match guard {
            Guard::Nothing => {}
            Guard::Success => self.succeeded(),
            Guard::Dependency => self.failed(false),
            Guard::Backend => self.failed(true),
        }
    }

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

impl Judged {
    /// A message came.
    pub(crate) fn heard(&mut self) {
        self.heard = true;
    }

    /// The status came. A deadline that was over behind messages ended a stream in its caller's own time.
    pub(crate) fn trailers(&mut self, trailers: &HeaderMap) {
        if let Some(status) = trailers.get(grpc::STATUS) {
            let is_caller_s = self.heard && status == "4";
            self.verdict = if is_caller_s { Verdict::Unknown } else { judge_grpc(status, self.bounds.half) };
        }
    }

    /// The answer ended. One that its caller left says nothing, nor does one that was silent for too long.
    pub(crate) fn ended(self, end: End) {
        match end {
            End::Complete => self.passed.say(self.verdict),
            End::Failed if Instant::now() < self.bounds.idle => self.passed.failed(false),
            End::Failed | End::Dropped => {}
        }
    }
}

/// As [`judge_status`] does by HTTP's: unknown, deadline exceeded, internal, unavailable and data loss are failures, and what
/// is exhausted concerns its caller alone.
fn judge_grpc(status: &HeaderValue, half: Instant) -> Verdict {
    match status.as_bytes() {
        b"4" if Instant::now() < half => Verdict::Unknown,
        b"2" | b"4" | b"13" | b"14" | b"15" => Verdict::Failed,
        b"8" => Verdict::Unknown,
        _ => Verdict::Succeeded,
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
mod tests;
