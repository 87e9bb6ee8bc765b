//! What the fleet file says of fields, made ready for requests.

use cofferdam_fleet::{Fleet, Underscores};
use cofferdam_model::headers;
use cofferdam_proxy::forwarding::Forwarding;
use cofferdam_proxy::look_alikes::{NameGuard, OddNames};

/// The rules on fields.
#[derive(Debug)]
pub(crate) struct Edge {
    /// Which names go no further.
    pub(crate) names: NameGuard,
    /// In which fields the next hop is told where a request came from.
    pub(crate) forwarding: Forwarding,
}

impl Edge {
    pub(crate) fn of(fleet: &Fleet) -> Self {
        let odd = match fleet.edge.underscores {
            Underscores::Guard => OddNames::Guard,
            Underscores::Drop => OddNames::Drop,
            Underscores::Refuse => OddNames::Refuse,
        };
        let forwarded = fleet.edge.forwarded.as_ref();
        Self {
            names: NameGuard::new(odd, headers::is_internal, fleet.identifying_fields()),
            forwarding: forwarded
                .map_or_else(Forwarding::default, |names| Forwarding::only(names.iter().copied())),
        }
    }
}
