//! `tenant`: how a request says whose it is, and which plan that tenant has.

use std::collections::HashMap;

use cofferdam_model::{Alphabet, TenantId};

use crate::node::{Entry, Fields, Node};
use crate::plans::{Plans, REFUSE};
use crate::{PlanIndex, Source};

/// Whose requests there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRules {
    /// The characters that a tenant id may have: `a-z`, `0-9`, `-` and what `extra_characters` adds.
    pub alphabet: Alphabet,
    /// Where a request may say whose it is; the first that is present decides. Never empty: by default the header
    /// `x-tenant-id`, believed from loopback alone.
    pub sources: Vec<Source>,
    /// The tenants that the file names a plan for.
    pub plan_of: HashMap<TenantId, PlanIndex>,
    /// The plan of every other tenant; `None` refuses them. Unless the file says otherwise, the plan `default` where
    /// the file has no plans of its own, and `None` where it has.
    pub unknown: Option<PlanIndex>,
}

impl TenantRules {
    /// The plan of a tenant; `None` where the file does not know the tenant and refuses the unknown.
    pub fn plan_for(&self, tenant: &TenantId) -> Option<PlanIndex> {
        self.plan_of.get(tenant).copied().or(self.unknown)
    }

    pub(crate) fn read(
        root: &Fields<'_>,
        section: Option<&Fields<'_>>,
        alphabet: Alphabet,
        plans: &Plans,
    ) -> Self {
        let get = |key| section.and_then(|fields| fields.get(key));
        let sources = get("from").map_or_else(|| vec![Source::default()], Source::read_all);
        let plan_of = get("plan_of").map(|node| read_plan_of(node, &alphabet, plans)).unwrap_or_default();
        let unknown = match get("unknown") {
            Some(node) => node
                .read("a plan or `refuse`", |word| match word {
                    REFUSE => Ok(None),
                    plan => plans.resolve(plan).map(Some),
                })
                .flatten(),
            None => plans.default_plan,
        };
        if plan_of.is_empty() && unknown.is_none() {
            let mark = get("unknown").map_or_else(|| root.mark_of("plans"), |node| node.mark.clone());
            mark.warn("no tenant has a plan, so each is refused (404): name one in tenant.plan_of or tenant.unknown");
        }
        Self { alphabet, sources, plan_of, unknown }
    }
}

/// The `tenant` section's fields.
pub(crate) fn fields<'d>(root: &Fields<'d>) -> Option<Fields<'d>> {
    root.get("tenant").map(|node| node.fields(&["extra_characters", "from", "plan_of", "unknown"]))
}

/// The alphabet comes first, since pins need it before the rest of the section can be read.
pub(crate) fn read_alphabet(section: Option<&Fields<'_>>) -> Alphabet {
    let extra = section.and_then(|fields| fields.get("extra_characters"));
    extra.and_then(|node| node.read("characters such as \"_\"", Alphabet::with_extra)).unwrap_or_default()
}

/// Reads an entry's key as a tenant of this fleet.
pub(crate) fn read_tenant(entry: &Entry<'_>, alphabet: &Alphabet) -> Option<TenantId> {
    TenantId::parse(entry.name.as_bytes(), alphabet).map_err(|error| entry.mark.refuse(error)).ok()
}

fn read_plan_of(node: &Node<'_>, alphabet: &Alphabet, plans: &Plans) -> HashMap<TenantId, PlanIndex> {
    let mut plan_of = HashMap::new();
    for entry in node.entries("a map from tenants to their plans") {
        let tenant = read_tenant(&entry, alphabet);
        let plan = entry.value.read("a plan", |plan| plans.resolve(plan));
        plan_of.extend(tenant.zip(plan));
    }
    plan_of
}
