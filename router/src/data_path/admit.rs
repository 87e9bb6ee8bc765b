//! May the tenant have this request now, and is it its turn? One admission for the request, however often it is tried.

use std::time::Instant;

use cofferdam_limits::{Admission, Limits, Permit, Refusal};
use tokio::time::sleep_until;

use super::identify::Identified;

/// A request that holds its fleet-wide permit: what placement demands. It goes on in a box, since every stage hands it to the
/// next.
#[derive(Debug)]
pub(super) struct Admitted<'v> {
    pub(super) identified: Identified<'v>,
    pub(super) permit: Permit,
    /// Since when it may go on.
    pub(super) at: Instant,
    /// When the caller's patience ends.
    pub(super) deadline: Instant,
}

/// A request that was refused, and what its answer needs.
#[derive(Debug)]
pub(super) struct NotAdmitted<'v> {
    pub(super) identified: Identified<'v>,
    pub(super) refusal: Refusal,
}

/// Takes every level of the tenant's limits, or none, for a request that arrived at `arrived`. Where nothing is waited for,
/// it is still that time: a look at the clock costs a tenth of an admission.
pub(super) async fn admit<'v>(
    identified: Identified<'v>,
    limits: &Limits,
    arrived: Instant,
    deadline: Instant,
) -> Result<Box<Admitted<'v>>, NotAdmitted<'v>> {
    if identified.plan.is_off {
        return Ok(Box::new(Admitted { identified, permit: Permit::empty(), at: arrived, deadline }));
    }
    let (decided, at) = match identified.demand(|demand| limits.admit(demand)) {
        Admission::Admitted(permit) => (Ok(permit), arrived),
        Admission::Refused(refusal) => (Err(refusal), arrived),
        Admission::Pending(pending) => (pending.await, Instant::now()),
    };
    match decided {
        Ok(permit) => Ok(Box::new(Admitted { identified, permit, at, deadline })),
        Err(refusal) => Err(NotAdmitted { identified, refusal }),
    }
}

/// Waits for the request's turn on a route that is let through evenly, with its permit in hand, and no longer than its
/// caller does. Whoever goes away meanwhile has reached no backend, and gets back what was taken.
pub(super) async fn wait_for_turn(mut admitted: Box<Admitted<'_>>) -> Box<Admitted<'_>> {
    let turn = Instant::now() + admitted.permit.delay();
    sleep_until(turn.min(admitted.deadline).into()).await;
    admitted.permit.begin();
    admitted.at = Instant::now();
    admitted
}
