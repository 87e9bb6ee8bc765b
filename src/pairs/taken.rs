//! Which sets of cells are taken by pins that operators have set while routers run, and who stays where an operator wants it. A router
//! is asked; what becomes of its answer is not known here.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use cofferdam_fleet::Fleet;
use cofferdam_model::{CellId, CellIndex, TenantId};
use cofferdam_placement::Placement;
use reqwest::Client;
use serde_json::Value;

use crate::asked::{self, word};

/// What operators have taken.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Sets of cells, as far as the fleet file has those.
    pub(super) sets: Vec<Box<[CellIndex]>>,
    /// Tenants, each with what keeps it: `pin` or `quarantine`.
    kept: BTreeMap<String, &'static str>,
}

impl Taken {
    /// What of an operator's keeps a tenant where it is.
    pub(super) fn keeps(&self, tenant: &TenantId) -> Option<&'static str> {
        self.kept.get(tenant.as_str()).copied()
    }
}

/// Asks a router of the file's fleet. A pin counts whether it binds now or waits below a quarantine, and so does one that a move is
/// about to set.
pub(super) async fn ask(admin: &str, fleet: &Fleet, placement: &Placement) -> anyhow::Result<Taken> {
    let (client, admin) = (asked::client()?, admin.trim_end_matches('/'));
    let running = get(&client, admin, "/fleet").await?;
    let (name, other) = (fleet.name.as_str(), word(&running["fleet"]));
    ensure!(name == other, "the router at {admin} is of fleet {other}, and the file of {name}");
    let list = get(&client, admin, "/placement").await?;
    let mut taken = Taken::default();
    for said in list["overrides"].as_array().into_iter().flatten() {
        for to in [&said["pin"]["to"], &said["move"]["to"]] {
            taken.sets.extend(cells(to, placement));
        }
        if let Some(of) = ["quarantine", "pin"].into_iter().find(|of| said[*of]["binds"] == true) {
            taken.kept.insert(word(&said["tenant"]), of);
        }
    }
    Ok(taken)
}

/// The cells of a list of names; nothing where there are none, or one is none of the file's.
fn cells(names: &Value, placement: &Placement) -> Option<Box<[CellIndex]>> {
    let names = names.as_array()?.iter();
    names.map(|name| placement.index_of(&CellId::parse(name.as_str()?).ok()?)).collect()
}

async fn get(client: &Client, admin: &str, path: &str) -> anyhow::Result<Value> {
    let request = client.get(format!("{admin}{path}"));
    match asked::of_router(admin, request).await? {
        Ok(text) => asked::json(&text),
        Err(_) => bail!("the router at {admin} does not understand {path}"),
    }
}
