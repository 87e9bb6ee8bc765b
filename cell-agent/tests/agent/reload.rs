//! A fleet file that is taken while the agent runs: nobody loses a place, or a place in line.

use crate::support::{TestBackend, TestCell, eventually, fleet, refusal};

fn sections(places: u32, more: &str) -> String {
    format!(
        "cell: {{ max_in_flight: {places}, tenant_share: 1, classes: {{ default: {{ queue: 4, max_wait: 60s }} {more} }} }}"
    )
}

// P39: a plan change that is ignored.
#[tokio::test]
async fn a_lowered_cell_drains_and_who_waits_stays_in_line() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, &sections(3, ""));
    let held = [cell.go("a", "/hold"), cell.go("b", "/hold"), cell.go("c", "/hold")];
    backend.entered(3).await;
    let waits = cell.go("d", "/hold");
    cell.until("default", "queued", 1).await;
    cell.running.reload(fleet(&sections(1, ""))).unwrap();
    assert_eq!(cell.saturation().await["limit"], 1);
    backend.release(2);
    cell.until("default", "used", 1).await;
    assert_eq!(cell.class("default").await["queued"], 1, "one is held still, and one is what there is");
    backend.release(1);
    backend.entered(4).await;
    backend.release(1);
    for each in held.into_iter().chain([waits]) {
        assert_eq!(each.await.unwrap().status(), 200);
    }
    eventually(async || cell.saturation().await["used"] == 0).await;
}

#[tokio::test]
async fn of_sixty_held_where_ten_may_be_nobody_is_let_in_until_fewer_than_ten_are_left() {
    let backend = TestBackend::start();
    let sections = |places| {
        format!("cell: {{ max_in_flight: {places}, tenant_share: 1, classes: {{ default: {{}} }} }}")
    };
    let cell = TestCell::start(backend.address, &sections(100));
    let held: Vec<_> = (0..60).map(|_| cell.go("acme", "/hold")).collect();
    backend.entered(60).await;
    cell.running.reload(fleet(&sections(10))).unwrap();
    let now = cell.saturation().await;
    assert_eq!((&now["used"], &now["limit"]), (&60.into(), &10.into()), "at once, and nobody lost a place");
    for (ends, left) in [(0, 60), (25, 35), (25, 10)] {
        backend.release(ends);
        cell.until("default", "used", left).await;
        assert_eq!(refusal(&cell.get("acme", "/").send().await.unwrap()), (503, "cell"), "{left} are left");
    }
    backend.release(1);
    cell.until("default", "used", 9).await;
    assert_eq!(cell.get("acme", "/").send().await.unwrap().status(), 200);
    backend.release(9);
    for each in held {
        assert_eq!(each.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_class_that_comes_is_used_and_reported_and_one_that_goes_ends_what_it_has() {
    let backend = TestBackend::start();
    let route = "routes: [{ match: { path: /search }, class: search }, { match: { path: / } }]\n";
    let with_search = format!("{route}{}", sections(4, ", search: { ceiling: 1 }"));
    let cell = TestCell::start(backend.address, &sections(4, ""));
    cell.running.reload(fleet(&with_search)).unwrap();
    let held = cell.go("a", "/search/hold");
    cell.until("search", "used", 1).await;
    let refused = cell.get("a", "/search").send().await.unwrap();
    assert_eq!(refusal(&refused), (503, "class"));
    let load = refused.headers()["endpoint-load-metrics"].to_str().unwrap().to_owned();
    assert!(load.ends_with("named_metrics.search=1.000"), "{load}");
    assert!(cell.probe("/metrics").await.1.contains(r#"cofferdam_agent_places_in_use{class="search"} 1"#));

    cell.running.reload(fleet(&sections(4, ""))).unwrap();
    assert_eq!(cell.saturation().await["used"], 1, "what it held is held");
    let answer = cell.get("a", "/search").send().await.unwrap();
    assert_eq!(answer.status(), 200, "it is of another class now");
    assert!(!answer.headers()["endpoint-load-metrics"].to_str().unwrap().contains("search"));
    backend.release(1);
    assert_eq!(held.await.unwrap().status(), 200);
    eventually(async || cell.saturation().await["used"] == 0).await;
}

#[tokio::test]
async fn what_may_not_follow_changes_nothing_and_says_why() {
    let backend = TestBackend::start();
    let cell = TestCell::start(backend.address, &format!("revision: 5\n{}", sections(3, "")));
    let six = fleet(&format!("revision: 6\n{}", sections(2, "")));
    let (mut other, mut without) = (six.clone(), six.clone());
    other.name = cofferdam_model::FleetName::parse("other").unwrap();
    without.cells.retain(|cell| cell.id.as_str() != "cell-a");
    let older = fleet(&format!("revision: 4\n{}", sections(2, "")));
    for (fleet, why) in [
        (other, "fleet other is not test, which runs"),
        (without, "cell cell-a is not in the file any more"),
        (older, "revision 4 is below 5, which runs"),
    ] {
        assert_eq!(cell.running.reload(fleet).unwrap_err().to_string(), why);
        assert_eq!(cell.saturation().await["limit"], 3);
    }
    cell.running.reload(six).unwrap();
    assert_eq!(cell.saturation().await["limit"], 2);
}

// P3, P9: a dependency that hangs takes its cap and no more, of the places and of the queue.
#[tokio::test]
async fn a_hung_dependency_takes_its_cap_and_no_more_and_its_refusals_name_it() {
    let backend = TestBackend::start();
    let cell = TestCell::start(
        backend.address,
        "routes:
  - { match: { path: /pay }, dependency: bank }
  - { match: { path: /refund }, dependency: bank, max_in_flight: 1 }
  - { match: { path: / } }
cell:
  max_in_flight: 8
  tenant_share: 1
  dependencies: { bank: { max_in_flight: 2 } }
",
    );
    let hung = [cell.go("a", "/pay/hold"), cell.go("b", "/refund/hold")];
    backend.entered(2).await;
    let third = cell.get("c", "/pay").send().await.unwrap();
    assert_eq!(refusal(&third), (503, "class"));
    assert!(third.text().await.unwrap().contains(r#""cap":"dependency bank""#));
    for _ in 0..20 {
        assert_eq!(cell.get("c", "/other").send().await.unwrap().status(), 200);
    }
    cell.until_metric(r#"cofferdam_agent_cap_in_use{kind="dependency",name="bank"} 2.0"#).await;
    cell.until_metric(r#"cofferdam_agent_cap_refusals_total{kind="dependency",name="bank"} 1"#).await;
    cell.until_metric(r#"cofferdam_agent_cap_in_use{kind="route",name="* /refund"} 1.0"#).await;
    backend.release(2);
    for each in hung {
        assert_eq!(each.await.unwrap().status(), 200);
    }
    cell.until_metric(r#"cofferdam_agent_cap_in_use{kind="dependency",name="bank"} 0.0"#).await;
}
