//! The fields that say where a request came from.

use http::header::HeaderName;

use crate::names::{begins_as, reads_as};

pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
pub(super) const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
pub(super) const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
pub(super) const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(super) const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// More fields that say of the client what only an earlier hop can know.
const OTHERS: [&str; 6] = [
    "x-client-ip",
    "x-cluster-client-ip",
    "x-original-forwarded-for",
    "x-url-scheme",
    "true-client-ip",
    "front-end-https",
];

/// Whether a field says where a request came from, or reads so.
pub(crate) fn is_forwarding(name: &HeaderName) -> bool {
    let name = name.as_str();
    let is = |other| reads_as(name, other);
    is("forwarded")
        || is("x-forwarded")
        || is("x-real-ip")
        || begins_as(name, "x-forwarded-")
        || OTHERS.into_iter().any(is)
}

/// Whether a field is one that this hop says anew, in a line: then what the map has of it stays here.
pub fn is_said_anew(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "via"
            | "forwarded"
            | "x-forwarded-for"
            | "x-forwarded-host"
            | "x-forwarded-port"
            | "x-forwarded-proto"
            | "x-real-ip"
    )
}
