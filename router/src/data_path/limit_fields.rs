//! What every answer says of the tenant's limits: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers
//! 10), and the three older fields.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
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

/// Room for the values that are written for one answer, with numbers of ten digits.
const ROOM: usize = 80;

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
    /// The quotas that do not cover the request, by their place in the plan.
    pub(super) fn exceeded(self, standing: &Standing) -> impl Iterator<Item = usize> {
        let windows = standing.beside.as_ref().map(|beside| beside.windows).unwrap_or_default();
        let short = move |window: Option<WindowStanding>| {
            window.is_some_and(|window| window.remaining() < u64::from(self.cost))
        };
        windows.into_iter().enumerate().filter(move |(_, window)| short(*window)).map(|(at, _)| at)
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
        let mut numbers = Numbers(BytesMut::with_capacity(ROOM));
        let by = |refusal: &&Refusal| refusal.limited == Limited::Rate && refusal.level != Level::Route;
        let rate = left(bucket, refused.filter(by));
        let free = standing.max_in_flight.map(|max| max.saturating_sub(standing.in_flight));
        numbers.state(rate, free);
        let mut strictest = rate;
        match &standing.beside {
            None => fields.insert(POLICY, self.plan.policy.clone()),
            Some(beside) => {
                strictest = self.beside(&mut numbers, rate, beside, standing, refused);
                fields.insert(POLICY, self.policy())
            }
        };
        fields.insert(STATE, numbers.value());
        if let Some(limit) = &self.plan.limit {
            let same = strictest.limit == rate.limit;
            let limit = if same { limit.clone() } else { HeaderValue::from(strictest.limit) };
            fields.insert(LIMIT, limit);
            fields.insert(REMAINING, numbers.number(strictest.remaining));
            fields.insert(RESET, numbers.number(strictest.reset));
        }
    }

    /// What few plans and routes have. Answers with what the older fields show, which have room for one limit alone: the one
    /// that refused, or the rate.
    #[cold]
    fn beside(
        self,
        numbers: &mut Numbers,
        rate: Left,
        beside: &Beside,
        standing: &Standing,
        refused: Option<&Refusal>,
    ) -> Left {
        let mut strictest = rate;
        let by_quota = refused.filter(|refusal| refusal.limited == Limited::Quota);
        for (at, (name, window)) in self.plan.quotas.iter().zip(beside.windows.iter().flatten()).enumerate() {
            let refused = by_quota.filter(|_| self.exceeded(standing).any(|exceeded| exceeded == at));
            let (limit, remaining) = (window.policy.limit(), window.remaining());
            let reset = whole_seconds(refused.and_then(told).unwrap_or(window.until_one_more));
            numbers.text(", \"").text(name).text("\";r=").digits(remaining).text(";t=").digits(reset);
            if refused.is_some() {
                strictest = Left { limit, remaining, reset };
            }
        }
        if let Some(bucket) = &beside.route {
            let refused = refused.filter(|r| r.level == Level::Route && r.limited == Limited::Rate);
            let route = left(bucket, refused);
            numbers.text(", \"route\";r=").digits(route.remaining).text(";t=").digits(route.reset);
            if refused.is_some() {
                strictest = route;
            }
        }
        strictest
    }

    fn policy(self) -> HeaderValue {
        let mut policy = BytesMut::from(self.plan.policy.as_bytes());
        policy.put_slice(self.on_route.policy.as_bytes());
        HeaderValue::from_maybe_shared(policy.freeze()).unwrap_or(HeaderValue::from_static(""))
    }
}

fn left(bucket: &BucketStanding, refused: Option<&Refusal>) -> Left {
    let reset = refused.and_then(told).unwrap_or_else(|| bucket.until_one_more());
    Left { limit: bucket.policy().capacity(), remaining: bucket.remaining(), reset: whole_seconds(reset) }
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

/// Values that are written one after the other into one buffer, which all of them share.
struct Numbers(BytesMut);

impl Numbers {
    /// Begins the value of RateLimit.
    fn state(&mut self, rate: Left, free: Option<u32>) {
        self.text("\"rate\";r=").digits(rate.remaining).text(";t=").digits(rate.reset);
        if let Some(free) = free {
            self.text(", \"conc\";r=").digits(free.into());
        }
    }

    fn number(&mut self, number: u64) -> HeaderValue {
        self.digits(number).value()
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.0.put_slice(text.as_bytes());
        self
    }

    fn digits(&mut self, number: u64) -> &mut Self {
        self.0.put_slice(itoa::Buffer::new().format(number).as_bytes());
        self
    }

    /// What was written since the last value.
    fn value(&mut self) -> HeaderValue {
        // Digits and the words above are visible ASCII, and so always a value.
        HeaderValue::from_maybe_shared(self.0.split().freeze()).unwrap_or(HeaderValue::from_static(""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_the_draft_says() {
        let mut numbers = Numbers(BytesMut::with_capacity(ROOM));
        let mut state = |remaining, reset, free| {
            numbers.state(Left { limit: 0, remaining, reset }, free);
            numbers.value()
        };
        assert_eq!(state(99, 1, Some(10)), "\"rate\";r=99;t=1, \"conc\";r=10");
        assert_eq!(state(u64::MAX, 0, None), format!("\"rate\";r={};t=0", u64::MAX));
        assert_eq!(numbers.number(0), "0");
    }
}
