//! The names of the headers that routers, agents and backends say to each other.
//!
//! Everything that starts with [`PREFIX`] is internal: a client's own never survives the router.

use http::HeaderName;

/// What every internal header starts with.
pub const PREFIX: &str = "cofferdam-";

/// The tenant whose request this is; agents pass it to the backend.
pub const TENANT: HeaderName = HeaderName::from_static("cofferdam-tenant");
/// The request's class, as the router classified it.
pub const CLASS: HeaderName = HeaderName::from_static("cofferdam-class");
/// Which attempt this is, from 1.
pub const ATTEMPT: HeaderName = HeaderName::from_static("cofferdam-attempt");
/// Where else the request may go: `last` or `shed`; missing where another cell may still have it.
pub const RESORT: HeaderName = HeaderName::from_static("cofferdam-resort");
/// Milliseconds until the caller's deadline.
pub const REMAINING_MS: HeaderName = HeaderName::from_static("cofferdam-remaining-ms");
/// The revision of the router's fleet file.
pub const REVISION: HeaderName = HeaderName::from_static("cofferdam-revision");
/// The digest of the router's placement table, 16 hexadecimal digits.
pub const DIGEST: HeaderName = HeaderName::from_static("cofferdam-digest");
/// On a router's answer, where the fleet file has it told: the revision and the tenant's cells, home first. A dictionary of structured
/// fields (RFC 9651), such as `revision=42, cells=("cell-a" "cell-b")`. The cells have the parameter `waits` where they are those
/// before that revision, until the tenant's slot is released.
pub const PLACEMENT: HeaderName = HeaderName::from_static("cofferdam-placement");
/// On an agent's refusal: its reason, `tenant`, `class` or `cell`.
pub const REFUSED: HeaderName = HeaderName::from_static("cofferdam-refused");
/// Beside [`REFUSED`]: what made the agent refuse, such as `backend_unreachable`. Missing where no permit was free.
pub const CAUSE: HeaderName = HeaderName::from_static("cofferdam-cause");
/// On an agent's 502: `lost` where its backend may have worked on a request whose answer never came, and `stale` where that
/// was on a connection that had been kept and a new one stands.
pub const FAULT: HeaderName = HeaderName::from_static("cofferdam-fault");
/// On an agent's answer that a drill struck: what it did, `latency`, `status` or `hang`.
pub const DRILL: HeaderName = HeaderName::from_static("cofferdam-drill");
/// On every answer of an agent that drains: milliseconds until it cuts what is left.
pub const LEAVING_MS: HeaderName = HeaderName::from_static("cofferdam-leaving-ms");
/// On a backend's answer: what the request really cost, in tokens. An agent lets it pass; a router takes it on routes that
/// settle, and never lets it reach a client.
pub const COST: HeaderName = HeaderName::from_static("cofferdam-cost");
/// ORCA's load report, on every answer of an agent.
pub const LOAD: HeaderName = HeaderName::from_static(LOAD_NAME);

const LOAD_NAME: &str = "endpoint-load-metrics";

/// Whether a field is internal, and so never crosses the router in either direction. Nor does one that reads so: servers that make
/// variables of names, by CGI, WSGI or PHP, take `_`, and some take any other character, for `-`.
pub fn is_internal(name: &HeaderName) -> bool {
    let begins = name.as_str().get(..PREFIX.len()).unwrap_or_default();
    text_reads_as(begins, PREFIX) || reads_as(name, LOAD_NAME)
}

/// Whether a name reads as `other` to such a server. `other` is in lower case, and has no other character than letters and `-`.
pub fn reads_as(name: &HeaderName, other: &str) -> bool {
    text_reads_as(name.as_str(), other)
}

fn text_reads_as(name: &str, other: &str) -> bool {
    let same = |(byte, other): (u8, u8)| byte == other || other == b'-' && !byte.is_ascii_alphanumeric();
    name.len() == other.len() && name.bytes().zip(other.bytes()).all(same)
}

/// Whether a field of a backend's answer goes no further than its agent: everything internal but what the request cost.
pub fn stays_at_agent(name: &HeaderName) -> bool {
    is_internal(name) && *name != COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_as_internal_is_internal() {
        for name in [
            "cofferdam-tenant",
            "cofferdam_tenant",
            "cofferdam.x",
            "cofferdam-",
            "cofferdam!",
            "endpoint-load-metrics",
            "endpoint_load-metrics",
        ] {
            assert!(is_internal(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["cofferdam", "cofferdamx", "x-cofferdam-tenant", "endpoint-load-metric", "endpoint"] {
            assert!(!is_internal(&HeaderName::from_static(name)), "{name}");
        }
        assert!(!stays_at_agent(&COST) && stays_at_agent(&HeaderName::from_static("cofferdam_cost")));
    }
}
