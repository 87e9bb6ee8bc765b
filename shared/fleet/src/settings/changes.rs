//! What differs between two fleets, setting by setting.

use std::collections::{HashMap, HashSet};

use super::fleet::settings;
use super::setting::{Scope, Setting, list};
use crate::Fleet;

/// The lists of the file whose order decides.
const ORDERED: [&str; 2] = ["tenant.from[", "routes["];

/// One setting that differs between two fleets. An item that only one of them has, such as a plan, is one change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingChange {
    /// The setting, such as `plans.free.sustained`.
    pub key: String,
    /// The value in force before; `None` where there was none.
    pub before: Option<String>,
    /// The value in force after; `None` where there is none.
    pub after: Option<String>,
    /// The tenants that the setting binds.
    pub scope: Scope,
}

impl Fleet {
    /// Every setting in which `new` differs from this fleet, in the order of the file's sections.
    pub fn changes(&self, new: &Self) -> Vec<SettingChange> {
        let (before, after) = (settings(self).0, settings(new).0);
        let items = |settings: &[Setting]| -> HashSet<String> {
            settings.iter().map(|setting| setting.item.clone()).collect()
        };
        let (items_before, items_after) = (items(&before), items(&after));
        let mut old: HashMap<_, _> = before.iter().map(|setting| (setting.key(), setting)).collect();
        let mut changes = Vec::new();
        let mut whole = HashSet::new();
        for setting in &after {
            let was = old.remove(&setting.key());
            if !items_before.contains(&setting.item) {
                if whole.insert(setting.item.clone()) {
                    changes.push(added(setting, &after));
                }
            } else if was.is_none_or(|was| was.value != setting.value) {
                changes.push(changed(setting.key(), was, Some(setting)));
            }
        }
        // What is left over of the old file is gone from the new one.
        for setting in before.iter().filter(|setting| old.contains_key(&setting.key())) {
            if items_after.contains(&setting.item) {
                changes.push(changed(setting.key(), Some(setting), None));
            } else if whole.insert(setting.item.clone()) {
                let SettingChange { key, before, after, scope } = added(setting, &before);
                changes.push(SettingChange { key, before: after, after: before, scope });
            }
        }
        changes.extend(ORDERED.iter().filter_map(|list| reordered(list, &before, &after)));
        changes
    }
}

fn changed(key: String, before: Option<&Setting>, after: Option<&Setting>) -> SettingChange {
    let scope = after.or(before).map_or(Scope::Everybody, |setting| setting.scope.clone());
    let value = |setting: Option<&Setting>| setting.map(|setting| setting.value.to_string());
    SettingChange { key, before: value(before), after: value(after), scope }
}

/// A whole item that is new, with all of its settings in one value.
fn added(first: &Setting, all: &[Setting]) -> SettingChange {
    let mine = all.iter().filter(|setting| setting.item == first.item);
    let words = mine.map(|Setting { word, value, .. }| match word.as_str() {
        "" => value.to_string(),
        word => format!("{word} {value}"),
    });
    SettingChange {
        key: first.item.clone(),
        before: None,
        after: Some(list(words)),
        scope: first.scope.clone(),
    }
}

/// Whether those items of a list that both fleets have stand in another order: the part of the list that differs.
fn reordered(prefix: &str, before: &[Setting], after: &[Setting]) -> Option<SettingChange> {
    let items = |settings: &[Setting]| {
        let mut items: Vec<String> = Vec::new();
        for setting in settings.iter().filter(|setting| setting.item.starts_with(prefix)) {
            if items.last() != Some(&setting.item) {
                items.push(setting.item.clone());
            }
        }
        items
    };
    let (mut old, mut new) = (items(before), items(after));
    let (in_old, in_new): (HashSet<_>, HashSet<_>) =
        (old.iter().cloned().collect(), new.iter().cloned().collect());
    old.retain(|item| in_new.contains(item));
    new.retain(|item| in_old.contains(item));
    let first = old.iter().zip(&new).position(|(old, new)| old != new)?;
    let last = old.iter().zip(&new).rposition(|(old, new)| old != new)?;
    let part = |items: &[String]| {
        let name = |item: &String| item.trim_start_matches(prefix).trim_end_matches(']').to_owned();
        Some(list(items[first..=last].iter().map(name)))
    };
    let key = format!("{}.order", prefix.trim_end_matches('['));
    Some(SettingChange { key, before: part(&old), after: part(&new), scope: Scope::Everybody })
}
