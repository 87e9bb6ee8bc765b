//! What every answer says of the tenant's limits: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers
//! 10), and the three older fields.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use cofferdam_limits::Standing;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::snapshot::PlanLimits;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Room for the values that are written for one answer, with numbers of ten digits.
const ROOM: usize = 80;

/// Sets the fields. `refused` is how long a refused request has to wait; else the time is that until one more unit
/// is there.
pub(super) fn set(fields: &mut HeaderMap, plan: &PlanLimits, standing: &Standing, refused: Option<Duration>) {
    fields.insert(POLICY, plan.policy.clone());
    let Some(bucket) = &standing.bucket else { return };
    let remaining = bucket.remaining();
    let reset = refused.unwrap_or_else(|| bucket.until_one_more());
    let reset = reset.as_millis().div_ceil(1000) as u64;
    let free = standing.max_in_flight.map(|max| max.saturating_sub(standing.in_flight));
    let mut numbers = Numbers(BytesMut::with_capacity(ROOM));
    fields.insert(STATE, numbers.state(remaining, reset, free));
    fields.insert(LIMIT, plan.limit.clone());
    fields.insert(REMAINING, numbers.number(remaining));
    fields.insert(RESET, numbers.number(reset));
}

/// Values that are written one after the other into one buffer, which all of them share.
struct Numbers(BytesMut);

impl Numbers {
    fn state(&mut self, remaining: u64, reset: u64, free: Option<u32>) -> HeaderValue {
        self.text("\"rate\";r=").digits(remaining).text(";t=").digits(reset);
        if let Some(free) = free {
            self.text(", \"conc\";r=").digits(free.into());
        }
        self.value()
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
        assert_eq!(numbers.state(99, 1, Some(10)), "\"rate\";r=99;t=1, \"conc\";r=10");
        assert_eq!(numbers.state(u64::MAX, 0, None), format!("\"rate\";r={};t=0", u64::MAX));
        assert_eq!(numbers.number(0), "0");
    }
}
