//! One row of the table: a fault, and what it did.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::backend::WATCHED;
use crate::fault::Fault;
use crate::load::{Load, Outcome};
use crate::scene::{LIMIT, Scene};

/// Two lines of Markdown.
pub(crate) const HEAD: &str = "| fault | requests | failed because of it | most in flight / bound | exact again after | waited > 10 ms for the store |\n\
                               |---|---|---|---|---|---|";

const CALM: &str = "calm";
/// Of each tenant, to each router, in a second. The calm one never has more in flight than a router's own share; the
/// greedy one has always more to send than it may.
const RATES: [(&str, u32); 2] = [(CALM, 40), (WATCHED, 400)];
/// Until the store has learnt who is there, and loans are what they usually are.
const WARM_UP: Duration = Duration::from_secs(10);
const AFTERWARDS: Duration = Duration::from_secs(15);
/// What is looked at as a whole, to say whether limits are exact.
const BIN: Duration = Duration::from_millis(250);
/// How much of what is usually in flight has to be.
const USUAL: f64 = 0.9;

pub(crate) struct Row {
    fault: Fault,
    n_requests: usize,
    n_failed: usize,
    most: usize,
    /// Nothing where it was not seen.
    exact_after: Option<Duration>,
    /// The share of requests; nothing where no router says.
    waited: Option<f64>,
}

pub(crate) async fn measure(fault: Fault) -> Row {
    let scene = Scene::start(fault.needs_cluster()).await;
    let routers: Vec<_> = scene.routers.iter().map(|router| router.data).collect();
    let load = Load::start(&routers, &RATES);
    sleep(WARM_UP).await;
    let (struck, before) = (Instant::now(), waits(&scene).await);
    // What waits for a router that is stopped comes all at once in the end: that would be no calm tenant.
    load.silence(fault.victim().map(|router| (CALM, router)));
    let scene = beside(scene, move |scene| fault.strike(scene)).await;
    sleep(fault.lasts()).await;
    let scene = beside(scene, move |scene| fault.heal(scene)).await;
    let healed = Instant::now();
    load.silence(None);
    sleep(AFTERWARDS).await;
    let after = waits(&scene).await;
    let ended = Instant::now();
    let outcomes = load.end().await;
    let changes = scene.backend.changes();
    let from_strike = changes.iter().filter(|(at, _)| *at >= struck);
    tell_failures(fault, &outcomes, struck);
    let counted: Vec<_> = outcomes.iter().filter(|outcome| counts(fault, outcome, struck)).collect();
    Row {
        fault,
        n_requests: counted.len(),
        n_failed: counted.iter().filter(|outcome| has_failed(outcome)).count(),
        most: from_strike.map(|(_, n)| *n).max().unwrap_or_default(),
        exact_after: exact_after(&changes, [struck, healed, ended]),
        waited: waited(&before, &after, |router| sent_to(router, &outcomes, struck)),
    }
}

/// Does something that blocks where it does not hold up the load.
async fn beside(mut scene: Scene, work: impl FnOnce(&mut Scene) + Send + 'static) -> Scene {
    let work = move || {
        work(&mut scene);
        scene
    };
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Whether a request can tell of the fault: it was on its way when that struck, or came later, and its router is none
/// that was itself struck.
fn counts(fault: Fault, outcome: &Outcome, struck: Instant) -> bool {
    outcome.sent + Duration::from_millis(100) >= struck && fault.victim() != Some(outcome.router)
}

/// Says of what failed whose it was, at which router, with which status, and when after the strike the first of them was sent.
fn tell_failures(fault: Fault, outcomes: &[Outcome], struck: Instant) {
    let mut kinds = BTreeMap::new();
    for outcome in outcomes.iter().filter(|outcome| has_failed(outcome) && counts(fault, outcome, struck)) {
        let after = outcome.sent.saturating_duration_since(struck);
        let kind = kinds.entry((outcome.tenant, outcome.router, outcome.status)).or_insert((0, after));
        *kind = (kind.0 + 1, kind.1.min(after));
    }
    for ((tenant, router, status), (n, first)) in kinds {
        eprintln!(
            "{}: {n} of {tenant} failed at router {router} with {status:?}, from {first:?} on",
            fault.name()
        );
    }
}

/// The greedy tenant is refused all the time; the calm one never may be.
fn has_failed(outcome: &Outcome) -> bool {
    match outcome.status {
        Some(200) => false,
        Some(429) => outcome.tenant != WATCHED,
        _ => true,
    }
}

/// What each router says of its waits for the store.
async fn waits(scene: &Scene) -> Vec<Option<(f64, f64)>> {
    let mut waits = Vec::new();
    for router in &scene.routers {
        // Who was stopped answers nobody.
        waits.push(tokio::time::timeout(Duration::from_secs(1), router.waits()).await.ok().flatten());
    }
    waits
}

/// The share of all requests, of which `sent` says how many each router got, that waited for too long in between.
fn waited(
    before: &[Option<(f64, f64)>],
    after: &[Option<(f64, f64)>],
    sent: impl Fn(usize) -> usize,
) -> Option<f64> {
    let (mut slow, mut all) = (0.0, 0);
    let both = before.iter().zip(after).map(|(before, after)| (*before).zip(*after));
    for (router, counts) in both.enumerate() {
        if let Some(((quick_0, all_0), (quick_1, all_1))) = counts {
            slow += (all_1 - all_0) - (quick_1 - quick_0);
            all += sent(router);
        }
    }
    (all > 0).then(|| slow / all as f64)
}

fn sent_to(router: usize, outcomes: &[Outcome], struck: Instant) -> usize {
    outcomes.iter().filter(|outcome| outcome.router == router && outcome.sent >= struck).count()
}

/// How long after the end of the fault the last bin lies that was over the limit, or well below what is usual.
fn exact_after(changes: &[(Instant, usize)], [struck, healed, ended]: [Instant; 3]) -> Option<Duration> {
    let usual = mean(changes, struck - WARM_UP / 2, struck);
    let mut last_inexact = None;
    let mut at = struck;
    while at + BIN <= ended {
        let most = changes.iter().filter(|(when, _)| (at..at + BIN).contains(when)).map(|(_, n)| *n).max();
        let is_exact = most.is_some_and(|most| most <= LIMIT) && mean(changes, at, at + BIN) >= USUAL * usual;
        if !is_exact {
            last_inexact = Some(at + BIN);
        }
        at += BIN;
    }
    match last_inexact {
        None => Some(Duration::ZERO),
        Some(at) if at + 2 * BIN > ended => None,
        Some(at) => Some(at.saturating_duration_since(healed)),
    }
}

/// What was in flight on average over time.
fn mean(changes: &[(Instant, usize)], from: Instant, to: Instant) -> f64 {
    let (mut now, mut since, mut sum) = (0, from, 0.0);
    for (at, n) in changes {
        if *at > to {
            break;
        }
        if *at > from {
            sum += now as f64 * (*at - since).as_secs_f64();
            since = *at;
        }
        now = *n;
    }
    (sum + now as f64 * (to - since).as_secs_f64()) / (to - from).as_secs_f64()
}

impl Row {
    /// Whether what is promised was kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.n_failed == 0 && self.most <= self.fault.bound()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exact =
            self.exact_after.map_or("not seen".to_owned(), |after| format!("{:.2} s", after.as_secs_f64()));
        let waited = self.waited.map_or("not told".to_owned(), |share| format!("{:.3} %", share * 100.0));
        let Self { n_requests, n_failed, most, .. } = self;
        let (fault, bound) = (self.fault.name(), self.fault.bound());
        write!(f, "| {fault} | {n_requests} | {n_failed} | {most} / {bound} | {exact} | {waited} |")
    }
}
