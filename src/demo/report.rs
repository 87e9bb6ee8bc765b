//! What the demonstration says at its end: a table and plain words, or JSON. It decides nothing.

use std::fmt::Write;
use std::path::Path;

use cofferdam_model::TenantId;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::acts::{Outcome, Trouble};
use super::stage::RouterAddress;
use super::verdict::names;

#[derive(Debug, Serialize)]
struct Report<'a> {
    acts: Vec<ActReport<'a>>,
}

#[derive(Debug, Serialize)]
struct ActReport<'a> {
    name: &'static str,
    layout: &'static str,
    tenants: usize,
    hurt: Vec<&'a str>,
    expected: Vec<&'a str>,
    others_success: Option<f64>,
}

/// The outcomes for programs.
pub(crate) fn json(outcomes: &[Outcome]) -> serde_json::Result<String> {
    let act = |outcome| {
        let Outcome { trouble, layout, n_tenants, expected, verdict, .. }: &Outcome = outcome;
        ActReport {
            name: trouble.as_str(),
            layout: layout.as_str(),
            tenants: *n_tenants,
            hurt: verdict.hurt.iter().map(|tenant| tenant.as_str()).collect(),
            expected: expected.iter().map(|tenant| tenant.as_str()).collect(),
            others_success: verdict.others_success,
        }
    };
    serde_json::to_string(&Report { acts: outcomes.iter().map(act).collect() })
}

/// The outcomes for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header([
        "one tenant",
        "how tenants share the cells",
        "hurt,\nmeasured",
        "hurt,\ncomputed",
        "requests of\nall others",
    ]);
    for outcome in outcomes {
        let Outcome { trouble, layout, n_tenants, expected, verdict, .. } = outcome;
        table.add_row([
            trouble.describe().to_owned(),
            format!("{}:\n{}", layout.name(), layout.describe()),
            crowd(&verdict.hurt, *n_tenants),
            crowd(expected, *n_tenants),
            verdict.others_success.map_or("nobody is left".to_owned(), answered),
        ]);
    }
    table.to_string()
}

/// How many of all, and who, where they are few.
fn crowd(tenants: &[TenantId], n_all: usize) -> String {
    match tenants {
        [] => "nobody".to_owned(),
        [_] | [_, _] => format!("{} of {n_all}:\n{}", tenants.len(), names(tenants, "\n")),
        _ if tenants.len() == n_all => format!("all {n_all}"),
        _ => format!("{} of {n_all}", tenants.len()),
    }
}

fn answered(success: f64) -> String {
    if success == 1.0 { "all answered".to_owned() } else { format!("{:.3} % answered", success * 100.0) }
}

/// What the table means.
pub(crate) fn explanation(outcomes: &[Outcome]) -> String {
    let stories: String = outcomes.iter().map(story).collect();
    format!(
        "\
Hurt, measured: tenants for whom fewer than 9 in 10 requests went well, as their client counted.
Hurt, computed: tenants whose cells are all cells of the bad tenant as well, as the fleet file says.

{stories}
Shuffle sharding gives each tenant a small set of cells of its own, two of eight here, so that hardly any two tenants
have the same set. A tenant that breaks all of its cells then stops only those who have exactly its set: every other
tenant has a cell left, and the router goes there.
"
    )
}

fn story(outcome: &Outcome) -> String {
    let own = outcome.own;
    match outcome.trouble {
        Trouble::Noise => format!(
            "\
{} slow requests of the noisy tenant: {} served; held with a 429, {} by the limits of its plan and {} by its
compartment in the cell.
",
            own.n_sent, own.n_succeeded, own.n_over_limit, own.n_over_share
        ),
        Trouble::Poison => format!(
            "{} poison requests, {}: a cell's process died {} times, and was back 2 s later.\n",
            own.n_sent,
            outcome.layout.name(),
            outcome.n_deaths
        ),
    }
}

/// What the demonstration is about, above the table.
pub(crate) const INTRODUCTION: &str = "\
56 tenants send 10 requests a second each to 8 cells. One more tenant goes bad: whom does it hurt?
";

/// Where measured and computed differ, or nothing can be said.
pub(crate) fn faults(outcomes: &[Outcome]) -> Vec<String> {
    let mut faults = Vec::new();
    for Outcome { trouble, layout, expected, verdict, .. } in outcomes {
        let act = format!("{} / {}", trouble.as_str(), layout.as_str());
        faults.extend(verdict.faults(expected).into_iter().map(|fault| format!("{act}: {fault}")));
    }
    faults
}

/// What to try next. Without a fleet that is still up, the addresses have names only.
pub(crate) fn next_steps(
    command: &str,
    kept: Option<(&Path, RouterAddress)>,
    outcomes: &[Outcome],
) -> String {
    let (router, admin, probe, file) = match kept {
        Some((file, RouterAddress { data, admin, probe })) => (
            format!("http://{data}"),
            format!("http://{admin}"),
            format!("http://{probe}"),
            file.display().to_string(),
        ),
        None => ["$ROUTER", "$ADMIN", "$PROBE", "$FLEET"].map(str::to_owned).into(),
    };
    let victim = outcomes.last().and_then(|outcome| outcome.expected.first());
    let victim = victim.map_or("tenant-1", |tenant| tenant.as_str());
    let mut text = match kept {
        Some(_) => format!("The last fleet stays up until Ctrl-C; its file is {file}.\n\n"),
        None => String::new(),
    };
    text.push_str("What to try next\n\n");
    let mut line = |what: &str, command: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  # {what}\n  {command}");
    };
    if kept.is_none() {
        line(
            "keep the last fleet up, and see the values of $ROUTER, $ADMIN, $PROBE and $FLEET",
            format!("{command} demo --keep"),
        );
    }
    line("a request of a tenant", format!("curl -i -H 'x-tenant-id: {victim}' {router}/"));
    line("where a tenant is, and why", format!("curl {admin}/tenants/{victim}"));
    line("how each cell is", format!("curl {admin}/cells"));
    line(
        "kill both cells of one pair; they come back after 2 s",
        format!("curl -H 'x-tenant-id: poisonous' {router}/poison"),
    );
    line("what the router counts", format!("curl {probe}/metrics"));
    line("where any tenant would be", format!("{command} place --fleet {file} acme globex"));
    line(
        "what two bad tenants of a hundred cells would do",
        format!("{command} blast-radius --cells 100 --bad 2"),
    );
    text
}
