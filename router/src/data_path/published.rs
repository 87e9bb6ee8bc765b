//! A tenant's own limits, published to it: `GET /.well-known/cofferdam/limits`. It is answered here, costs nothing and counts
//! nothing. A tenant that is named by its path asks behind that.

use bytes::Bytes;
use cofferdam_fleet::{Bucket, Route, SourceKind, normal_path};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response};
use serde_json::{Map, Value, json};

use super::identify::Identified;
use super::view::View;
use crate::snapshot::Snapshot;

const PATH: &str = "/.well-known/cofferdam/limits";

/// Whether the tenant asks for its limits.
pub(super) fn is_asked(head: &Parts, identified: &Identified<'_>, snapshot: &Snapshot) -> bool {
    // Nearly every path ends here.
    if !head.uri.path().ends_with("/limits") || !matches!(head.method, Method::GET | Method::HEAD) {
        return false;
    }
    let path = normal_path(head.uri.path());
    let Some(before) = path.strip_suffix(PATH) else { return false };
    let names_tenant = |kind: &SourceKind| match kind {
        SourceKind::Path(pattern) => {
            before.strip_prefix(&*pattern.prefix) == Some(identified.tenant.as_str())
        }
        SourceKind::Header { .. } | SourceKind::Host(_) => false,
    };
    before.is_empty() || snapshot.fleet.tenant.sources.iter().any(|source| names_tenant(&source.kind))
}

/// The limits of the tenant's plan, or what an operator has put in their place, and what routes cost and add.
pub(super) fn answer(identified: &Identified<'_>, view: &View) -> Response<Bytes> {
    let fleet = &view.snapshot.fleet;
    let mut limits = Map::new();
    limits.insert("tenant".to_owned(), identified.tenant.as_str().into());
    let of_plan = || fleet.tenant.plan_for(&identified.tenant).and_then(|plan| fleet.plans.get(plan.get()));
    let overridden = view.overridden.get(&identified.tenant).map(|overridden| &overridden.plan);
    let plan = overridden.or_else(of_plan).filter(|_| !identified.plan.is_off);
    if let Some(plan) = plan {
        limits.insert("plan".to_owned(), plan.name.as_str().into());
        limits.extend(bucket(&plan.bucket));
        limits.insert("max_in_flight".to_owned(), plan.max_in_flight.into());
        let quota =
            |quota: &cofferdam_fleet::Quota| json!({"window_s": quota.window_s, "tokens": quota.limit});
        limits.insert("quotas".to_owned(), plan.quotas.iter().map(quota).collect());
    }
    let routes = fleet.routes.as_slice().iter().map(|it| route(it, identified.plan.is_off));
    limits.insert("routes".to_owned(), routes.collect());
    let mut response = Response::new(Bytes::from(Value::Object(limits).to_string()));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Limits change with the fleet file and by operators, and are nobody else's.
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn route(route: &Route, is_off: bool) -> Value {
    let mut matched = Map::new();
    matched.insert("path".to_owned(), (&*route.path).into());
    if let Some(method) = &route.method {
        matched.insert("method".to_owned(), method.as_str().into());
    }
    if !route.query.is_empty() {
        let pairs = route.query.iter().map(|(name, value)| (name.to_string(), Value::from(&**value)));
        matched.insert("query".to_owned(), Value::Object(pairs.collect()));
    }
    let mut shown = Map::new();
    shown.insert("match".to_owned(), Value::Object(matched));
    shown.insert("cost".to_owned(), route.cost.into());
    if let Some(limit) = route.limit.as_ref().filter(|_| !is_off) {
        shown.insert("limit".to_owned(), Value::Object(bucket(limit)));
    }
    Value::Object(shown)
}

fn bucket(bucket: &Bucket) -> Map<String, Value> {
    let words = [("sustained", bucket.sustained.to_string().into()), ("burst", bucket.burst.into())];
    words.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
