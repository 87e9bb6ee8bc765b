//! The exact limiter: what it would have said of each request, at the time at which it was sent and until it was answered,
//! after all that was admitted before. It knows no router.

use std::time::{Duration, Instant};

/// What became of one request.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) router: usize,
    pub(crate) sent: Instant,
    /// When its whole answer was there.
    pub(crate) answered: Instant,
    pub(crate) said: Said,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Admitted,
    /// A limit refused it.
    Refused,
    /// Anything else.
    Failed(String),
}

/// What requests are held to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Limit {
    Permits(usize),
    Tokens { burst: f64, rate: f64 },
}

/// How long after an answer its permit may still be in use: the client can see the end of the answer first.
const RELEASE: Duration = Duration::from_millis(10);

impl Limit {
    /// The refusals of requests for which there was room all the time that they waited.
    pub(crate) fn false_refusals(self, outcomes: &[Outcome]) -> impl Iterator<Item = &Outcome> {
        let admitted: Vec<_> = outcomes.iter().filter(|outcome| outcome.said == Said::Admitted).collect();
        let refused = outcomes.iter().filter(|outcome| outcome.said == Said::Refused);
        refused.filter(move |refused| match self {
            Self::Permits(limit) => most_in_flight(&admitted, refused) < limit,
            // A charge that comes early or late is in neither case less than what the router saw.
            Self::Tokens { burst, rate } => [true, false]
                .into_iter()
                .all(|at_sending| lowest(&admitted, refused, (burst, rate), at_sending) >= 1.0),
        })
    }

    /// Tokens that were admitted above what any window may have, by the times that are in the routers' favour.
    pub(crate) fn tokens_above(self, outcomes: &[Outcome]) -> usize {
        let Self::Tokens { burst, rate } = self else { return 0 };
        let mut admitted: Vec<_> = outcomes.iter().filter(|outcome| outcome.said == Said::Admitted).collect();
        admitted.sort_by_key(|outcome| outcome.sent);
        let mut above = 0.0_f64;
        for (from, first) in admitted.iter().enumerate() {
            for (to, last) in admitted.iter().enumerate().skip(from) {
                let window = last.answered.saturating_duration_since(first.sent).as_secs_f64();
                above = above.max((to - from + 1) as f64 - burst - rate * window);
            }
        }
        // Part of a token is a question of rounding.
        above.floor() as usize
    }
}

/// The most that were in flight at any moment while `refused` was.
fn most_in_flight(admitted: &[&Outcome], refused: &Outcome) -> usize {
    let overlapping = |at: Instant| {
        admitted.iter().filter(|other| other.sent <= at && at <= other.answered + RELEASE).count()
    };
    let begins = admitted.iter().map(|other| other.sent);
    let within = begins.filter(|at| (refused.sent..=refused.answered).contains(at));
    within.chain([refused.sent]).map(overlapping).max().unwrap_or_default()
}

/// The lowest level of the bucket while `refused` was on its way, where each admission is charged when it was sent, or when
/// it was answered.
fn lowest(admitted: &[&Outcome], refused: &Outcome, (burst, rate): (f64, f64), at_sending: bool) -> f64 {
    let mut charges: Vec<_> =
        admitted.iter().map(|other| if at_sending { other.sent } else { other.answered }).collect();
    charges.sort();
    let (mut level, mut since, mut lowest) = (burst, None, f64::INFINITY);
    for at in charges.into_iter().take_while(|at| *at <= refused.answered) {
        if at >= refused.sent && lowest.is_infinite() {
            lowest = filled(level, since, refused.sent, (burst, rate));
        }
        level = filled(level, since, at, (burst, rate)) - 1.0;
        since = Some(at);
        if at >= refused.sent {
            lowest = lowest.min(level);
        }
    }
    if lowest.is_infinite() { filled(level, since, refused.sent, (burst, rate)) } else { lowest }
}

fn filled(level: f64, since: Option<Instant>, at: Instant, (burst, rate): (f64, f64)) -> f64 {
    since.map_or(level, |since| (level + rate * at.saturating_duration_since(since).as_secs_f64()).min(burst))
}
