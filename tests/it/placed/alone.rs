//! One router: what is said binds at once, in the order that the rules give it, and ends as was said.

use serde_json::{Value, json};

use super::{
    Cells, DEDICATED, ENDED, REST, STATES, WARDS, json_of, others, pin, place, quarantine, served, to,
};
use crate::support::eventually;
use crate::support::processes::{RealRouter, run_at};
use crate::support::routers::{TestRouter, settings};

#[tokio::test]
async fn a_pin_binds_at_once_is_shown_everywhere_and_ends_when_it_is_taken_away() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let before = place(&router, "acme").await;
    let other = others(&router, "acme").await;
    let shown = json_of(&pin(&router, "acme", &to(&format!("{} {DEDICATED}", other[0]), "1h")).await);
    assert_eq!((&shown["shard"], &shown["reason"]), (&json!([other[0], DEDICATED]), &json!("pin")));
    assert_eq!(shown["override"]["pin"]["author"], "ops");
    assert_eq!(served(&router, "acme").await, other[0]);
    let list = router.admin("/placement").await;
    assert_eq!((&list["overrides_are"], &list["overrides"][0]["tenant"]), (&json!("local"), &json!("acme")));
    assert_eq!(list["overrides"][0]["pin"]["to"], json!([other[0], DEDICATED]));
    let metrics = router.metrics().await;
    assert_eq!(metrics.sum("cofferdam_placement_overrides", &[]), 1.0);
    assert_eq!(metrics.sum("cofferdam_placement_changes_total", &["change=\"pin\"", "made"]), 1.0);

    let ended = router.tell("DELETE", "/tenants/acme/pin", ENDED).await;
    assert_eq!(json_of(&ended)["override"]["pin"], Value::Null);
    assert_eq!(place(&router, "acme").await, before);
    assert_eq!(served(&router, "acme").await, before.0[0]);
    let again = router.tell("DELETE", "/tenants/acme/pin", ENDED).await;
    let why = "tenant acme has no pin that an operator has set while routers run\n";
    assert_eq!((again.status(), again.text()), (404, why.to_owned()));
}

#[tokio::test]
async fn a_quarantine_comes_before_a_pin_and_what_is_said_while_routers_run_before_the_file() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let by_slot = place(&router, "acme").await;
    let other = others(&router, "acme").await;
    let pair = format!("{} {}", other[0], other[1]);
    // Nobody names the cells: those that are there for it.
    let shown = json_of(&quarantine(&router, "acme", &to("", "1h")).await);
    assert_eq!((&shown["shard"], &shown["reason"]), (&json!(WARDS), &json!("quarantine")));
    let pinned = json_of(&pin(&router, "acme", &to(&pair, "1h")).await);
    assert_eq!((&pinned["shard"], &pinned["override"]["pin"]["to"]), (&json!(WARDS), &json!(&other[..2])));
    assert_eq!(served(&router, "acme").await, WARDS[0]);
    json_of(&router.tell("DELETE", "/tenants/acme/quarantine", ENDED).await);
    assert_eq!(served(&router, "acme").await, other[0]);
    json_of(&router.tell("DELETE", "/tenants/acme/pin", ENDED).await);
    assert_eq!(place(&router, "acme").await, by_slot);

    // A pin comes before the file's, a quarantine of the file before a pin, and a quarantine before that.
    json_of(&pin(&router, "pinned", &to("cell-d cell-c", "1h")).await);
    assert_eq!(served(&router, "pinned").await, "cell-d");
    json_of(&pin(&router, "mallory", &to("cell-d cell-c", "1h")).await);
    assert_eq!(place(&router, "mallory").await, (vec!["cell-i".to_owned()], "quarantine".to_owned()));
    json_of(&quarantine(&router, "mallory", &to("cell-h", "1h")).await);
    assert_eq!(served(&router, "mallory").await, "cell-h");
}

#[tokio::test]
async fn what_is_said_ends_by_itself_and_how_far_a_tenant_got_about_is_remembered() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let (before, other) = (place(&router, "acme").await, others(&router, "acme").await);
    // Told again where a busy machine took longer than it lasts.
    eventually("a short pin that binds", async || {
        json_of(&pin(&router, "acme", &to(&other[..2].join(" "), "1s")).await);
        (served(&router, "acme").await == other[0]).then_some(())
    })
    .await;
    eventually("the end of the pin", async || (place(&router, "acme").await == before).then_some(())).await;
    assert_eq!(served(&router, "acme").await, before.0[0]);
    // Two were touched, a quarantine makes four, and then no more are allowed; those that it had, are.
    json_of(&quarantine(&router, "acme", &to("", "1h")).await);
    let refused = pin(&router, "acme", &to(&other[2..4].join(" "), "1h")).await;
    let why = format!("{}, {} would make 6 new cells within an hour", other[2], other[3]);
    assert!(refused.status() == 409 && refused.text().starts_with(&why), "{refused:?}");
    json_of(&pin(&router, "acme", &to(&other[..2].join(" "), "1h")).await);
    assert_eq!(router.admin("/placement").await["overrides"][0]["new_cells"].as_array().unwrap().len(), 4);
}

#[tokio::test]
async fn an_override_whose_cell_is_gone_is_left_out_told_and_binds_again_once_the_cell_is_back() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let before = place(&router, "acme").await;
    let pair = format!("{} {DEDICATED}", others(&router, "acme").await[0]);
    json_of(&pin(&router, "acme", &to(&pair, "1h")).await);
    let without = STATES.map(|state| if state == "dedicated" { "disabled" } else { state });
    router.reload(&cells.file(2, &without, REST)).await.unwrap();
    assert_eq!(place(&router, "acme").await, before);
    let list = router.admin("/placement").await;
    assert_eq!(list["left_out"][0]["tenant"], "acme");
    assert_eq!(list["left_out"][0]["why"], "pin of acme names cell cell-g, which is disabled");
    let metric = async |name: &str| router.metrics().await.sum(&format!("cofferdam_placement_{name}"), &[]);
    assert_eq!((metric("overrides").await, metric("overrides_left_out").await), (0.0, 1.0));
    assert_eq!(served(&router, "acme").await, before.0[0]);
    router.reload(&cells.file(3, &STATES, REST)).await.unwrap();
    assert_eq!(place(&router, "acme").await.1, "pin");
    assert_eq!((metric("overrides").await, metric("overrides_left_out").await), (1.0, 0.0));
}

/// What the cells are there for, with one that is there for something else.
fn but(cell: &str, state: &'static str) -> [&'static str; 9] {
    let at = usize::from(cell.as_bytes()[5] - b'a');
    let mut states = STATES;
    states[at] = state;
    states
}

#[tokio::test]
async fn who_is_in_quarantine_stays_apart_while_the_fleet_has_any_cell_for_it() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let before = place(&router, "acme").await;
    json_of(&quarantine(&router, "acme", &to("cell-h", "1h")).await);
    let rest = REST.replace("mallory: [cell-i]", "");
    // The one that was named is gone, and there is another one.
    router.reload(&cells.file(2, &but("cell-h", "disabled"), &rest)).await.unwrap();
    assert_eq!(place(&router, "acme").await, (vec!["cell-i".to_owned()], "quarantine".to_owned()));
    assert_eq!(served(&router, "acme").await, "cell-i");
    let list = router.admin("/placement").await;
    let why = "quarantine of acme names cell cell-h, which is disabled: the tenant is kept apart on cell-i";
    assert_eq!((&list["instead"][0]["why"], &list["left_out"]), (&json!(why), &json!([])));
    // Of two that were named one stays.
    json_of(&quarantine(&router, "acme", &to("cell-i", "1h")).await);
    router.reload(&cells.file(3, &STATES, &rest)).await.unwrap();
    json_of(&quarantine(&router, "acme", &to("cell-h cell-i", "1h")).await);
    router.reload(&cells.file(4, &but("cell-i", "disabled"), &rest)).await.unwrap();
    assert_eq!(place(&router, "acme").await, (vec!["cell-h".to_owned()], "quarantine".to_owned()));
    // None is left, and that is told.
    let none = STATES.map(|state| if state == "quarantine" { "disabled" } else { state });
    router.reload(&cells.file(5, &none, &rest)).await.unwrap();
    assert_eq!(place(&router, "acme").await, before);
    let why = router.admin("/placement").await["left_out"][0]["why"].to_string();
    assert!(why.contains("the fleet has no cell for quarantine: the tenant is not kept apart"), "{why}");
    assert_eq!(router.metrics().await.sum("cofferdam_placement_overrides_left_out", &[]), 1.0);
}

#[tokio::test]
async fn who_is_kept_apart_elsewhere_than_was_said_stays_there_and_that_counts_as_new_cells() {
    let cells = Cells::start().await;
    let rest = REST.replace("mallory: [cell-i]", "");
    // Those from the fifth on are for quarantine.
    let file = |revision: u64, gone: &[usize]| {
        let mut states = ["quarantine"; 9];
        states[..4].fill("active");
        gone.iter().for_each(|at| states[*at] = "disabled");
        cells.file(revision, &states, &rest)
    };
    let router = TestRouter::with(&file(1, &[]), settings(), 1);
    let pair = others(&router, "acme").await[..2].join(" ");
    let counted = async |new: &[&str]| {
        eventually("new cells", async || {
            let said = router.admin("/tenants/acme").await["override"]["new_cells"].clone();
            let cells: Vec<_> = said.as_array().unwrap().iter().map(|new| new["cell"].clone()).collect();
            (cells == new).then_some(())
        })
        .await;
    };
    json_of(&quarantine(&router, "acme", &to("cell-e cell-f", "1h")).await);
    router.reload(&file(2, &[4, 5])).await.unwrap();
    assert_eq!(place(&router, "acme").await.0, ["cell-g", "cell-h"]);
    counted(&["cell-e", "cell-f", "cell-g", "cell-h"]).await;
    // By now there are fewer on another one, and it does not go there as well.
    json_of(&quarantine(&router, "globex", &to("cell-g cell-h", "1h")).await);
    router.reload(&file(3, &[4, 5])).await.unwrap();
    assert_eq!(place(&router, "acme").await.0, ["cell-g", "cell-h"]);
    assert_eq!(served(&router, "acme").await, "cell-g");
    // It has to, however many it has been to.
    router.reload(&file(4, &[4, 5, 6])).await.unwrap();
    assert_eq!(place(&router, "acme").await.0, ["cell-h", "cell-i"]);
    counted(&["cell-e", "cell-f", "cell-g", "cell-h", "cell-i"]).await;
    let refused = pin(&router, "acme", &to(&pair, "1h")).await;
    assert!(refused.status() == 409 && refused.text().contains("7 new cells"), "{refused:?}");
}

#[tokio::test]
async fn who_is_put_in_quarantine_without_a_word_where_comes_to_the_cells_with_the_fewest_others() {
    let cells = Cells::start().await;
    let states = STATES.map(|state| if state == "dedicated" { "quarantine" } else { state });
    let router = TestRouter::with(&cells.file(1, &states, REST), settings(), 1);
    for (tenant, to_be) in [
        ("acme", ["cell-g", "cell-h"]),
        // The file keeps mallory on the third one.
        ("globex", ["cell-g", "cell-h"]),
        ("initech", ["cell-i", "cell-g"]),
        // Who is there already is not counted against itself.
        ("acme", ["cell-h", "cell-g"]),
    ] {
        let shown = json_of(&quarantine(&router, tenant, &to("", "1h")).await);
        assert_eq!(shown["shard"], json!(to_be), "{tenant}");
    }
}

#[tokio::test]
async fn a_pin_keeps_its_cell_that_drains_until_that_goes_and_outlives_another_size_of_shard() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let other = others(&router, "acme").await;
    json_of(&pin(&router, "acme", &to(&other[..2].join(" "), "1h")).await);
    let is_pinned = async || {
        let placed = place(&router, "acme").await;
        placed == (other[..2].to_vec(), "pin".to_owned()) && served(&router, "acme").await == other[0]
    };
    assert!(is_pinned().await);
    // The file's own pin is of two, and a shard may have three now.
    let rest = |size: u32, step: u32| {
        REST.replace("max_in_flight: 1000", &format!("max_in_flight: 1000, shard_size: {size}"))
            .replace("pins: { pinned: [cell-a, cell-b] }", &format!("force: step {step}"))
    };
    router.reload(&cells.file(2, &STATES, &rest(3, 2))).await.unwrap();
    assert!(is_pinned().await);
    let drains = but(&other[0], "draining, until: 9999-01-01T00:00:00Z");
    router.reload(&cells.file(3, &drains, &rest(2, 3))).await.unwrap();
    assert!(is_pinned().await, "{:?}", router.admin("/placement").await);
    let gone = but(&other[0], "draining, until: 2020-01-01T00:00:00Z");
    router.reload(&cells.file(4, &gone, &rest(2, 4))).await.unwrap();
    assert_eq!(place(&router, "acme").await.1, "slot");
}

#[tokio::test]
async fn who_changes_and_who_ends_something_and_why_is_in_the_log() {
    let (cells, folder) = (Cells::start().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, cells.file(1, &STATES, REST)).unwrap();
    let router = RealRouter::start("router", &file, &[], &[]).await;
    for words in [
        "pin acme --to cell-a,cell-b --for 1h --reason import --author ann",
        "unpin acme --reason imported --author bob",
        "quarantine acme --for 1h --reason poison --author cid",
        "release acme --reason healed --author dan",
    ] {
        let done = run_at(router.admin, words).await;
        assert!(done.status.success(), "{words}: {done:?}");
    }
    let log = router.process.log();
    for (what, author, reason) in [
        ("set=pin", "ann", "import"),
        ("ended=pin", "bob", "imported"),
        ("set=quarantine", "cid", "poison"),
        ("ended=quarantine", "dan", "healed"),
    ] {
        let (author, reason) = (format!("author=\"{author}\""), format!("reason=\"{reason}\""));
        let has = |line: &str| [what, &author, &reason].iter().all(|word| line.contains(word));
        assert!(log.lines().any(has), "{what}: {log}");
    }
}

#[tokio::test]
async fn the_command_pins_unpins_quarantines_and_releases() {
    let cells = Cells::start().await;
    let router = cells.router(settings());
    let other = others(&router, "acme").await;
    let command = async |words: &str| run_at(router.admin, words).await;
    let prints = async |words: &str| {
        let done = command(words).await;
        assert!(done.status.success(), "{words}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let to = other[..2].join(",");
    let printed = prints(&format!("pin acme --to {to} --for 1d --reason import --author ann")).await;
    let place = format!("tenant acme is on {} (reason: pin)", other[..2].join(", "));
    assert!(printed.starts_with(&place) && printed.contains("by ann until"), "{printed}");
    assert!(printed.contains(": import") && printed.contains("in this router alone"), "{printed}");
    assert_eq!(served(&router, "acme").await, other[0]);
    let printed = prints("quarantine acme --for 1h --reason poison").await;
    assert!(printed.starts_with("tenant acme is on cell-h, cell-i (reason: quarantine)"), "{printed}");
    assert!(prints("release acme --reason healed").await.contains("(reason: pin)"));
    assert!(prints("unpin acme --reason done").await.contains("(reason: slot)"));
    let shown: Value =
        serde_json::from_str(&prints("pin acme --json --to cell-a,cell-b --for 1h --reason r").await)
            .unwrap();
    assert_eq!(shown["shard"], json!(["cell-a", "cell-b"]));
    // The user who runs it, whatever their name is here.
    assert!(!shown["override"]["pin"]["author"].as_str().unwrap().is_empty());
    for (words, code, why) in [
        ("release acme --reason r", 1, "cofferdam: tenant acme has no quarantine"),
        ("release acme", 2, "--reason"),
        ("unpin acme", 2, "--reason"),
        ("pin acme --to cell-a,cell-z --for 1h --reason r", 2, "pin of acme names the unknown cell cell-z"),
        ("pin acme --to cell-a,cell-b --reason r", 2, "--for"),
        ("pin acme --to cell-a,cell-b --for 1h", 2, "--reason"),
        ("pin acme --for 1h --reason r", 2, "--to"),
        ("pin ../cells --to cell-a,cell-b --for 1h --reason r", 2, "is not a tenant"),
    ] {
        let done = command(words).await;
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.code() == Some(code) && said.contains(why), "{words}: {said}");
    }
}
