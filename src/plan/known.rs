//! The tenants that a plan can count: named in the files or in a list, or seen lately by running routers.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, bail};
use cofferdam_fleet::{Fleet, Scope, SettingChange};
use cofferdam_model::TenantId;
use cofferdam_router::BlastAnswer;
use reqwest::Url;

use super::side::Side;
use crate::{asked, tenant_list};

/// Where to look for tenants beyond those that the files name.
#[derive(Debug, clap::Args)]
pub(super) struct KnownArgs {
    /// Count what changes for these tenants too: a file with a tenant on each line, or - for standard input
    #[arg(long, value_name = "LIST")]
    tenants: Option<PathBuf>,

    /// Count the tenants too that this router has seen lately, by its admin listener; several may be named
    #[arg(long, value_name = "URL")]
    admin: Vec<String>,
}

/// Tenants that are known, each once.
pub(super) struct Known(Vec<TenantId>);

/// The tenants that a change touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Touched {
    /// How many of those that are known.
    pub(super) known: usize,
    /// Whether it touches tenants as well that no list names.
    pub(super) others: bool,
}

impl Known {
    pub(super) fn gather(args: &KnownArgs, old: &Fleet, new: &Fleet) -> anyhow::Result<Self> {
        let mut tenants = BTreeSet::new();
        for fleet in [old, new] {
            tenants.extend(fleet.tenant.plan_of.keys().copied());
            let named = fleet.placement.pins.iter().chain(&fleet.placement.quarantine);
            tenants.extend(named.map(|pin| pin.tenant));
        }
        // A tenant counts if either file takes its id.
        let alphabet = old.tenant.alphabet.union(&new.tenant.alphabet);
        if let Some(list) = &args.tenants {
            tenants.extend(tenant_list::read(list, &alphabet)?);
        }
        if !args.admin.is_empty() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            for admin in &args.admin {
                let seen = runtime.block_on(seen_by(admin.trim_end_matches('/'), old))?;
                let ids = seen.iter().filter_map(|id| TenantId::parse(id.as_bytes(), &alphabet).ok());
                tenants.extend(ids);
            }
        }
        Ok(Self(tenants.into_iter().collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// How many come to other cells, or to the same ones in another order.
    pub(super) fn moved(&self, old: &Side, new: &Side) -> usize {
        self.0.iter().filter(|tenant| has_moved(tenant, old, new)).count()
    }

    pub(super) fn touched(&self, change: &SettingChange, old: &Side, new: &Side) -> Touched {
        let is_touched = |tenant: &&TenantId| match &change.scope {
            Scope::Everybody => true,
            Scope::Nobody => false,
            Scope::Tenant(only) => *tenant == only,
            Scope::Plan(_) | Scope::Unnamed | Scope::Cell(_) => {
                [old, new].into_iter().any(|side| binds(&change.scope, tenant, side))
            }
            Scope::Alphabet => {
                let takes =
                    |side: &Side| TenantId::parse(tenant.as_bytes(), &side.fleet.tenant.alphabet).is_ok();
                takes(old) != takes(new)
            }
            Scope::Moved => has_moved(tenant, old, new),
        };
        let others = match &change.scope {
            Scope::Nobody | Scope::Tenant(_) => false,
            Scope::Plan(plan) => [old, new].into_iter().any(|side| {
                let fleet = &side.fleet;
                fleet.tenant.unknown.is_some_and(|unknown| fleet.plans[unknown.get()].name == *plan)
            }),
            _ => true,
        };
        Touched { known: self.0.iter().filter(is_touched).count(), others }
    }
}

/// Whether a setting of `scope` binds the tenant by one of the files.
fn binds(scope: &Scope, tenant: &TenantId, side: &Side) -> bool {
    let (fleet, placement) = (&side.fleet, &side.placement);
    match scope {
        Scope::Plan(plan) => {
            fleet.tenant.plan_for(tenant).is_some_and(|has| fleet.plans[has.get()].name == *plan)
        }
        Scope::Unnamed => !fleet.tenant.plan_of.contains_key(tenant),
        Scope::Cell(cell) => {
            let index = placement.index_of(cell);
            index.is_some_and(|index| placement.place(tenant).shard.cells().contains(&index))
        }
        _ => true,
    }
}

fn has_moved(tenant: &TenantId, old: &Side, new: &Side) -> bool {
    let [before, after] = [old, new].map(|side| {
        let cells = side.placement.cells();
        let shard = side.placement.place(tenant).shard;
        shard.cells().iter().map(|cell| cells[cell.get()].clone()).collect::<Vec<_>>()
    });
    before != after
}

/// The tenants that a router has seen lately: those who have some cell, and those who do not.
async fn seen_by(admin: &str, running: &Fleet) -> anyhow::Result<Vec<String>> {
    let Some(cell) = running.cells.first() else { return Ok(Vec::new()) };
    let most = u16::MAX.to_string();
    let words = [("cell", cell.id.as_str()), ("n", most.as_str()), ("others", "true")];
    let url = Url::parse_with_params(&format!("{admin}/blast"), words)
        .with_context(|| format!("{admin:?} is no address"))?;
    let answer = asked::client()?.get(url).send().await;
    let answer = answer.with_context(|| format!("could not ask the router at {admin}"))?;
    let (status, text) = (answer.status(), answer.text().await?);
    if !status.is_success() {
        bail!("the router at {admin} answers {status}: {}", text.trim_end());
    }
    let BlastAnswer { blast, .. } =
        serde_json::from_str(&text).with_context(|| format!("{admin} is no router's admin listener"))?;
    let groups = blast.groups.into_iter().flat_map(|group| group.tenants);
    Ok(groups.chain(blast.others.unwrap_or_default()).map(|neighbour| neighbour.tenant).collect())
}
