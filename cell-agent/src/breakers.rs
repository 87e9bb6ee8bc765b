//! The breakers of a cell: one for its backend, and one for each dependency, where the fleet file says so. A request passes those
//! that stand before what it needs, or is refused at once.

use std::fmt;
use std::time::Duration;

use cofferdam_bulkhead::{Breaker, BreakerCounts, BreakerPolicy, BreakerState, Pass, Verdict, judge_status};
use cofferdam_fleet::{BreakerRules, CellRules, DependencyIndex};
use cofferdam_model::CellReason;
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

    fn answer(status: u16, grpc_status: Option<&str>) -> Response<()> {
        let mut response = Response::builder().status(status).body(()).unwrap();
        if let Some(status) = grpc_status {
            response.headers_mut().insert(grpc::STATUS, status.parse().unwrap());
        }
        response
    }

    fn trailers(status: &str) -> HeaderMap {
        HeaderMap::from_iter([(grpc::STATUS, status.parse().unwrap())])
    }

    /// Whether the breaker of DB, which one failure opens, does so after `work`.
    fn opens(work: impl FnOnce(Box<Passed>)) -> bool {
        let breakers = Breakers::new(&rules("", "breaker: { failures: 1 }"), None);
        work(breakers.pass(DB).unwrap().unwrap());
        breakers.pass(DB).is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_calls_trailers_tell_and_a_status_of_http_by_the_same_rule() {
        let half = Instant::now();
        let bounds = |half| Bounds { half, idle: Instant::now() + Duration::from_secs(300) };
        let by_head = |status, grpc_status| {
            opens(|passed| {
                let judged = passed.judge(&answer(status, grpc_status), grpc_status.is_some(), bounds(half));
                assert!(judged.is_none());
            })
        };
        let by_trailers = |status, half, heard| {
            opens(|passed| {
                let mut judged = passed.judge(&answer(200, None), true, bounds(half)).unwrap();
                if heard {
                    judged.heard();
                }
                judged.trailers(&trailers(status));
                judged.ended(End::Complete);
            })
        };
        for (status, is_failure) in [(200, false), (404, false), (429, false), (500, true), (503, true)] {
            assert_eq!(by_head(status, None), is_failure, "{status}");
        }
        let failures = ["2", "4", "13", "14", "15"];
        for status in ["0", "1", "2", "3", "4", "5", "7", "8", "12", "13", "14", "15", "16"] {
            let is_failure = failures.contains(&status);
            assert_eq!(by_head(200, Some(status)), is_failure, "{status} in the head");
            assert_eq!(by_trailers(status, half, false), is_failure, "{status} in the trailers");
            let is_failure = is_failure && status != "4";
            assert_eq!(by_trailers(status, half, true), is_failure, "{status} behind messages");
        }
        let later = half + Duration::from_secs(1);
        assert!(!by_trailers("4", later, false), "a caller that leaves little time has itself to blame");
        for (end, is_failure) in [(End::Failed, true), (End::Complete, true), (End::Dropped, false)] {
            let ends =
                |bounds| opens(|passed| passed.judge(&answer(200, None), true, bounds).unwrap().ended(end));
            assert_eq!(ends(bounds(half)), is_failure, "{end:?} without a status");
            let silent = Bounds { half, idle: half };
            assert_eq!(ends(silent), is_failure && end != End::Failed, "{end:?} after a long silence");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_head_came_has_tried_for_the_others() {
        let breakers = Breakers::new(&rules("", "breaker: { failures: 1, open_for: 1s }"), None);
        breakers.pass(DB).unwrap().unwrap().failed(false);
        tokio::time::advance(Duration::from_secs(1)).await;
        let tries = breakers.pass(DB).unwrap().unwrap();
        assert!(breakers.pass(DB).is_err(), "one may try");
        let bounds = Bounds { half: Instant::now(), idle: Instant::now() + Duration::from_secs(300) };
        let mut stream = tries.judge(&answer(200, None), true, bounds).unwrap();
        assert!(breakers.pass(DB).is_ok(), "without a message, which may be hours away");
        stream.trailers(&trailers("14"));
        stream.ended(End::Complete);
        assert!(breakers.pass(DB).is_ok(), "it was told already how that went");
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
