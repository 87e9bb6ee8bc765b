//! What several routers say of a tenant's neighbours, or a cell's, as one answer: a tenant that several have seen is one, and its
//! loads are added. Who was asked, and how, is not known here.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use cofferdam_router::{Blast, BlastAnswer, BlastSeen, Group, Load, Neighbour};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What they say together.
#[derive(Debug, Serialize)]
struct Merged {
    fleet: String,
    revision: u64,
    digest: String,
    #[serde(flatten)]
    blast: Blast,
    seen: SeenByAll,
    routers: Vec<Of>,
}

/// What all have seen. How many tenants have a state is not added up: it would count those twice that two know.
#[derive(Debug, Serialize)]
struct SeenByAll {
    /// The shortest.
    window_ms: u64,
    tenants: usize,
    requests: u64,
    /// Who sent more than this to all of them sent one of them more than it has to be counted by.
    counted_above: u64,
}

/// What is one router's own.
#[derive(Debug, Serialize)]
struct Of {
    admin: String,
    revision: u64,
    digest: String,
    cells: Vec<String>,
    seen: BlastSeen,
}

/// Puts answers together, each with where it comes from, and names `most` of each group. Where routers have a tenant in different
/// groups, it is in the one that shares most.
pub(super) fn merged(answers: Vec<(String, Value)>, most: usize) -> anyhow::Result<Value> {
    let read = |(admin, answer): (String, Value)| {
        let answer = BlastAnswer::deserialize(answer)
            .with_context(|| format!("the answer of {admin} is of another version"))?;
        Ok((admin, answer))
    };
    let answers: Vec<(String, BlastAnswer)> = answers.into_iter().map(read).collect::<anyhow::Result<_>>()?;
    let Some((first_admin, first)) = answers.first() else { anyhow::bail!("no router was asked") };
    for (admin, answer) in &answers {
        let (fleet, other) = (&first.fleet, &answer.fleet);
        ensure!(fleet == other, "{first_admin} is a router of fleet {fleet}, and {admin} of {other}");
    }
    let (groups, others) = neighbours(&answers);
    let n_neighbours = groups.iter().map(Vec::len).sum::<usize>() + others;
    let is_seen = answers.iter().any(|(_, answer)| has_seen_itself(answer));
    let mut shares = first.blast.groups.each_ref().map(|group| Group::none(&group.shares));
    for (group, neighbours) in shares.iter_mut().zip(groups) {
        for neighbour in neighbours {
            group.add(neighbour.load, || neighbour, most);
        }
    }
    let seen = || answers.iter().map(|(_, answer)| &answer.seen);
    let merged = Merged {
        fleet: first.fleet.clone(),
        revision: first.revision,
        digest: first.digest.clone(),
        blast: Blast { groups: shares, share_none: others, others: None, ..first.blast.clone() },
        seen: SeenByAll {
            window_ms: seen().map(|seen| seen.window_ms).min().unwrap_or_default(),
            tenants: n_neighbours + usize::from(is_seen),
            requests: seen().map(|seen| seen.requests).sum(),
            counted_above: seen().map(|seen| seen.counted_above).sum(),
        },
        routers: answers.iter().map(Of::new).collect(),
    };
    Ok(serde_json::to_value(merged)?)
}

/// Whether the tenant that is asked for is among those that were counted.
fn has_seen_itself(answer: &BlastAnswer) -> bool {
    let n_others: usize = answer.blast.groups.iter().map(|group| group.n_tenants).sum();
    answer.seen.tenants > n_others + answer.blast.share_none
}

impl Of {
    fn new((admin, answer): &(String, BlastAnswer)) -> Self {
        let BlastAnswer { revision, digest, blast, seen, .. } = answer;
        let (digest, cells) = (digest.clone(), blast.cells.clone());
        Self { admin: admin.clone(), revision: *revision, digest, cells, seen: seen.clone() }
    }
}

/// Everybody once, in groups, who sent most first; and how many share nothing.
fn neighbours(answers: &[(String, BlastAnswer)]) -> ([Vec<Neighbour>; 2], usize) {
    let mut known: BTreeMap<&str, (usize, Neighbour)> = BTreeMap::new();
    for (_, BlastAnswer { blast, .. }) in answers {
        let [most, less] = &blast.groups;
        let groups = [&most.tenants, &less.tenants].into_iter().chain(&blast.others).zip(0..);
        for (neighbour, group) in groups.flat_map(|(group, at)| group.iter().map(move |it| (it, at))) {
            match known.get_mut(neighbour.tenant.as_str()) {
                None => {
                    known.insert(&neighbour.tenant, (group, neighbour.clone()));
                }
                Some((before, all)) => {
                    if group < *before {
                        (*before, all.cells) = (group, neighbour.cells.clone());
                    }
                    all.load = added(all.load, neighbour.load);
                }
            }
        }
    }
    let (mut groups, mut n_others) = (<[Vec<Neighbour>; 2]>::default(), 0);
    for (group, neighbour) in known.into_values() {
        match groups.get_mut(group) {
            Some(group) => group.push(neighbour),
            None => n_others += 1,
        }
    }
    for group in &mut groups {
        let sent = |neighbour: &Neighbour| neighbour.load.map(|load| (load.requests, load.refused));
        // Those who sent as much stay in the order of their names.
        group.sort_by_key(|neighbour| std::cmp::Reverse(sent(neighbour)));
    }
    (groups, n_others)
}

fn added(one: Option<Load>, other: Option<Load>) -> Option<Load> {
    let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
    Some(Load {
        requests: one.requests + other.requests,
        too_high_by_at_most: one.too_high_by_at_most + other.too_high_by_at_most,
        refused: one.refused + other.refused,
        in_flight: one.in_flight + other.in_flight,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What a router says: who shares all cells, some and none, each with what it sent; and whether it has seen the tenant itself.
    fn answer(all: &[(&str, u64)], some: &[(&str, u64)], none: &[(&str, u64)], itself: bool) -> Value {
        let named = |list: &[(&str, u64)], cells: [&str; 2]| -> Vec<Value> {
            let load =
                |n: u64| json!({ "requests": n, "too_high_by_at_most": 1, "refused": 0, "in_flight": 2 });
            list.iter()
                .map(|(name, n)| {
                    let mut told = load(*n);
                    (told["tenant"], told["cells"]) = ((*name).into(), json!(cells));
                    told
                })
                .collect()
        };
        let group = |shares: &str, list: &[(&str, u64)], cells| {
            let requests: u64 = list.iter().map(|(_, n)| n).sum();
            json!({ "shares": shares, "n_tenants": list.len(), "requests": requests,
                    "tenants": named(list, cells), "not_shown": 0 })
        };
        let tenants = all.len() + some.len() + none.len() + usize::from(itself);
        json!({
            "fleet": "f", "revision": 1, "digest": "d", "tenant": "t", "cells": ["a", "b"],
            "groups": [group("all", all, ["b", "a"]), group("some", some, ["b", "c"])],
            "share_none": none.len(), "others": named(none, ["c", "d"]),
            "seen": { "window_ms": 9, "tenants": tenants, "requests": 50, "counted_above": 3, "tenants_with_limits": 7 },
        })
    }

    fn both(one: Value, other: Value) -> Value {
        merged(vec![("http://one".to_owned(), one), ("http://other".to_owned(), other)], 10).unwrap()
    }

    fn loads(group: &Value) -> Vec<(&str, u64)> {
        let tenants = group["tenants"].as_array().unwrap().iter();
        tenants.map(|told| (told["tenant"].as_str().unwrap(), told["requests"].as_u64().unwrap())).collect()
    }

    #[test]
    fn a_tenant_that_two_have_seen_is_one_with_all_that_it_sent() {
        let one = answer(&[("u", 4), ("v", 2)], &[("w", 7)], &[("x", 1)], true);
        let other = answer(&[("v", 9)], &[("y", 1), ("w", 1)], &[("x", 1), ("z", 1)], true);
        let told = both(one, other);
        let [all, some] = [&told["groups"][0], &told["groups"][1]];
        assert_eq!((loads(all), loads(some)), (vec![("v", 11), ("u", 4)], vec![("w", 8), ("y", 1)]));
        assert_eq!(
            (&all["n_tenants"], &all["requests"], &some["requests"]),
            (&json!(2), &json!(15), &json!(9))
        );
        let v = &all["tenants"][0];
        assert_eq!((&v["in_flight"], &v["too_high_by_at_most"]), (&json!(4), &json!(2)));
        // u, v, w, y, x, z and the tenant itself.
        let seen = &told["seen"];
        assert_eq!((&told["share_none"], &seen["tenants"]), (&json!(2), &json!(7)));
        assert_eq!((&seen["requests"], &seen["counted_above"]), (&json!(100), &json!(6)));
        assert_eq!((&told["others"], &told["routers"][1]["admin"]), (&Value::Null, &json!("http://other")));
    }

    #[test]
    fn a_tenant_that_routers_have_in_different_places_is_where_it_shares_most() {
        let told = both(answer(&[], &[], &[("u", 1)], false), answer(&[("u", 2)], &[], &[], false));
        assert_eq!((loads(&told["groups"][0]), &told["share_none"]), (vec![("u", 3)], &json!(0)));
        assert_eq!(
            (&told["groups"][0]["tenants"][0]["cells"], &told["seen"]["tenants"]),
            (&json!(["b", "a"]), &json!(1))
        );
    }

    #[test]
    fn routers_of_two_fleets_have_nothing_in_common() {
        let mut other = answer(&[], &[], &[], false);
        other["fleet"] = "g".into();
        let answers = vec![("one".to_owned(), answer(&[], &[], &[], false)), ("other".to_owned(), other)];
        let error = merged(answers, 10).unwrap_err().to_string();
        assert_eq!(error, "one is a router of fleet f, and other of g");
    }
}
