//! What a plan says of settings: each one that changes, and how many known tenants it touches.

use cofferdam_fleet::SettingChange;

use super::known::{Known, Touched};
use super::side::Side;

/// How many changes of one section are printed; JSON has all.
const MOST_SHOWN: usize = 20;

/// How many characters of a value are printed; JSON has all.
const MOST_CHARACTERS: usize = 60;

/// A setting that changes, with its values in force.
#[derive(Debug, serde::Serialize)]
pub(super) struct Change {
    setting: String,
    before: Option<String>,
    after: Option<String>,
    /// Known tenants that it touches.
    tenants: usize,
    /// Whether it touches tenants as well that are not known.
    others: bool,
}

/// The known tenants, and those of them that come to other cells.
#[derive(Debug, serde::Serialize)]
pub(super) struct Tenants {
    known: usize,
    moved: usize,
}

impl Tenants {
    pub(super) fn of(known: &Known, old: &Side, new: &Side) -> Self {
        Self { known: known.len(), moved: known.moved(old, new) }
    }

    pub(super) fn text(&self) -> String {
        format!("{} of {} that are known", self.moved, self.known)
    }
}

pub(super) fn changes(known: &Known, old: &Side, new: &Side) -> Vec<Change> {
    let change = |change: SettingChange| {
        let Touched { known, others } = known.touched(&change, old, new);
        let SettingChange { key, before, after, .. } = change;
        Change { setting: key, before, after, tenants: known, others }
    };
    old.fleet.changes(&new.fleet).into_iter().map(change).collect()
}

/// The changes as a table. The revision is told with the summary.
pub(super) fn table(changes: &[Change], tenants: &Tenants) -> String {
    let changes: Vec<_> = changes.iter().filter(|change| change.setting != "revision").collect();
    if changes.is_empty() {
        return "No other setting changes.".to_owned();
    }
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_header(["setting", "before", "after", "known tenants"]);
    let mut shown_of: Vec<(&str, usize)> = Vec::new();
    for change in changes {
        let section = section(&change.setting);
        match shown_of.iter_mut().find(|(name, _)| *name == section) {
            Some((_, n)) => *n += 1,
            None => shown_of.push((section, 1)),
        }
        if shown_of.iter().any(|(name, n)| *name == section && *n > MOST_SHOWN) {
            continue;
        }
        let others = if change.others { ", and others" } else { "" };
        table.add_row([
            change.setting.clone(),
            shortened(change.before.as_deref()),
            shortened(change.after.as_deref()),
            format!("{} of {}{others}", change.tenants, tenants.known),
        ]);
    }
    let mut text = table.to_string();
    for (section, n) in shown_of.into_iter().filter(|(_, n)| *n > MOST_SHOWN) {
        text += &format!("\n and {} more of {section}, not shown (--json has all)", n - MOST_SHOWN);
    }
    text
}

/// The first words of a setting's name, such as `plans` or `tenant.plan_of`.
fn section(setting: &str) -> &str {
    let end = setting.find('[').unwrap_or_else(|| setting.rfind('.').unwrap_or(setting.len()));
    &setting[..end]
}

fn shortened(value: Option<&str>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    match value.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}... ({} characters)", &value[..end], value.chars().count()),
        None => value.to_owned(),
    }
}
