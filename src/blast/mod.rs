//! `cofferdam blast`: who shares cells with a tenant, or has a cell. Running routers know whom they have seen and what they
//! sent; a fleet file and a list of tenants know where everybody is.

mod merged;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::println;
use anyhow::Context;
use cofferdam_fleet::Fleet;
use cofferdam_model::{CellId, TenantId};
use cofferdam_placement::Placement;
use cofferdam_router::{Blast, BlastOf, Known, Shown, placement_spec};
use reqwest::Url;
use serde_json::{Value, json};

use crate::asked::{self, list, word};
use crate::not_asked;
use crate::process::BAD_INPUT;
use crate::tenant_list;

/// Show which tenants share cells with one, or have a cell, and what they sent lately
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("of").required(true).args(["tenant", "cell"])))]
pub(crate) struct Args {
    /// The tenant
    tenant: Option<String>,

    /// A cell instead of a tenant
    #[arg(long)]
    cell: Option<String>,

    /// A router's admin listener; of several, what each has seen is added up
    #[arg(
        long,
        default_value = "http://127.0.0.1:7001",
        conflicts_with = "fleet",
        value_parser = not_asked::address
    )]
    admin: Vec<String>,

    /// Take the tenants of a list by this fleet file, and ask no router
    #[arg(long, requires = "tenants")]
    fleet: Option<PathBuf>,

    /// A file with a tenant on each line, or - for standard input
    #[arg(long, value_name = "LIST", requires = "fleet")]
    tenants: Option<PathBuf>,

    /// How many tenants of each group to show
    #[arg(long, short, default_value_t = 20)]
    n: u16,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let answer = match (&args.fleet, &args.tenants) {
        (Some(fleet), Some(list)) => match of_list(&args, Fleet::load(fleet)?.fleet, list) {
            Ok(answer) => answer,
            Err(error) => {
                eprintln!("cofferdam: {error:#}");
                return Ok(ExitCode::from(BAD_INPUT));
            }
        },
        _ => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            match runtime.block_on(ask(&args))? {
                Ok(answer) => answer,
                Err(code) => return Ok(code),
            }
        }
    };
    if args.json {
        println!("{answer}");
    } else {
        println!("{}", text(&answer));
    }
    Ok(ExitCode::SUCCESS)
}

/// One router's answer, or that of several together.
async fn ask(args: &Args) -> anyhow::Result<Result<Value, ExitCode>> {
    let mut admins: Vec<&str> = Vec::new();
    for admin in args.admin.iter().map(|admin| admin.trim_end_matches('/')) {
        // One that is named twice has not seen twice as much.
        if !admins.contains(&admin) {
            admins.push(admin);
        }
    }
    if let [admin] = admins[..] {
        let n = args.n.to_string();
        return ask_one(args, admin, &[("n", &n)]).await;
    }
    let (all, mut answers) = (u16::MAX.to_string(), Vec::new());
    for admin in admins {
        match ask_one(args, admin, &[("n", &all), ("others", "true")]).await? {
            Ok(answer) => answers.push((admin.to_owned(), answer)),
            Err(code) => return Ok(Err(code)),
        }
    }
    merged::merged(answers, args.n.into()).map(Ok)
}

async fn ask_one(args: &Args, admin: &str, more: &[(&str, &str)]) -> anyhow::Result<Result<Value, ExitCode>> {
    let of = [("tenant", args.tenant.as_deref()), ("cell", args.cell.as_deref())];
    let words = of.into_iter().filter_map(|(name, value)| Some((name, value?))).chain(more.iter().copied());
    let url = Url::parse_with_params(&format!("{admin}/blast"), words)
        .with_context(|| format!("{admin:?} is no address"))?;
    let request = asked::client()?.get(url);
    match asked::of_router(admin, request).await? {
        Ok(text) => Ok(Ok(asked::json(&text)?)),
        Err(code) => Ok(Err(code)),
    }
}

/// The answer of a router that had seen exactly the tenants of a list, but knew nothing of what they sent.
fn of_list(args: &Args, fleet: Fleet, list: &Path) -> anyhow::Result<Value> {
    let placement = Placement::build(&placement_spec(&fleet))?;
    let of = match (&args.tenant, &args.cell) {
        (Some(tenant), _) => {
            let tenant = TenantId::parse(tenant.as_bytes(), &fleet.tenant.alphabet)
                .with_context(|| format!("{tenant:?} is not a tenant of fleet {}", fleet.name))?;
            BlastOf::Tenant(tenant, placement.place(&tenant).shard)
        }
        (None, cell) => {
            let cell = cell.as_deref().unwrap_or_default();
            let index = CellId::parse(cell).ok().and_then(|id| placement.index_of(&id));
            BlastOf::Cell(index.with_context(|| format!("cell {cell:?} is not in this fleet"))?)
        }
    };
    let tenants = tenant_list::read(list, &fleet.tenant.alphabet)?;
    let known =
        tenants.iter().map(|&tenant| Known { tenant, shard: placement.place(&tenant).shard, load: None });
    let blast = Blast::new(of, placement.cells(), known, Shown { most: args.n.into(), others: false });
    let mut answer = json!({
        "fleet": fleet.name.as_str(),
        "revision": fleet.revision.0,
        "digest": placement.digest().to_string(),
        "seen": { "tenants": tenants.len() },
    });
    if let (Value::Object(answer), Value::Object(blast)) = (&mut answer, serde_json::to_value(blast)?) {
        answer.extend(blast);
    }
    Ok(answer)
}

/// The answer for people.
fn text(answer: &Value) -> String {
    let cells = list(&answer["cells"]);
    let head = match answer["tenant"].as_str() {
        Some(tenant) => format!("tenant {tenant} is on {cells}"),
        None => format!("cell {cells}"),
    };
    let mut lines = vec![head];
    lines.extend(which_table(answer));
    lines.push(whom_it_knows(&answer["seen"], answer["routers"].as_array().map_or(1, Vec::len)));
    for group in answer["groups"].as_array().into_iter().flatten() {
        lines.push(String::new());
        lines.push(headline(group));
        if group["n_tenants"] != 0 {
            lines.push(tenants(group).to_string());
        }
        if group["not_shown"] != 0 {
            lines.push(format!(" and {} more, not shown (-n)", word(&group["not_shown"])));
        }
    }
    let what = if answer["tenant"].is_null() { "do not have the cell" } else { "share no cell with it" };
    lines.push(format!("\n{} tenants {what}", word(&answer["share_none"])));
    lines.join("\n")
}

/// Which file places everybody, or how routers differ in that.
fn which_table(answer: &Value) -> Vec<String> {
    let table = |of: &Value| {
        let [revision, digest] = ["revision", "digest"].map(|name| word(&of[name]));
        format!("fleet {} at revision {revision}, digest {digest}", word(&answer["fleet"]))
    };
    let routers = answer["routers"].as_array().map_or(&[][..], Vec::as_slice);
    let same = |of: &Value, name: &str| of[name] == answer[name];
    if routers.iter().all(|of| ["revision", "digest", "cells"].into_iter().all(|name| same(of, name))) {
        return vec![table(answer)];
    }
    let each =
        routers.iter().map(|of| format!("{}: {}, on {}", word(&of["admin"]), table(of), list(&of["cells"])));
    let differ = "the routers differ, and a tenant is shown where it shares most".to_owned();
    each.chain([differ]).collect()
}

/// How much the answer can know.
fn whom_it_knows(seen: &Value, n_routers: usize) -> String {
    let tenants = word(&seen["tenants"]);
    let Some(window_ms) = seen["window_ms"].as_u64() else {
        return format!("the list has {tenants} tenants");
    };
    let [requests, above] = ["requests", "counted_above"].map(|name| word(&seen[name]));
    let whom = match above.as_str() {
        "0" => "everybody who sent something".to_owned(),
        above => format!("everybody with more than {above} requests"),
    };
    let at = if n_routers == 1 { "this router".to_owned() } else { format!("{n_routers} routers") };
    let known = seen["tenants_with_limits"].as_u64();
    format!(
        "of {requests} requests in the last {} s at {at}: {tenants} tenants counted, {whom} among them{}",
        window_ms / 1000,
        known.map_or_else(String::new, |known| format!("; {known} have a state here"))
    )
}

fn headline(group: &Value) -> String {
    let n_tenants = group["n_tenants"].as_u64().unwrap_or_default();
    let (tenants, have, are) =
        if n_tenants == 1 { ("tenant", "has", "is") } else { ("tenants", "have", "are") };
    let what = match group["shares"].as_str().unwrap_or_default() {
        "all" => format!("{have} all its cells, and {are} lost with it"),
        "some" => format!("{have} some of its cells, and others left"),
        "home" => format!("{are} at home there"),
        _ => format!("{have} it besides another home"),
    };
    let requests = match group["requests"].as_u64() {
        Some(requests) => format!("; {requests} requests"),
        None => String::new(),
    };
    format!("{n_tenants} {tenants} {what}{requests}")
}

fn tenants(group: &Value) -> comfy_table::Table {
    let neighbours = group["tenants"].as_array().into_iter().flatten();
    let is_loaded = !group["requests"].is_null();
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    let loads = ["requests", "refused", "in_flight"];
    let header = ["tenant", "cells"]
        .into_iter()
        .chain(["requests", "refused", "in flight"].into_iter().filter(|_| is_loaded));
    table.set_header(header);
    for neighbour in neighbours {
        let row = [word(&neighbour["tenant"]), list(&neighbour["cells"])];
        let loads = loads.iter().filter(|_| is_loaded).map(|load| word(&neighbour[load]));
        table.add_row(row.into_iter().chain(loads));
    }
    table
}
