//! What every answer says of the tenant's limits: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers
//! 10), and the three older fields.

use std::time::Duration;

use cofferdam_limits::Standing;
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::snapshot::PlanLimits;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// Sets the fields. `refused` is how long a refused request has to wait; else the time is that until one more unit
/// is there.
pub(super) fn set(fields: &mut HeaderMap, plan: &PlanLimits, standing: &Standing, refused: Option<Duration>) {
    fields.insert(POLICY, plan.policy.clone());
    let Some(bucket) = &standing.bucket else { return };
    let remaining = bucket.remaining();
    let reset = refused.unwrap_or_else(|| bucket.until_one_more());
    let reset = reset.as_millis().div_ceil(1000) as u64;
    let free = standing.max_in_flight.map(|max| max.saturating_sub(standing.in_flight));
    let state = match free {
        Some(free) => format!("\"rate\";r={remaining};t={reset}, \"conc\";r={free}"),
        None => format!("\"rate\";r={remaining};t={reset}"),
    };
    if let Ok(state) = HeaderValue::try_from(state) {
        fields.insert(STATE, state);
    }
    fields.insert(LIMIT, plan.limit.clone());
    fields.insert(REMAINING, HeaderValue::from(remaining));
    fields.insert(RESET, HeaderValue::from(reset));
}
