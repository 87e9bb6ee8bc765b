//! Whose request is it? The first source that is present decides; nothing falls back to a default tenant.

use std::borrow::Cow;
use std::net::IpAddr;

use cofferdam_fleet::{Route, Source, SourceKind, has_ambiguous_dots, normal_path};
use cofferdam_limits::{Demand, Levels};
use cofferdam_model::{CellIndex, TenantId};
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName};

use super::limit_fields::Shown;
use super::reject::{Reason, Rejection};
use super::view::View;
use crate::limits::{PlanLimits, RouteLimits};
use crate::snapshot::Snapshot;

/// A request whose tenant is known: what admission demands.
#[derive(Debug)]
pub(super) struct Identified<'v> {
    pub(super) tenant: TenantId,
    pub(super) plan: &'v PlanLimits,
    pub(super) route: &'v Route,
    pub(super) on_route: &'v RouteLimits,
    /// The draining cell that the request says it belongs to.
    pub(super) marked: Option<CellIndex>,
}

impl<'v> Identified<'v> {
    /// Whose limits the answer shows.
    pub(super) fn shown(&self) -> Shown<'v> {
        Shown { plan: self.plan, on_route: self.on_route, cost: self.route.cost }
    }

    /// What is asked of the limits, told to `ask`. The levels of a route with a limit of its own are put together here.
    pub(super) fn demand<R>(&self, ask: impl FnOnce(&Demand<'_>) -> R) -> R {
        let Self { tenant, plan, route, on_route, .. } = self;
        let demand = |levels: &Levels| {
            ask(&Demand {
                tenant,
                route: on_route.key,
                cost: route.cost,
                levels,
                on_store_failure: route.on_store_failure.unwrap_or(plan.on_store_failure),
            })
        };
        match plan.levels_on(on_route) {
            Some(levels) => demand(&levels),
            None => demand(&plan.levels),
        }
    }
}

/// Finds the tenant, its plan, and the route.
pub(super) fn identify<'v>(view: &'v View, peer: IpAddr, head: &Parts) -> Result<Identified<'v>, Rejection> {
    let snapshot = &*view.snapshot;
    let fleet = &snapshot.fleet;
    if has_ambiguous_dots(head.uri.path()) {
        return Err(Rejection::new(Reason::BadRequest, "a path segment of dots has parameters"));
    }
    // One path for both: a backend that resolves `/t/acme/../globex` must not serve what acme was admitted for.
    let path = normal_path(head.uri.path());
    let tenant = tenant(&fleet.tenant.sources, snapshot, peer, head, &path)?;
    let Some(plan) = fleet.tenant.plan_for(&tenant) else {
        return Err(Rejection::new(Reason::UnknownTenant, format!("tenant {tenant} is not in this fleet")));
    };
    let at = fleet.routes.classify(&head.method, &path, head.uri.query()).get();
    let (route, on_route) = (&fleet.routes.as_slice()[at], &snapshot.routes[at]);
    let plan = match view.overridden.get(&tenant) {
        Some(overridden) => &overridden.limits,
        None => &snapshot.plans[plan.get()],
    };
    let marked = snapshot.drains.as_ref().and_then(|drains| drains.marked(&head.headers));
    Ok(Identified { tenant, plan, route, on_route, marked })
}

/// Takes away what a peer may not say: a tenant header from an address that is not trusted with it. Whether the peer is
/// trusted with any, as by [`is_trusted`].
pub(super) fn strip_untrusted(snapshot: &Snapshot, peer: IpAddr, fields: &mut HeaderMap) -> bool {
    let mut is_trusted = false;
    for source in &snapshot.fleet.tenant.sources {
        if let SourceKind::Header { name, trusted } = &source.kind {
            match trusted.trusts(peer) {
                true => is_trusted = true,
                false => drop(fields.remove(name)),
            }
        }
    }
    is_trusted
}

/// The fields by which a tenant is named. In a trailer nobody is trusted with them: by then it is known whose the
/// request is.
pub(super) fn tenant_fields(snapshot: &Snapshot) -> impl Iterator<Item = &HeaderName> {
    snapshot.fleet.tenant.sources.iter().filter_map(|source| match &source.kind {
        SourceKind::Header { name, .. } => Some(name),
        _ => None,
    })
}

/// Whether `peer` is trusted with any tenant header, and so with what it says of earlier hops.
pub(super) fn is_trusted(snapshot: &Snapshot, peer: IpAddr) -> bool {
    let trusts =
        |source: &Source| matches!(&source.kind, SourceKind::Header { trusted, .. } if trusted.trusts(peer));
    snapshot.fleet.tenant.sources.iter().any(trusts)
}

fn tenant(
    sources: &[Source],
    snapshot: &Snapshot,
    peer: IpAddr,
    head: &Parts,
    path: &str,
) -> Result<TenantId, Rejection> {
    let mut decided: Option<TenantId> = None;
    for source in sources {
        if decided.is_some() && !source.must_agree {
            continue;
        }
        let Some(said) = said(&source.kind, peer, head, path)? else { continue };
        let tenant = TenantId::parse(&said, &snapshot.fleet.tenant.alphabet)
            .map_err(|error| Rejection::new(Reason::BadTenant, error.to_string()))?;
        match decided {
            Some(first) if first != tenant => {
                return Err(Rejection::new(Reason::TenantsDiffer, format!("{first} and {tenant} are named")));
            }
            _ => decided = Some(tenant),
        }
    }
    decided.ok_or_else(|| no_tenant(sources))
}

/// Says where a tenant was looked for.
fn no_tenant(sources: &[Source]) -> Rejection {
    let places: Vec<_> = sources.iter().map(|source| source.kind.to_string()).collect();
    Rejection::new(Reason::NoTenant, format!("no tenant in any of: {}", places.join(", ")))
}

/// The bytes in which one source names a tenant; `None` where it is not present.
fn said<'r>(
    kind: &SourceKind,
    peer: IpAddr,
    head: &'r Parts,
    path: &'r str,
) -> Result<Option<Cow<'r, [u8]>>, Rejection> {
    match kind {
        SourceKind::Header { name, trusted } => {
            if !trusted.trusts(peer) {
                return Ok(None);
            }
            let mut values = head.headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (first, None) => Ok(first.map(|value| value.as_bytes().into())),
                _ => Err(Rejection::new(Reason::TenantsDiffer, format!("{name} is there more than once"))),
            }
        }
        SourceKind::Host(pattern) => {
            let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
            let label = label_before(host, &pattern.suffix).map(without_case);
            Ok(label.filter(|label| !pattern.reserved.contains(&**label)).map(into_bytes))
        }
        SourceKind::Path(pattern) => {
            let rest = path.strip_prefix(&*pattern.prefix);
            Ok(rest.map(|rest| rest.split('/').next().unwrap_or_default().as_bytes().into()))
        }
    }
}

/// The label in front of `suffix` in `host`, whose port does not count, nor does the dot of the root behind it. Host names have
/// no case.
fn label_before<'h>(host: &'h str, suffix: &str) -> Option<&'h str> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    let at = name.len().checked_sub(suffix.len())?;
    let (label, rest) = name.split_at_checked(at)?;
    (rest.eq_ignore_ascii_case(suffix) && !label.is_empty() && !label.contains('.')).then_some(label)
}

/// A label in the one spelling that a tenant has: host names have no case, and browsers write them so.
fn without_case(label: &str) -> Cow<'_, str> {
    match label.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => label.to_ascii_lowercase().into(),
        false => label.into(),
    }
}

fn into_bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_before_a_suffix_ignores_port_and_case_of_the_suffix() {
        let suffix = ".app.example";
        assert_eq!(label_before("acme.app.example", suffix), Some("acme"));
        assert_eq!(label_before("acme.App.Example:8080", suffix), Some("acme"));
        assert_eq!(label_before("acme.app.example.", suffix), Some("acme"));
        assert_eq!(label_before("acme.app.example.:8080", suffix), Some("acme"));
        for other in [
            "app.example",
            ".app.example",
            "a.b.app.example",
            "acme.other.example",
            "",
            "[::1]:80",
            "acme.app.example..",
        ] {
            assert_eq!(label_before(other, suffix), None, "{other}");
        }
    }
}
