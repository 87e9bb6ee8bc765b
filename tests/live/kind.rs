//! The kinds of limits: what the fleet file says of each, how much is sent, and what an exact limiter holds it to.

use std::time::Duration;

use crate::exact::Limit;
use crate::pattern::Pattern;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A tenant's bucket.
    Tokens,
    /// A tenant's bucket on one route.
    Route,
    /// The ceiling's bucket, which three tenants share.
    CeilingTokens,
    /// A tenant's permits, of which at most half are in flight.
    HalfPermits,
    /// A tenant's permits, of which nine tenths are in flight.
    Permits,
    /// The same, of which more are wanted than there are.
    TooManyPermits,
    /// The ceiling's permits, nine tenths of them in flight, for three tenants.
    CeilingPermits,
}

/// Requests of a tenant in flight at once, and of all of them under the ceiling.
const PERMITS: usize = 100;
const BURST: u32 = 100;
/// In a second.
const RATE: f64 = 20.0;

impl Kind {
    pub(crate) const ALL: [Self; 7] = [
        Self::Tokens,
        Self::Route,
        Self::CeilingTokens,
        Self::HalfPermits,
        Self::Permits,
        Self::TooManyPermits,
        Self::CeilingPermits,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Route => "route's tokens",
            Self::CeilingTokens => "ceiling's tokens",
            Self::HalfPermits => "permits, half in flight",
            Self::Permits => "permits, nine tenths",
            Self::TooManyPermits => "permits, too many wanted",
            Self::CeilingPermits => "ceiling's permits, nine tenths",
        }
    }

    pub(crate) fn is_permits(self) -> bool {
        matches!(self, Self::HalfPermits | Self::Permits | Self::TooManyPermits | Self::CeilingPermits)
    }

    pub(crate) fn patterns(self) -> Vec<Pattern> {
        Pattern::ALL.into_iter().filter(|pattern| self.is_permits() || !pattern.is_of_permits()).collect()
    }

    /// Requests at once at most, one in each lane.
    pub(crate) fn n_lanes(self) -> usize {
        match self {
            Self::Tokens | Self::Route | Self::CeilingTokens => 1,
            Self::HalfPermits => PERMITS / 2,
            Self::Permits | Self::CeilingPermits => PERMITS * 9 / 10,
            Self::TooManyPermits => PERMITS * 13 / 10,
        }
    }

    /// Tenants that take turns.
    pub(crate) fn n_tenants(self) -> usize {
        if self.is_ceiling() { 3 } else { 1 }
    }

    pub(crate) fn is_ceiling(self) -> bool {
        matches!(self, Self::CeilingTokens | Self::CeilingPermits)
    }

    /// What an exact limiter holds all requests of a row to.
    pub(crate) fn limit(self) -> Limit {
        if self.is_permits() {
            Limit::Permits(PERMITS)
        } else {
            Limit::Tokens { burst: BURST.into(), rate: RATE }
        }
    }

    /// False refusals that are let pass among so many admissions.
    pub(crate) fn tolerated(self, n_admitted: usize) -> usize {
        if self == Self::HalfPermits { 0 } else { n_admitted / 1000 }
    }

    /// Between two rows: until what all of them share is full again.
    pub(crate) fn rest(self) -> Duration {
        match self {
            Self::CeilingTokens => Duration::from_secs_f64(f64::from(BURST) / RATE + 0.5),
            _ => Duration::from_millis(100),
        }
    }

    /// Sections of the fleet file.
    pub(crate) fn rest_of_file(self) -> String {
        let wide = "sustained: 100k/s, burst: 100k, max_in_flight: 10k";
        let paced = format!("sustained: {RATE}/s, burst: {BURST}");
        let at_once = format!("max_in_flight: {PERMITS}");
        let (plan, beside) = match self {
            Self::Tokens => (format!("{paced}, max_in_flight: 200"), String::new()),
            Self::Route => {
                (wide.to_owned(), format!("routes: [{{ match: {{ path: / }}, limit: {{ {paced} }} }}]\n"))
            }
            Self::CeilingTokens => (wide.to_owned(), format!("ceiling: {{ {paced} }}\n")),
            Self::CeilingPermits => (wide.to_owned(), format!("ceiling: {{ {at_once} }}\n")),
            _ => (format!("sustained: 100k/s, burst: 100k, {at_once}"), String::new()),
        };
        format!(
            "plans: {{ all: {{ {plan} }} }}\ntenant: {{ unknown: all }}\n{beside}\
             cell: {{ max_in_flight: 400, tenant_share: 1, classes: {{ default: {{ ceiling: 400, queue: 0 }} }} }}\n"
        )
    }
}
