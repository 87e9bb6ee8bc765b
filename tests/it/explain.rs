//! `cofferdam explain` as a process: what it says of a tenant of a running router, well or not, and by a fleet file alone.

use std::process::Output;

use serde_json::{Value, json};

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, alone, fleet};
use crate::support::processes::{free_port, run};
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer};

const PLANS: &str = "
plans:
  wide: { sustained: 100k/s, burst: 100000, max_in_flight: 1000 }
  tight: { sustained: 1/h, burst: 2, max_in_flight: 1, quota: { 1d: 5 } }
tenant: { plan_of: { acme: wide, globex: wide, initech: tight } }
";

/// What the command says of a tenant, asked of a router.
async fn explain(router: &TestRouter, tenant: &str, flags: &[&str]) -> Output {
    let at = format!("http://{}", router.admin);
    let words = [&["explain", tenant, "--admin", &at], flags].concat();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let words = move || run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    tokio::task::spawn_blocking(words).await.unwrap()
}

async fn json_of(router: &TestRouter, tenant: &str) -> Value {
    let output = explain(router, tenant, &["--json"]).await;
    assert!(
        matches!(output.status.code(), Some(0 | 1)) && !output.stdout.is_empty(),
        "{}",
        text(output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

async fn findings(router: &TestRouter, tenant: &str) -> Vec<String> {
    serde_json::from_value(json_of(router, tenant).await["findings"].clone()).unwrap()
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_tenant_that_is_well_is_told_with_its_cells_its_reason_and_what_binds_it() {
    let fleet = TestFleet::probed(&format!("{PINS}{PLANS}")).await;
    let mut held = raw::Client::connect(fleet.router.data).await;
    held.send(get("/hang", "acme")).await;
    let reported = async || {
        let told = json_of(&fleet.router, "acme").await;
        let cells = told["placement"]["cells"].as_array()?;
        let all = cells.iter().all(|cell| cell["report"].is_object() && cell["up"] == true);
        (all && told["placement"]["in_flight"] == 1).then_some(told)
    };
    let told = eventually("reports of both cells", reported).await;
    assert_eq!(told["findings"], json!([]));
    let placement = &told["placement"];
    assert_eq!((&placement["shard"], &placement["reason"]), (&json!(["cell-a", "cell-b"]), &json!("pin")));
    assert_eq!((&placement["digest"], &placement["revision"]), (&told["fleet"]["digest"], &json!(1)));
    assert_eq!(
        (&told["limits"]["plan"], &told["limits"]["levels"][1]["in_flight"]),
        (&json!("wide"), &json!(1))
    );

    let printed = text(explain(&fleet.router, "acme", &[]).await.stdout);
    let first = format!(
        "tenant acme is on cell-a (home), cell-b: by the fleet file's pin (its slot is {})",
        placement["slot"]
    );
    assert_eq!(printed.lines().next(), Some(first.as_str()), "{printed}");
    for said in [
        "fleet test at revision 1, digest ",
        "one zone only",
        "Nothing is wrong",
        " up ",
        "plan wide",
        "100000",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    let printed = text(explain(&fleet.router, "zed", &[]).await.stdout);
    assert!(
        printed.contains("! it has no plan, and the fleet file has none for unknown tenants"),
        "{printed}"
    );
    assert!(printed.contains(": by its slot, "), "{printed}");
    held.reset();
    fleet.idle().await;
}

#[tokio::test]
async fn a_cell_that_is_down_and_one_that_is_full_are_named_and_so_is_a_class_without_room() {
    let full = answer(
        "200 OK",
        "endpoint-load-metrics: TEXT application_utilization=0.95, named_metrics.reports=0.95\r\n",
        "a",
    );
    let home = Scripted::start(move |_| Play::Answer(full.clone())).await;
    let (down, probe) = (free_port(), free_port());
    let text = fleet(&[home.address, down], PINS);
    let text =
        text.replace(&format!("\"http://{down}\""), &format!("\"http://{down}\", probe: \"http://{probe}\""));
    let router =
        TestRouter::start(&format!("{text}cell: {{ classes: {{ default: {{}}, reports: {{}} }} }}\n"));
    let told = async || {
        // A report counts for two seconds, so each look needs one that is fresh.
        router.ask(get("/", "acme")).await;
        let found = findings(&router, "acme").await;
        (found.len() == 4).then_some(found)
    };
    let found = eventually("home to be full and the other cell down", told).await;
    assert_eq!(found[0], "none of its cells has room: classes are shed, the lowest priority first");
    assert!(found[1].starts_with("cell-a (home) is full: saturation 0.95, avoided for "), "{found:?}");
    assert!(found[2].starts_with("cell-a (home) has no room for class reports, "), "{found:?}");
    assert_eq!(found[3], "cell-b (2nd) is down");
    let printed = String::from_utf8(explain(&router, "acme", &[]).await.stdout).unwrap();
    assert!(printed.contains("  ! cell-b (2nd) is down\n") && printed.contains("DOWN"), "{printed}");
    assert!(!printed.contains("Nothing is wrong"), "{printed}");
}

#[tokio::test]
async fn limits_that_are_used_up_are_named_and_so_is_an_override() {
    let cell = Scripted::start(|seen| match seen.head.second_word() {
        "/hang" => Play::Hang,
        _ => Play::Answer(answer("200 OK", "", "served")),
    })
    .await;
    let router = TestRouter::start(&alone(cell.address, PLANS));
    assert_eq!(findings(&router, "initech").await, Vec::<String>::new());
    router.ask(get("/", "initech")).await;
    let mut held = raw::Client::connect(router.data).await;
    held.send(get("/hang", "initech")).await;
    router.in_flight(1).await;
    let used_up = [
        "the rate of level tenant is used up (1/h, burst 2)".to_owned(),
        "level tenant has 1 requests in flight of 1".to_owned(),
    ];
    assert_eq!(findings(&router, "initech").await, used_up);
    assert_eq!(router.ask(get("/", "initech")).await.status(), 429);
    let body = r#"{"burst": 9, "for": "1h", "author": "ops", "reason": "a flood"}"#;
    let put = format!(
        "PUT /tenants/initech/limits HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(raw::ask(router.admin, put).await.status(), 200);
    let printed = text(explain(&router, "initech", &[]).await.stdout);
    // One more than its burst of two was sent.
    assert!(printed.contains(" 2 admitted, 1 refused\n"), "{printed}");
    assert!(printed.contains("overridden by ops until ") && printed.contains(": a flood"), "{printed}");
    held.reset();
    router.idle().await;
}

#[tokio::test]
async fn a_tenant_that_an_operator_moved_is_told_with_who_why_and_until_when() {
    let (home, second) = (Scripted::named("home").await, Scripted::named("second").await);
    let router = TestRouter::start(&fleet(
        &[home.address, second.address],
        &format!("{PINS}limits: {{ routers: 1 }}\n"),
    ));
    let body = r#"{"to": ["cell-b", "cell-a"], "for": "1h", "author": "ops", "reason": "an import"}"#;
    let put = format!(
        "PUT /tenants/acme/pin HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    assert_eq!(raw::ask(router.admin, put).await.status(), 200);
    let told = json_of(&router, "acme").await;
    assert_eq!(told["placement"]["shard"], json!(["cell-b", "cell-a"]));
    assert_eq!(told["placement"]["override"]["pin"]["author"], "ops");
    let printed = text(explain(&router, "acme", &[]).await.stdout);
    for said in [
        "tenant acme is on cell-b (home), cell-a: by an operator's pin (its slot is 17581)\n",
        "pin to cell-b, cell-a by ops until ",
        ": an import\n",
        "in this router alone",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    let at = format!("http://{}", router.admin);
    let blast = move || run(&["blast", "--cell", "cell-b", "--admin", &at, "--json"]);
    router.ask(get("/", "acme")).await;
    let blast: Value =
        serde_json::from_slice(&tokio::task::spawn_blocking(blast).await.unwrap().stdout).unwrap();
    assert_eq!(
        blast["groups"][0]["tenants"][0]["tenant"], "acme",
        "at home where the operator said: {blast}"
    );
}

#[tokio::test]
async fn a_tenant_that_is_kept_home_and_a_file_that_was_not_taken_are_told() {
    let mortal = || Scripted::start(|_| Play::Close);
    let (home, second) = (mortal().await, mortal().await);
    let text = fleet(&[home.address, second.address], PINS);
    let router = TestRouter::start(&text);
    router.ask(get("/", "acme")).await;
    router.ask(get("/", "acme")).await;
    assert!(router.reload(&text.replace("fleet: test", "fleet: other")).await.is_err());
    let found = findings(&router, "acme").await;
    assert!(
        found.iter().any(|finding| finding.contains("it is kept to its home cell for a minute")),
        "{found:?}"
    );
    assert!(
        found.iter().any(|finding| finding.starts_with("the last fleet file was not taken: ")),
        "{found:?}"
    );
}

#[tokio::test]
async fn without_a_router_or_a_tenant_there_is_no_answer() {
    let cell = Scripted::named("served").await;
    let router = TestRouter::start(&alone(cell.address, ""));
    for tenant in ["NOT-ONE", "a/b", ".."] {
        let output = explain(&router, tenant, &[]).await;
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{tenant}");
    }
    let nobody = format!("http://{}", free_port());
    let output = run(&["explain", "acme", "--admin", &nobody]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(output.stderr).contains(&format!("could not ask the router at {nobody}")));
}

#[test]
fn a_file_explains_all_that_does_not_change_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    let cells = "fleet: f\nrevision: 7\ncells:\n  - { id: a, zone: one, url: 'http://a:1' }\n  - { id: b, zone: two, url: 'http://a:2' }\n  \
                 - { id: c, zone: two, url: 'http://a:3' }\n";
    std::fs::write(&file, format!("{cells}placement: {{ pins: {{ initech: [c, b] }} }}{PLANS}")).unwrap();
    let explain = |tenant: &str, flags: &[&str]| {
        run(&[&["explain", tenant, "--fleet", file.to_str().unwrap()], flags].concat())
    };
    let told: Value = serde_json::from_slice(&explain("initech", &["--json"]).stdout).unwrap();
    assert_eq!(told["placement"]["shard"], json!(["c", "b"]));
    assert_eq!(told["findings"], json!(["c and b are both in zone two"]));
    assert_eq!(told["limits"]["levels"][1]["quotas"], json!([{ "window_s": 86_400, "tokens": 5 }]));
    let printed = text(explain("acme", &[]).stdout);
    for said in [
        "tenant acme is on ",
        "by its slot, 17581",
        "fleet f at revision 7, ",
        "By the file alone.",
        "plan wide",
        "100000",
    ] {
        assert!(printed.contains(said), "{said}: {printed}");
    }
    assert!(!printed.contains("Nothing is wrong") && !printed.contains("store"), "{printed}");
    assert_eq!(explain("NOT-ONE", &[]).status.code(), Some(2));
}

#[tokio::test]
async fn a_cell_that_the_tenant_leaves_is_told_by_a_router_and_by_a_file() {
    let (home, second) = (Scripted::named("home").await, Scripted::named("second").await);
    let leaving = free_port();
    let url = format!("url: \"http://{leaving}\"");
    let fleet = fleet(&[home.address, second.address, leaving], "")
        .replace(&url, &format!("{url}, state: draining, until: 2999-01-01T00:00:00Z"));
    let router = TestRouter::start(&fleet);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    std::fs::write(&file, fleet).unwrap();
    let line = "cell-c was one of its cells and drains until 2999-01-01T00:00:00Z: ";
    let mut leave = 0;
    for tenant in ["t-0", "t-1", "t-2", "t-3", "t-4", "t-5", "t-6", "t-7"] {
        let told = json_of(&router, tenant).await;
        let draining = told["placement"]["draining"].as_array().unwrap();
        assert!(draining.iter().all(|cell| cell["id"] == "cell-c" && cell["state"] == "draining"), "{told}");
        assert_eq!(told["placement"]["cells"].as_array().unwrap().len(), 2, "nobody is on it any more");
        let by_router = text(explain(&router, tenant, &[]).await.stdout);
        let by_file = text(run(&["explain", tenant, "--fleet", file.to_str().unwrap()]).stdout);
        for printed in [by_router, by_file] {
            assert_eq!(printed.contains(line), !draining.is_empty(), "{printed}");
        }
        leave += draining.len();
    }
    // Two of three pairs of the three cells had it.
    assert!((1..8).contains(&leave), "{leave}");
}
