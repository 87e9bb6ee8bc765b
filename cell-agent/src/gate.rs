//! The way into the compartments: a place in the cell, the class and the tenant's share, or a refusal.

use cofferdam_bulkhead::{Claim, Compartments, Place, Refused};

use crate::classify::Classified;
use crate::rules::Rules;

/// A place at once, or after a wait in the class's queue. A request that is tried again does not wait: where places are
/// short, what comes for the first time goes first. What fills the compartment is for the log: a client learns the
/// reason alone.
pub(crate) async fn enter(
    compartments: &Compartments,
    rules: &Rules,
    request: &Classified,
) -> Result<Place, Refused> {
    let claim = Claim {
        class: rules.compartment(request.class),
        tenant: &request.tenant,
        weight: rules.weight(&request.tenant),
        caps: rules.caps(request.route),
        deadline: Some(request.deadline),
    };
    let place = match request.attempt {
        0 | 1 => compartments.claim(&claim).await,
        _ => compartments.try_claim(&claim),
    };
    if let Err(refused) = &place {
        log(refused);
    }
    place
}

/// Whose request it is, the request's span says.
fn log(refused: &Refused) {
    match refused {
        Refused::Full { reason, class, cap, used, limit, queued, queue, waited, expected } => {
            let compartment = cap.as_ref().map_or_else(|| class.to_string(), ToString::to_string);
            tracing::debug!(
                %reason,
                compartment,
                active = used,
                limit,
                queued,
                queue,
                ?waited,
                ?expected,
                "refused"
            );
        }
        Refused::ShutDown => tracing::debug!("refused: draining"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use cofferdam_fleet::{ClassIndex, Fleet, RouteIndex};
    use cofferdam_model::{Alphabet, Resort, TenantId};
    use tokio::time::Instant;

    use super::*;
    use crate::captured::Captured;
    use crate::rules::layout;

    fn cell(sections: &str) -> (Compartments, Arc<Rules>) {
        let cells = "[{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]";
        let text = format!("fleet: test\ncells: {cells}\n{sections}\n");
        let fleet = Fleet::parse(&text, Path::new(".")).unwrap().fleet;
        (Compartments::new(layout(&fleet).unwrap()), Rules::of(fleet))
    }

    fn request() -> Classified {
        let tenant = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let (class, route) = (ClassIndex(0), RouteIndex(0));
        let (from_router, resort) = (true, Resort::Another);
        Classified { from_router, tenant, class, route, attempt: 1, resort, deadline: Instant::now() }
    }

    // P30
    #[tokio::test]
    async fn a_refusal_is_logged_with_its_compartment_and_what_fills_it() {
        let (log, _logging) = Captured::start();
        let (full, rules) = cell("cell: { tenant_share: 1, classes: { default: { ceiling: 1, queue: 0 } } }");
        let _place = enter(&full, &rules, &request()).await.unwrap();
        assert!(enter(&full, &rules, &request()).await.is_err());
        let line = log.text();
        let expected = "refused reason=class compartment=\"default\" active=1 limit=1 queued=0 queue=0";
        assert!(line.contains(expected), "{line}");
    }

    // P9, P30
    #[tokio::test]
    async fn a_refusal_by_a_cap_is_logged_with_its_name() {
        let (log, _logging) = Captured::start();
        let (capped, rules) = cell(
            "routes: [{ match: { path: / }, dependency: db }]
cell: { tenant_share: 1, dependencies: { db: { max_in_flight: 1 } } }",
        );
        let _place = enter(&capped, &rules, &request()).await.unwrap();
        assert!(enter(&capped, &rules, &request()).await.is_err());
        let line = log.text();
        let expected = "refused reason=class compartment=\"dependency db\" active=1 limit=1 queued=0";
        assert!(line.contains(expected), "{line}");
    }
}
