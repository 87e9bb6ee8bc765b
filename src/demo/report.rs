//! What the demonstration says at its end: a table and plain words, or JSON. It decides nothing.

use std::fmt::Write;

use cofferdam_model::TenantId;
use comfy_table::{Table, presets};
use serde::Serialize;

use super::acts::{Outcome, Trouble};
use super::fleet_file::Layout;
use super::stage::{RouterAddress, Stage};
use super::verdict::{Offered, names};

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
    /// Requests of all tenants that were due while it was measured, and those that were sent late.
    due: u64,
    late: u64,
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
            due: verdict.offered.due,
            late: verdict.offered.late,
        }
    };
    serde_json::to_string(&Report { acts: outcomes.iter().map(act).collect() })
}

/// The outcomes for people.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header([
        "a tenant",
        "how tenants\nshare the cells",
        "hurt,\nmeasured",
        "hurt,\ncomputed",
        "requests of\nall others",
    ]);
    for outcome in outcomes {
        let Outcome { trouble, layout, n_tenants, expected, verdict, .. } = outcome;
        table.add_row([
            trouble.describe().replacen(" a ", " a\n", 1),
            format!("{}:\n{}", layout.name(), layout.describe()),
            crowd(&verdict.hurt, *n_tenants),
            crowd(expected, *n_tenants),
            verdict.others_success.map_or("none left".to_owned(), answered),
        ]);
    }
    table.trim_fmt()
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
    let agree =
        if faults(outcomes).is_empty() { "agree in every act" } else { "DISAGREE, as said at the end" };
    format!(
        "\
Measured: tenants for whom fewer than 9 in 10 requests went well, by their client's count.
Computed: tenants who have no cell that the bad tenant does not have too, by the fleet file.
The two {agree}.

{stories}
A poison request ends the process that serves it. The router then tries the tenant's next
cell, and that one ends too. Each cell is started again after 2 s, into the next poison.
The guard against poison is off in all layouts but the last. There a tenant that was at two
losses is sent to its home cell alone, and what it breaks is its own.

Shuffle sharding gives each tenant a few cells of its own, two of eight here, so that hardly
any two tenants have the same ones. A tenant that breaks all of its cells then stops only
those who have exactly the same: all others have a cell left, and the router goes there.
"
    )
}

fn story(outcome: &Outcome) -> String {
    let (own, layout) = (outcome.own, outcome.layout.name());
    match outcome.trouble {
        Trouble::Noise => format!(
            "{} slow requests, {layout}: {} served; limits held back {}, compartments {}.\n",
            own.n_sent, own.n_succeeded, own.n_over_limit, own.n_over_share
        ),
        Trouble::Poison => {
            format!("{} poison requests, {layout}: cells died {} times.\n", own.n_sent, outcome.n_deaths)
        }
    }
}

/// What the demonstration is about, above the table.
pub(crate) const INTRODUCTION: &str = "\
56 tenants send 10 requests a second each to 8 cells. One more tenant goes bad: whom does it hurt?
";

/// The acts in which the machine was too busy for the load, where that is why they do not show what they should.
pub(crate) fn voids(outcomes: &[Outcome]) -> Vec<String> {
    let void = outcomes.iter().filter(|outcome| outcome.verdict.is_void(&outcome.expected));
    let told = |Outcome { trouble, layout, verdict, .. }: &Outcome| {
        let Offered { due, late } = verdict.offered;
        format!(
            "{} / {}: the machine is too busy: the load could not be offered ({late} of {due} requests were sent late)",
            trouble.as_str(),
            layout.as_str()
        )
    };
    void.map(told).collect()
}

/// Where measured and computed differ, or nothing can be said.
pub(crate) fn faults(outcomes: &[Outcome]) -> Vec<String> {
    let mut faults = Vec::new();
    for Outcome { trouble, layout, expected, verdict, .. } in outcomes {
        let act = format!("{} / {}", trouble.as_str(), layout.as_str());
        faults.extend(verdict.faults(expected).into_iter().map(|fault| format!("{act}: {fault}")));
    }
    faults
}

/// What to try next. Without a fleet that is still up, its addresses have names only.
pub(crate) fn next_steps(command: &str, stage: &Stage, kept: Option<Layout>, outcomes: &[Outcome]) -> String {
    let RouterAddress { data, admin, probe } = stage.router();
    let [router, admin, probe, file] = match kept {
        Some(layout) => {
            let [router, admin, probe] = [data, admin, probe].map(|address| format!("http://{address}"));
            [router, admin, probe, stage.file(layout).display().to_string()]
        }
        None => ["$ROUTER", "$ADMIN", "$PROBE", "$FLEET"].map(str::to_owned),
    };
    let expected = outcomes.last().map(|outcome| outcome.expected.as_slice()).unwrap_or_default();
    let victim = expected.iter().find(|tenant| **tenant != stage.bad.poisonous);
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
            "keep the last fleet up, and see what $ROUTER, $ADMIN, $PROBE and $FLEET stand for",
            format!("{command} demo --keep"),
        );
    }
    line("a request of a tenant", format!("curl -i -H 'x-tenant-id: {victim}' {router}/"));
    line("where a tenant is, and why", format!("curl {admin}/tenants/{victim}"));
    line("how each cell is", format!("curl {admin}/cells"));
    line(
        "kill both cells of one pair; they come back after 2 s",
        format!("curl -H 'x-tenant-id: {}' {router}/poison", stage.bad.poisonous),
    );
    line("what the router counts", format!("curl {probe}/metrics"));
    line("where any tenant would be", format!("{command} place --fleet {file} acme globex"));
    line(
        "what two bad tenants of a hundred cells would do",
        format!("{command} blast-radius --cells 100 --bad 2"),
    );
    text
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;

    use super::*;
    use crate::demo::acts::Own;
    use crate::demo::verdict::Verdict;

    fn outcome(layout: Layout, hurt: &[&str], others_success: Option<f64>) -> Outcome {
        let tenant = |id: &&str| TenantId::parse(id.as_bytes(), &Alphabet::default()).unwrap();
        let hurt: Vec<_> = hurt.iter().map(tenant).collect();
        Outcome {
            trouble: Trouble::Poison,
            layout,
            n_tenants: 56,
            expected: hurt.clone(),
            verdict: Verdict {
                hurt,
                unclear: Vec::new(),
                others_success,
                offered: Offered { due: 9, late: 0 },
            },
            own: Own { n_sent: 100, n_succeeded: 0, n_over_limit: 0, n_over_share: 0 },
            n_deaths: 6,
        }
    }

    #[test]
    fn the_json_has_each_act_and_null_where_nobody_is_left() {
        let outcomes =
            [outcome(Layout::Pool, &["a"], None), outcome(Layout::Shuffle, &["a", "b"], Some(1.0))];
        assert_eq!(
            json(&outcomes).unwrap(),
            r#"{"acts":[{"name":"poison","layout":"pool","tenants":56,"hurt":["a"],"expected":["a"],"others_success":null,"due":9,"late":0},"#
                .to_owned()
                + r#"{"name":"poison","layout":"shuffle","tenants":56,"hurt":["a","b"],"expected":["a","b"],"others_success":1.0,"due":9,"late":0}]}"#
        );
    }

    #[test]
    fn the_table_names_the_hurt_where_they_are_few() {
        let table = table(&[outcome(Layout::Shuffle, &["acme", "globex"], Some(0.5))]);
        assert!(table.contains("2 of 56") && table.contains("acme") && table.contains("globex"), "{table}");
        assert!(table.contains("50.000 % answered"), "{table}");
    }
}
