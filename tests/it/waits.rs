//! What is told of a tenant whose slot waits for its release: on its answers, by the admin listener and by `cofferdam explain`.

use std::collections::BTreeMap;
use std::path::Path;

use cofferdam_fleet::Fleet;
use cofferdam_model::TenantId;
use cofferdam_placement::Placement;
use cofferdam_router::placement_spec;

use crate::release::{AT_ONCE, SLOWLY};
use crate::support::eventually;
use crate::support::files::revision;
use crate::support::processes::run_at;
use crate::support::raw::get;
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

const N_TENANTS: usize = 60;

/// Nine cells that answer with their names.
async fn cells() -> Vec<Scripted> {
    Scripted::cells(9).await
}

/// A file with the first `n` of the cells, by which answers say where their tenants are.
fn file(number: u64, cells: &[Scripted], n: usize, budget: &str, pins: &str) -> String {
    let addresses: Vec<_> = cells[..n].iter().map(|cell| cell.address).collect();
    let rules = format!("tell: true, movement_budget: {budget}, pins: {{ {pins} }}");
    revision(number, &addresses, &format!("limits: {{ routers: 1 }}\nplacement: {{ {rules} }}\n"))
}

/// Where a file has tenants, in the words of an answer.
fn placed(text: &str) -> BTreeMap<String, String> {
    let fleet = Fleet::parse(text, Path::new(".")).unwrap().fleet;
    let placement = Placement::build(&placement_spec(&fleet)).unwrap();
    let told = |name: String| {
        let tenant = TenantId::parse(name.as_bytes(), &fleet.tenant.alphabet).unwrap();
        let cells = placement.place(&tenant).shard.cells().iter();
        let cells: Vec<_> = cells.map(|cell| format!("\"{}\"", fleet.cells[cell.get()].id)).collect();
        (name, format!("cells=({})", cells.join(" ")))
    };
    (0..N_TENANTS).map(|n| told(format!("tenant-{n}"))).collect()
}

/// What an answer to a tenant says of where that is.
async fn told(router: &TestRouter, tenant: &str) -> String {
    let answer = router.ask(get("/", tenant)).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    answer.field("cofferdam-placement").unwrap().to_owned()
}

async fn explained(router: &TestRouter, tenant: &str) -> String {
    let output = run_at(router.admin, &format!("explain {tenant}")).await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn an_answer_says_that_its_cells_are_those_before_until_the_slot_is_released() {
    let cells = cells().await;
    let [old, new] = [(1, 8), (2, 9)].map(|(number, n)| file(number, &cells, n, SLOWLY, ""));
    let router = TestRouter::start(&old);
    router.reload(&new).await.unwrap();
    let (before, after) = (placed(&old), placed(&new));
    let mut n_waiting = 0;
    for (tenant, cells) in &before {
        let changes = *cells != after[tenant];
        let waits = if changes { ";waits" } else { "" };
        assert_eq!(told(&router, tenant).await, format!("revision=2, {cells}{waits}"), "{tenant}");
        let view = router.admin(&format!("/tenants/{tenant}")).await;
        assert_eq!(view["waits_for_release"], changes, "{tenant}");
        n_waiting += usize::from(changes);
    }
    assert!((1..N_TENANTS).contains(&n_waiting), "{n_waiting}");
    router.reload(&file(2, &cells, 9, AT_ONCE, "")).await.unwrap();
    eventually("the end of the release", async || {
        router.admin("/placement/release").await["release"].is_null().then_some(())
    })
    .await;
    for (tenant, cells) in &after {
        assert_eq!(told(&router, tenant).await, format!("revision=2, {cells}"));
    }
}

#[tokio::test]
async fn a_tenant_that_waits_is_told_how_far_the_release_is_and_one_that_is_pinned_waits_for_none() {
    let cells = cells().await;
    let [old, new] = [(1, 8), (2, 9)].map(|(number, n)| file(number, &cells, n, SLOWLY, ""));
    let (before, after) = (placed(&old), placed(&new));
    let mut moving = before.keys().filter(|tenant| before[*tenant] != after[*tenant]);
    let (pinned, waiting) = (moving.next().unwrap(), moving.next().unwrap());
    let pins = format!("{pinned}: [cell-a, cell-b]");
    let router = TestRouter::start(&file(1, &cells, 8, SLOWLY, &pins));
    router.reload(&file(2, &cells, 9, SLOWLY, &pins)).await.unwrap();
    let line = "keeps those before until it is released: revision 2: 0 of ";
    let waits = async |tenant: &str| {
        let view = router.admin(&format!("/tenants/{tenant}")).await;
        let (printed, answer) = (explained(&router, tenant).await, told(&router, tenant).await);
        let waits = view["waits_for_release"] == true;
        assert_eq!(
            (printed.contains(line), answer.ends_with(";waits")),
            (waits, waits),
            "{printed} {answer}"
        );
        waits
    };
    assert!(waits(waiting).await);
    assert!(!waits(pinned).await, "by the file's pin");
    let body = r#"{"to": ["cell-a", "cell-b"], "for": "1h", "reason": "a test", "author": "ops"}"#;
    let path = format!("/tenants/{waiting}/pin");
    assert_eq!(router.tell("PUT", &path, body).await.status(), 200);
    assert!(!waits(waiting).await, "by an operator's pin");
    let ends = r#"{"reason": "a test", "author": "ops"}"#;
    assert_eq!(router.tell("DELETE", &path, ends).await.status(), 200);
    assert!(waits(waiting).await);
}
