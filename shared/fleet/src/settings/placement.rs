//! The settings of `cells` and `placement`.

use super::setting::{Scope, SettingValue, Settings, list as joined};
use crate::{Cell, Pin, PlacementRules};

pub(super) fn list_cell(cell: &Cell, settings: &mut Settings) {
    let Cell { id, zone, url, probe, weight, state, until } = cell;
    let mut item = settings.item(format!("cells[{id}]"), Scope::Cell(id.clone()));
    item.set("url", url);
    item.set_if("probe", probe.as_ref());
    item.set("zone", zone);
    item.set("weight", weight);
    item.set("state", state);
    item.set_if("until", until.map(humantime::format_rfc3339_seconds));
}

pub(super) fn list(rules: &PlacementRules, cells: &[Cell], settings: &mut Settings) {
    let PlacementRules {
        slots,
        seed,
        shard_size,
        pins,
        quarantine,
        affinity,
        choose,
        inclusion,
        max_inclusion,
        max_new_cells,
        movement_budget,
        tell,
        force,
    } = rules;
    let mut moved = settings.item("placement", Scope::Moved);
    moved.set("slots", slots);
    moved.push("seed", SettingValue::Secret(*seed));
    moved.set("shard_size", shard_size);
    moved.set("inclusion", inclusion.as_str());
    moved.set_if("movement_budget", movement_budget.map(|budget| format!("{budget}/min")));
    let mut everybody = settings.item("placement", Scope::Everybody);
    everybody.set("choose", choose.as_str());
    everybody.set("max_new_cells", max_new_cells);
    everybody.set("tell", tell);
    everybody.set_if("affinity", affinity.as_ref());
    let mut nobody = settings.item("placement", Scope::Nobody);
    nobody.set_if("max_inclusion", max_inclusion.map(|share| share.as_f64()));
    nobody.set_if("force", force.as_ref());
    for (kind, named) in [("pins", pins), ("quarantine", quarantine)] {
        for Pin { tenant, cells: named } in named {
            let ids = joined(named.iter().map(|index| &cells[index.get()].id));
            settings.item(format!("placement.{kind}.{tenant}"), Scope::Tenant(*tenant)).set("", ids);
        }
    }
}
