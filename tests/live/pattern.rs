//! The patterns of arrival: which router each request of each lane goes to, and when. A lane sends one request after the other.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::kind::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    OneThenOther,
    Alternating,
    Random,
    SixtyForty,
    NinetyFive,
    Bursts,
    OneHot,
    LongBesideShort,
    Churn,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    /// A router's number. Where routers come and go it is one of those that are there.
    pub(crate) router: usize,
    /// Before it is sent.
    pub(crate) pause: Duration,
    /// How long the backend holds it.
    pub(crate) hold: Duration,
}

const SEED: u64 = 13;
/// Requests of a row whose limit is a bucket: the burst, and what an exact limiter refuses.
const N_TOKENS: usize = 130;
/// Requests of a lane whose limit is one of permits.
const N_OF_LANE: usize = 6;
const HOLD: Duration = Duration::from_millis(100);
const LONG: Duration = Duration::from_secs(3);
const N_LONG: usize = 80;

impl Pattern {
    pub(crate) const ALL: [Self; 9] = [
        Self::OneThenOther,
        Self::Alternating,
        Self::Random,
        Self::SixtyForty,
        Self::NinetyFive,
        Self::Bursts,
        Self::OneHot,
        Self::LongBesideShort,
        Self::Churn,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneThenOther => "at one, then at the others",
            Self::Alternating => "alternating",
            Self::Random => "random",
            Self::SixtyForty => "random, 60/40",
            Self::NinetyFive => "random, 95/5",
            Self::Bursts => "bursts",
            Self::OneHot => "one hot router",
            Self::LongBesideShort => "80 long at one, short ones at the others",
            Self::Churn => "routers come and go",
        }
    }

    /// Whether it says something of permits alone.
    pub(crate) fn is_of_permits(self) -> bool {
        self == Self::LongBesideShort
    }

    /// Every lane's requests.
    pub(crate) fn lanes(self, kind: Kind, n_routers: usize) -> Vec<Vec<Step>> {
        let mut random = StdRng::seed_from_u64(SEED);
        match (self, kind.is_permits()) {
            (Self::LongBesideShort, _) => long_beside_short(kind, n_routers),
            (Self::OneThenOther, true) => one_then_other(n_routers),
            (Self::OneHot, _) => one_hot(kind, n_routers),
            (Self::Bursts, false) => vec![bursts(&mut random, n_routers)],
            (Self::Bursts, true) => many(kind, Duration::from_millis(150), |_, nth| nth % n_routers),
            (Self::Churn, is_permits) => churn(kind, is_permits, &mut random),
            (_, false) => vec![(0..N_TOKENS).map(|nth| self.short(&mut random, nth, n_routers)).collect()],
            (_, true) => {
                many(kind, Duration::ZERO, |lane, nth| self.router(&mut random, lane + nth, n_routers))
            }
        }
    }

    fn short(self, random: &mut StdRng, nth: usize, n_routers: usize) -> Step {
        Step { router: self.router(random, nth, n_routers), pause: Duration::ZERO, hold: Duration::ZERO }
    }

    fn router(self, random: &mut StdRng, nth: usize, n_routers: usize) -> usize {
        let first_in_100 = |random: &mut StdRng, part: u32| {
            if random.random_range(0..100) < part { 0 } else { random.random_range(1..n_routers) }
        };
        match self {
            Self::OneThenOther if nth < 60 => 0,
            Self::OneThenOther => 1 + nth % (n_routers - 1),
            Self::Alternating => nth % n_routers,
            Self::SixtyForty => first_in_100(random, 60),
            Self::NinetyFive => first_in_100(random, 95),
            _ => random.random_range(0..n_routers),
        }
    }
}

/// Lanes of requests that are held for a while each.
fn many(kind: Kind, pause: Duration, mut router: impl FnMut(usize, usize) -> usize) -> Vec<Vec<Step>> {
    let lane =
        |lane| (0..N_OF_LANE).map(|nth| Step { router: router(lane, nth), pause, hold: HOLD }).collect();
    (0..kind.n_lanes()).map(lane).collect()
}

/// Twelve one after the other at the first, and then one at each of the others, ten times.
fn one_then_other(n_routers: usize) -> Vec<Vec<Step>> {
    let step = |router| Step { router, pause: Duration::ZERO, hold: Duration::ZERO };
    let round = (0..12).map(|_| 0).chain(1..n_routers);
    vec![(0..10).flat_map(|_| round.clone()).map(step).collect()]
}

/// Thirteen at a time at a random router, one after the other, with pauses.
fn bursts(random: &mut StdRng, n_routers: usize) -> Vec<Step> {
    let mut steps = Vec::new();
    for _ in 0..N_TOKENS / 13 {
        let router = random.random_range(0..n_routers);
        for nth in 0..13 {
            let pause = Duration::from_millis(if nth == 0 { 100 } else { 0 });
            steps.push(Step { router, pause, hold: Duration::ZERO });
        }
    }
    steps
}

/// All lanes but one for each other router are the first one's.
fn one_hot(kind: Kind, n_routers: usize) -> Vec<Vec<Step>> {
    let (n, hold) = if kind.is_permits() { (N_OF_LANE, HOLD) } else { (90, Duration::ZERO) };
    let hot = Step { router: 0, pause: Duration::ZERO, hold };
    let n_others = n_routers - 1;
    let hot = vec![vec![hot; n]; (kind.n_lanes().saturating_sub(n_others)).max(1)];
    let calm = (1..n_routers).map(|router| {
        let step = Step { router, pause: Duration::from_millis(60), hold: Duration::ZERO };
        vec![step; 9]
    });
    hot.into_iter().chain(calm).collect()
}

/// Steady for as long as a router takes to come and another one to leave: of tokens a little more than flow in.
fn churn(kind: Kind, is_permits: bool, random: &mut StdRng) -> Vec<Vec<Step>> {
    let (n, pause, hold) = if is_permits { (14, 0, 300) } else { (N_TOKENS, 40, 0) };
    let (pause, hold) = (Duration::from_millis(pause), Duration::from_millis(hold));
    // Any number: how many routers there are changes meanwhile.
    let mut step = || Step { router: random.random_range(0..1000), pause, hold };
    (0..kind.n_lanes()).map(|_| (0..n).map(|_| step()).collect()).collect()
}

/// Eighty long requests at the first, and meanwhile short ones at the others; of the tenant that has half, forty.
fn long_beside_short(kind: Kind, n_routers: usize) -> Vec<Vec<Step>> {
    let n_long = if kind == Kind::HalfPermits { N_LONG / 2 } else { N_LONG };
    let long = Step { router: 0, pause: Duration::ZERO, hold: LONG };
    let short = (1..n_routers).map(|router| {
        let first = Step { router, pause: Duration::from_millis(1000), hold: Duration::ZERO };
        let later = Step { pause: Duration::from_millis(100), ..first };
        [vec![first], vec![later; 15]].concat()
    });
    vec![vec![long]; n_long].into_iter().chain(short).collect()
}
