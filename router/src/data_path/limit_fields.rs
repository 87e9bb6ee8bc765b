//! What every answer says of the tenant's limits: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers
//! 10), and the three older fields.

use std::ops::Range;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use cofferdam_limits::{Beside, BucketStanding, Refusal, Standing, Wait, WindowStanding};
use cofferdam_model::{Level, Limited, headers};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::limits::{PlanLimits, RouteLimits};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Whether a field says where a tenant stands, which the router alone knows. Where limits are off, it says nothing of them, and
/// a backend's own fields of these names are all that there are: they pass, in heads and in trailers.
pub(super) fn is_limit_field(name: &HeaderName) -> bool {
    name.as_str().starts_with("ratelimit")
}

/// Which trailers reach no client: those that do not in a head, but for what the request cost, which is read first.
pub(super) fn stays(are_off: bool) -> fn(&HeaderName) -> bool {
    let stays = |name: &HeaderName| headers::stays_at_agent(name) || is_limit_field(name);
    if are_off { headers::stays_at_agent } else { stays }
}

/// Room for the value of nearly every answer, with numbers of ten digits.
const ROOM: usize = 64;

/// Whose limits an answer shows: a plan's, and what a request's route adds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown<'v> {
    pub(super) plan: &'v PlanLimits,
    pub(super) on_route: &'v RouteLimits,
    /// What the request costs the plan.
    pub(super) cost: u32,
}

/// A limit as the fields show it: what is left, and whole seconds until one more is there; for a refusal, until the request
/// would pass.
#[derive(Clone, Copy)]
struct Left {
    limit: u64,
    remaining: u64,
    reset: u64,
}

impl Shown<'_> {
    /// The quotas that a refusal by quota names, by their place in the plan: those that do not cover the request. A store may
    /// know of more that was spent than this router does; then it is the one with least left.
    pub(super) fn exceeded(self, standing: &Standing) -> impl Iterator<Item = usize> {
        let windows = standing.beside.as_ref().map(|beside| beside.windows).unwrap_or_default();
        let left = |window: Option<WindowStanding>| window.map(|window| window.remaining());
        let least = windows.into_iter().filter_map(left).min().unwrap_or(0);
        let most = u64::from(self.cost).saturating_sub(1).max(least);
        let is_short = move |window| left(window).is_some_and(|left| left <= most);
        windows.into_iter().enumerate().filter(move |(_, window)| is_short(*window)).map(|(at, _)| at)
    }

    /// Sets the fields, unless limits are off. `refused` is a refusal by these limits, if there was one.
    pub(super) fn set(self, fields: &mut HeaderMap, standing: &Standing, refused: Option<&Refusal>) {
        if self.plan.is_off {
            return;
        }
        let Some(bucket) = &standing.bucket else {
            fields.insert(POLICY, self.plan.policy.clone());
            return;
        };
        let mut state = State(BytesMut::with_capacity(ROOM));
        let by = |limited| refused.filter(|r| r.limited == limited && r.level != Level::Route);
        let rate = left(bucket, by(Limited::Rate));
        let mut shown = state.add("\"rate", rate);
        if let Some(max) = standing.max_in_flight {
            let refused = by(Limited::Concurrency);
            // The store knows of permits at other routers, and this router does not.
            let free = if refused.is_some() { 0 } else { max.saturating_sub(standing.in_flight) };
            let remaining = state.text(", \"conc\";r=").digits(free.into());
            shown = refused.map(|_| Place { limit: max.into(), remaining, reset: None }).unwrap_or(shown);
        }
        match &standing.beside {
            None => fields.insert(POLICY, self.plan.policy.clone()),
            Some(beside) => {
                shown = self.beside(&mut state, beside, standing, refused).unwrap_or(shown);
                fields.insert(POLICY, self.policy())
            }
        };
        let state = state.0.freeze();
        fields.insert(STATE, value(state.clone()));
        if let Some(limit) = &self.plan.limit {
            let same = shown.limit == rate.limit;
            let limit = if same { limit.clone() } else { HeaderValue::from(shown.limit) };
            fields.insert(LIMIT, limit);
            fields.insert(REMAINING, value(state.slice(shown.remaining)));
            // When a permit comes back nobody knows: a second, as in Retry-After.
            let unknown = HeaderValue::from_static("1");
            fields.insert(RESET, shown.reset.map_or(unknown, |reset| value(state.slice(reset))));
        }
    }

    /// What few plans and routes have. Answers with what the older fields show in place of the rate, since they have room for
    /// one limit alone: the one that refused.
    #[cold]
    fn beside(
        self,
        state: &mut State,
        beside: &Beside,
        standing: &Standing,
        refused: Option<&Refusal>,
    ) -> Option<Place> {
        let mut strictest = None;
        let by_quota = refused.filter(|refusal| refusal.limited == Limited::Quota);
        for (at, (name, window)) in self.plan.quotas.iter().zip(beside.windows.iter().flatten()).enumerate() {
            let refused = by_quota.filter(|_| self.exceeded(standing).any(|exceeded| exceeded == at));
            let remaining = if refused.is_some() { 0 } else { window.remaining() };
            let limit = window.policy.limit();
            let reset = whole_seconds(refused.and_then(told).unwrap_or(window.until_one_more));
            let place = state.text(", \"").add(name, Left { limit, remaining, reset });
            strictest = refused.map(|_| place).or(strictest);
        }
        if let Some(bucket) = &beside.route {
            let refused = refused.filter(|r| r.level == Level::Route && r.limited == Limited::Rate);
            let place = state.add(", \"route", left(bucket, refused));
            strictest = refused.map(|_| place).or(strictest);
        }
        strictest
    }

    fn policy(self) -> HeaderValue {
        let mut policy = BytesMut::from(self.plan.policy.as_bytes());
        policy.put_slice(self.on_route.policy.as_bytes());
        HeaderValue::from_maybe_shared(policy.freeze()).unwrap_or(HeaderValue::from_static(""))
    }
}

/// A limit that refused has nothing left for the request, whatever this router knows of it.
fn left(bucket: &BucketStanding, refused: Option<&Refusal>) -> Left {
    let reset = refused.and_then(told).unwrap_or_else(|| bucket.until_one_more());
    let remaining = if refused.is_some() { 0 } else { bucket.remaining() };
    Left { limit: bucket.policy().capacity(), remaining, reset: whole_seconds(reset) }
}

fn told(refusal: &Refusal) -> Option<Duration> {
    match refusal.wait {
        Wait::Until(wait) => Some(wait),
        Wait::Unknown | Wait::Never => None,
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// The value of RateLimit as it is written. The older fields are slices of it.
struct State(BytesMut);

/// Where the numbers of a limit stand in the value.
struct Place {
    limit: u64,
    remaining: Range<usize>,
    /// Missing where nobody knows the time.
    reset: Option<Range<usize>>,
}

impl State {
    /// Adds a limit; `text` is what stands before it and its name.
    fn add(&mut self, text: &str, left: Left) -> Place {
        let remaining = self.text(text).text("\";r=").digits(left.remaining);
        let reset = self.text(";t=").digits(left.reset);
        Place { limit: left.limit, remaining, reset: Some(reset) }
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.put_slice(text.as_bytes());
        self
    }

    /// Adds a number; where it stands.
    fn digits(&mut self, number: u64) -> Range<usize> {
        let start = self.0.len();
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
        start..self.0.len()
    }
}

/// Digits and the words above are visible ASCII, and so always a value.
fn value(text: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_draft_says_and_found_again() {
        let mut state = State(BytesMut::with_capacity(ROOM));
        let rate = state.add("\"rate", Left { limit: 100, remaining: 99, reset: 1 });
        state.text(", \"conc\";r=").digits(10);
        let quota =
            state.text(", \"").add("quota-1d", Left { limit: u64::MAX, remaining: u64::MAX, reset: 0 });
        let text = std::str::from_utf8(&state.0).unwrap();
        let most = u64::MAX;
        assert_eq!(text, format!("\"rate\";r=99;t=1, \"conc\";r=10, \"quota-1d\";r={most};t=0"));
        assert_eq!((&text[rate.remaining], &text[rate.reset.unwrap()]), ("99", "1"));
        assert_eq!((&text[quota.remaining], &text[quota.reset.unwrap()]), (most.to_string().as_str(), "0"));
    }
}
