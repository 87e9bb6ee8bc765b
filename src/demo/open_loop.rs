//! Requests at a fixed pace, whatever becomes of the ones before, and what a client sees of each answer. It knows
//! neither cells nor who should be hurt.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use cofferdam_model::TenantId;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use reqwest::StatusCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval_at, timeout_at};

/// How long a client waits, from the moment that its request was due.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client of one router.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    router: SocketAddr,
}

/// What a client sees of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A 2xx, whole, and in time.
    Success,
    /// A 429: the tenant is over what it may take.
    Held(By),
    /// Anything else, silence included.
    Failure,
}

/// What holds a tenant back, as the answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// A limit of its plan.
    Limit,
    /// Its compartment in a cell.
    Compartment,
}

/// The member of a problem that tells the two apart: only a limit is a policy that can be violated.
#[derive(Debug, Deserialize)]
struct Problem {
    #[serde(default, rename = "violated-policies")]
    violated: Vec<IgnoredAny>,
}

/// A request and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// When it was due; a client that lags behind is no excuse for the fleet, nor a help to it.
    pub(crate) scheduled: Instant,
    /// How much later it was sent.
    pub(crate) late: Duration,
    /// What the client saw.
    pub(crate) answer: Answer,
}

/// When requests are due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// When the first is due.
    pub(crate) first: Instant,
    /// The time from one to the next.
    pub(crate) period: Duration,
}

/// A stream of requests from a task of its own; dropping it abandons what is outstanding.
#[derive(Debug)]
pub(crate) struct Stream {
    last: watch::Sender<Option<Instant>>,
    task: JoinSet<Vec<Sent>>,
}

impl Client {
    /// A client with no connection yet. Proxies of the environment have no business on the way to a local router.
    pub(crate) fn new(router: SocketAddr) -> anyhow::Result<Self> {
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build();
        Ok(Self { http: http.context("could not set up the HTTP client")?, router })
    }

    /// One GET as `tenant`, due at `scheduled`.
    pub(crate) async fn get(&self, tenant: TenantId, path: &str, scheduled: Instant) -> Answer {
        timeout_at(scheduled + PATIENCE, self.try_get(tenant, path)).await.unwrap_or(Answer::Failure)
    }

    async fn try_get(&self, tenant: TenantId, path: &str) -> Answer {
        let url = format!("http://{}{path}", self.router);
        let Ok(response) = self.http.get(url).header("x-tenant-id", tenant.as_str()).send().await else {
            return Answer::Failure;
        };
        let status = response.status();
        match response.bytes().await {
            Ok(_) if status.is_success() => Answer::Success,
            Ok(body) if status == StatusCode::TOO_MANY_REQUESTS => held(&body),
            _ => Answer::Failure,
        }
    }
}

fn held(body: &[u8]) -> Answer {
    match serde_json::from_slice(body) {
        Ok(Problem { violated }) if violated.is_empty() => Answer::Held(By::Compartment),
        Ok(_) => Answer::Held(By::Limit),
        Err(_) => Answer::Failure,
    }
}

impl Stream {
    /// Starts a stream; `send` makes the request that is due at the given moment.
    pub(crate) fn start<F>(pace: Pace, send: impl Fn(Instant) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let (last, ending) = watch::channel(None);
        let mut task = JoinSet::new();
        task.spawn(open_loop(pace, ending, send));
        Self { last, task }
    }

    /// Goes on up to the first request that is due at `last` or later, and waits for every answer. Requests come in
    /// the order in which they were answered.
    pub(crate) async fn end_at(mut self, last: Instant) -> anyhow::Result<Vec<Sent>> {
        self.last.send_replace(Some(last));
        self.task.join_next().await.context("the stream has no task")?.context("a client broke")
    }
}

async fn open_loop<F: Future<Output = Answer>>(
    pace: Pace,
    ending: watch::Receiver<Option<Instant>>,
    send: impl Fn(Instant) -> F,
) -> Vec<Sent> {
    // An interval that falls behind catches up, and names the moments that were planned.
    let mut due = interval_at(pace.first, pace.period);
    let mut outstanding = FuturesUnordered::new();
    let mut sent = Vec::new();
    loop {
        tokio::select! {
            scheduled = due.tick() => {
                let (request, late) = (send(scheduled), scheduled.elapsed());
                outstanding.push(async move { Sent { scheduled, late, answer: request.await } });
                if ending.borrow().is_some_and(|last| scheduled >= last) {
                    break;
                }
            }
            Some(answered) = outstanding.next() => sent.push(answered),
        }
    }
    while let Some(answered) = outstanding.next().await {
        sent.push(answered);
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_missing_answer_delays_no_later_request() {
        let pace = Pace { first: Instant::now(), period: Duration::from_millis(1) };
        let (n_due, mut due) = watch::channel(0);
        let (answer, answers) = watch::channel(false);
        let stream = Stream::start(pace, move |_| {
            n_due.send_modify(|n| *n += 1);
            let mut answers = answers.clone();
            async move {
                let answered = answers.wait_for(|answered| *answered).await.is_ok();
                if answered { Answer::Success } else { Answer::Failure }
            }
        });
        // Nothing is answered before five are due.
        due.wait_for(|n| *n >= 5).await.unwrap();
        answer.send_replace(true);
        let mut sent = stream.end_at(pace.first).await.unwrap();
        sent.sort_by_key(|sent| sent.scheduled);
        let planned = (0..).map(|n| pace.first + pace.period * n);
        assert!(sent.iter().zip(planned).all(|(sent, planned)| sent.scheduled == planned));
        assert!(sent.len() > 5 && sent.iter().all(|sent| sent.answer == Answer::Success));
    }
}
