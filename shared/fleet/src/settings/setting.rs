//! One setting, and the list of them that each section adds to. It knows no section.

use std::fmt::{self, Display};
use std::time::Duration;

use cofferdam_model::{CellId, PlanName, TenantId};

/// One word of the fleet file with the value in force, given or by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// What the word belongs to, such as `plans.free`; empty for the file as a whole.
    pub(super) item: String,
    /// The word, such as `sustained`; empty where the item itself is the word.
    pub(super) word: String,
    pub(super) value: SettingValue,
    pub(super) scope: Scope,
}

/// A setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SettingValue {
    /// A value that may be shown, in the file's own spelling where it has one.
    Shown(String),
    /// A number that is compared and never shown.
    Secret(u64),
}

/// The tenants that a setting binds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Each tenant that sends a request.
    Everybody,
    /// No tenant's request.
    Nobody,
    /// The tenants of a plan.
    Plan(PlanName),
    /// One tenant.
    Tenant(TenantId),
    /// The tenants that `tenant.plan_of` does not name.
    Unnamed,
    /// The tenants whose ids have characters that one of two alphabets lacks.
    Alphabet,
    /// The tenants that have a cell.
    Cell(CellId),
    /// The tenants that come to other cells.
    Moved,
}

/// The settings of a fleet, in the order of the file's sections.
#[derive(Default)]
pub(super) struct Settings(pub(super) Vec<Setting>);

/// The settings of one item of the file, such as one plan.
pub(super) struct Item<'a> {
    settings: &'a mut Settings,
    path: String,
    scope: Scope,
}

impl Settings {
    pub(super) fn item(&mut self, path: impl Into<String>, scope: Scope) -> Item<'_> {
        Item { settings: self, path: path.into(), scope }
    }
}

impl Item<'_> {
    pub(super) fn set(&mut self, word: &str, value: impl Display) {
        self.push(word, SettingValue::Shown(value.to_string()));
    }

    /// A word that may be absent is listed only where it has a value.
    pub(super) fn set_if(&mut self, word: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.set(word, value);
        }
    }

    pub(super) fn push(&mut self, word: &str, value: SettingValue) {
        let (item, word, scope) = (self.path.clone(), word.to_owned(), self.scope.clone());
        self.settings.0.push(Setting { item, word, value, scope });
    }
}

impl Setting {
    pub(super) fn key(&self) -> String {
        match (self.item.as_str(), self.word.as_str()) {
            ("", word) => word.to_owned(),
            (item, "") => item.to_owned(),
            (item, word) => format!("{item}.{word}"),
        }
    }
}

impl Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shown(text) => f.write_str(text),
            Self::Secret(_) => f.write_str("(secret)"),
        }
    }
}

/// A duration in the file's spelling: a whole number of the largest unit that has it exactly.
pub(super) fn time(duration: Duration) -> String {
    let us = duration.as_micros();
    match (us % 1_000_000, us % 1_000) {
        (0, _) => format!("{}s", us / 1_000_000),
        (_, 0) => format!("{}ms", us / 1_000),
        _ => format!("{us}us"),
    }
}

/// Values with commas between them.
pub(super) fn list(values: impl IntoIterator<Item = impl Display>) -> String {
    let texts: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
    texts.join(", ")
}
