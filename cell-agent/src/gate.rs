//! The way into the compartments: a place in the cell, the class and the tenant's share, or a refusal.

use cofferdam_bulkhead::{ClassLayout, Compartments, Layout, LayoutError, Place, Refused, TenantShare};
use cofferdam_fleet::{CellRules, Class};

use crate::classify::Classified;

/// Divides a cell as the fleet file says. Classes keep their order, so that their indices hold in both.
pub(crate) fn layout(rules: &CellRules) -> Result<Layout, LayoutError> {
    let classes = rules.classes.iter().map(class_layout).collect();
    // A share above 0 and below a thousandth still gives a tenant its one place.
    let thousandths = rules.tenant_share.of(1000).max(1);
    let share = TenantShare::from_thousandths(thousandths as u16).unwrap_or(TenantShare::WHOLE);
    Layout::new(rules.max_in_flight, share, rules.max_tenants as usize, classes)
}

fn class_layout(class: &Class) -> ClassLayout {
    ClassLayout {
        name: class.name.clone(),
        priority: class.priority,
        floor: class.floor,
        ceiling: class.ceiling,
        queue: class.queue,
        max_wait: class.max_wait,
    }
}

/// A place at once, or after a wait in the class's queue. What fills the compartment is for the log: a client learns
/// the reason alone.
pub(crate) async fn enter(compartments: &Compartments, request: &Classified) -> Result<Place, Refused> {
    let class = usize::from(request.class.0);
    let place = compartments.acquire(class, &request.tenant, Some(request.deadline)).await;
    if let Err(refused) = &place {
        log(refused);
    }
    place
}

/// Whose request it is, the request's span says.
fn log(refused: &Refused) {
    match refused {
        Refused::Full { reason, class, cap, used, limit, queued, queue, waited, expected } => {
            tracing::debug!(
                %reason,
                compartment = %class,
                cap = cap.as_ref().map(tracing::field::display),
                active = used,
                limit,
                queued,
                queue,
                ?waited,
                ?expected,
                "refused"
            )
        }
        Refused::ShutDown => tracing::debug!("refused: draining"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use cofferdam_fleet::{ClassIndex, Fleet};
    use cofferdam_model::{Alphabet, TenantId};
    use tokio::time::Instant;

    use super::*;
    use crate::captured::Captured;

    fn compartments(cell: &str) -> Compartments {
        let cells = "[{ id: cell-a, url: http://a:1 }, { id: cell-b, url: http://b:1 }]";
        let text = format!("fleet: test\ncells: {cells}\ncell: {cell}\n");
        let fleet = Fleet::parse(&text, Path::new(".")).unwrap().fleet;
        Compartments::new(layout(&fleet.cell).unwrap())
    }

    #[test]
    fn a_cell_is_divided_as_the_file_says_and_classes_keep_their_index() {
        let cell = compartments(
            "{ max_in_flight: 40, tenant_share: 0.25, max_tenants: 7,
               classes: { search: { priority: 3, floor: 2, ceiling: 9, queue: 4, max_wait: 70ms }, checkout: {} } }",
        );
        let layout = cell.layout();
        assert_eq!((layout.max_in_flight(), layout.max_tenants()), (40, 7));
        assert_eq!(layout.tenant_share().thousandths(), 250);
        let names: Vec<_> = layout.classes().iter().map(|class| class.name.as_str()).collect();
        assert_eq!(names, ["checkout", "default", "search"]);
        let search = &layout.classes()[2];
        assert_eq!((search.priority, search.floor, search.ceiling, search.queue), (3, 2, 9, 4));
        assert_eq!(search.max_wait, Duration::from_millis(70));
    }

    // P30
    #[tokio::test]
    async fn a_refusal_is_logged_with_its_compartment_and_what_fills_it() {
        let (log, _logging) = Captured::start();
        let cell = compartments("{ tenant_share: 1, classes: { default: { ceiling: 1, queue: 0 } } }");
        let tenant = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        let request = Classified { tenant, class: ClassIndex(0), attempt: 1, deadline: Instant::now() };
        let _place = enter(&cell, &request).await.unwrap();
        assert!(enter(&cell, &request).await.is_err());
        let line = log.text();
        let expected = "refused reason=class compartment=default active=1 limit=1 queued=0 queue=0";
        assert!(line.contains(expected), "{line}");
    }
}
