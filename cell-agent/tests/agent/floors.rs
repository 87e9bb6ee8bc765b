//! What a floor guarantees, what is lent beside it, and whose a freed place is.

use crate::support::{TestBackend, TestCell, fleet, refusal};

fn sections(places: u32, classes: &str) -> String {
    format!(
        "routes:
  - {{ match: {{ path: /search }}, class: search, timeout: 5m }}
  - {{ match: {{ path: /reports }}, class: reports, timeout: 5m }}
cell: {{ max_in_flight: {places}, tenant_share: 1, classes: {{ {classes} }} }}
"
    )
}

// P12, P21
#[tokio::test]
async fn idle_room_is_lent_an_unused_floor_is_not_and_a_ceiling_caps_beside_idle_room() {
    let backend = TestBackend::start();
    let cell =
        TestCell::start(backend.address, &sections(4, "search: { floor: 2, ceiling: 3 }, reports: {}"));
    let borrowed = [cell.go("acme", "/reports/hold"), cell.go("acme", "/reports/hold")];
    backend.entered(2).await;
    let third = cell.get("acme", "/reports").send().await.unwrap();
    assert_eq!(refusal(&third), (503, "cell"), "the two that are free are the floor of search");
    let mut search = vec![cell.go("globex", "/search/hold"), cell.go("globex", "/search/hold")];
    backend.entered(4).await;
    assert_eq!(refusal(&cell.get("globex", "/search").send().await.unwrap()), (503, "cell"));
    backend.release(2);
    for each in borrowed {
        assert_eq!(each.await.unwrap().status(), 200);
    }
    cell.until("reports", "used", 0).await;
    search.push(cell.go("globex", "/search/hold"));
    backend.entered(5).await;
    let fourth = cell.get("globex", "/search").send().await.unwrap();
    assert_eq!(refusal(&fourth), (503, "class"), "a place is idle, and three are its ceiling");
    assert_eq!(cell.saturation().await["used"], 3);
    backend.release(3);
    for each in search {
        assert_eq!(each.await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn a_freed_place_goes_to_a_class_below_its_floor_whoever_came_first_and_has_priority() {
    // As long as floors are what they are, nobody is below its own for want of a place: here one gets its floor while it waits.
    for floor in [1, 0] {
        let classes = |floor| {
            format!(
                "reports: {{ priority: 0, queue: 1, max_wait: 60s }}, \
                 search: {{ priority: 9, floor: {floor}, queue: 1, max_wait: 60s }}"
            )
        };
        let backend = TestBackend::start();
        let cell = TestCell::start(backend.address, &sections(2, &classes(0)));
        let held = [cell.go("acme", "/reports/hold"), cell.go("acme", "/reports/hold")];
        backend.entered(2).await;
        let reports = cell.go("acme", "/reports/hold");
        cell.until("reports", "queued", 1).await;
        let search = cell.go("globex", "/search/hold");
        cell.until("search", "queued", 1).await;
        cell.running.reload(fleet(&sections(2, &classes(floor)))).unwrap();
        backend.release(1);
        backend.entered(3).await;
        let (next, waits) = if floor == 1 { ("search", "reports") } else { ("reports", "search") };
        cell.until(next, "queued", 0).await;
        assert_eq!(cell.class(waits).await["queued"], 1, "with a floor of {floor}, it is the turn of {next}");
        backend.release(3);
        for each in held.into_iter().chain([reports, search]) {
            assert_eq!(each.await.unwrap().status(), 200);
        }
    }
}
