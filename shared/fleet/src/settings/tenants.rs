//! The settings of `tenant` and `plans`.

use super::setting::{Scope, Settings, list as joined};
use crate::plans::REFUSE;
use crate::{Bucket, HostPattern, PathPattern, Plan, Quota, Source, SourceKind, TenantRules};

pub(super) fn list(rules: &TenantRules, plans: &[Plan], settings: &mut Settings) {
    let TenantRules { alphabet, sources, plan_of, unknown } = rules;
    settings.item("tenant", Scope::Alphabet).set("extra_characters", alphabet.extra());
    for source in sources {
        list_source(source, settings);
    }
    let mut named: Vec<_> = plan_of.iter().collect();
    named.sort();
    for (tenant, plan) in named {
        let item = format!("tenant.plan_of.{tenant}");
        settings.item(item, Scope::Tenant(*tenant)).set("", &plans[plan.get()].name);
    }
    let unknown = unknown.map_or(REFUSE, |plan| plans[plan.get()].name.as_str());
    settings.item("tenant", Scope::Unnamed).set("unknown", unknown);
}

fn list_source(source: &Source, settings: &mut Settings) {
    let Source { kind, must_agree } = source;
    let mut item = settings.item(format!("tenant.from[{kind}]"), Scope::Everybody);
    match kind {
        // The name or the pattern is in the item.
        SourceKind::Header { name: _, trusted } => item.set("trusted", trusted),
        SourceKind::Host(HostPattern { suffix: _, reserved }) => {
            let mut labels: Vec<_> = reserved.iter().collect();
            labels.sort();
            item.set("reserved", joined(labels));
        }
        SourceKind::Path(PathPattern { prefix: _ }) => {}
    }
    item.set("must_agree", must_agree);
}

pub(super) fn list_plan(plan: &Plan, settings: &mut Settings) {
    let Plan { name, bucket, max_in_flight, quotas, weight, on_store_failure, shadow, shard_size } = plan;
    let Bucket { sustained, burst } = bucket;
    let mut item = settings.item(format!("plans.{name}"), Scope::Plan(name.clone()));
    item.set("sustained", sustained);
    item.set("burst", burst);
    item.set("max_in_flight", max_in_flight);
    if !quotas.is_empty() {
        item.set("quota", joined(quotas.iter().map(Quota::to_string)));
    }
    item.set("weight", weight);
    item.set_if("on_store_failure", *on_store_failure);
    item.set("shadow", shadow);
    item.set_if("shard_size", *shard_size);
}
