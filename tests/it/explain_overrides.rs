//! What `cofferdam explain` says of pins, quarantines and moves of operators': whether each binds, and where it does not, why.

use serde_json::{Value, json};

use crate::support::eventually;
use crate::support::files::{cell_id, in_states};
use crate::support::processes::run_at;
use crate::support::raw::{self, get};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, ok};

const STATES: [&str; 7] = ["active", "active", "active", "active", "dedicated", "quarantine", "quarantine"];

const REST: &str = "
tenant: { unknown: free }
plans: { free: { sustained: 1M/s, burst: 1M, max_in_flight: 1000 } }
limits: { routers: 1 }
placement: { pins: { filed: [cell-a, cell-b] }, quarantine: { mallory: [cell-f] } }
";

/// A router over cells of which each is there for something.
struct Stage {
    cells: Vec<Scripted>,
    router: TestRouter,
}

impl Stage {
    async fn start() -> Self {
        let mut cells = Vec::new();
        for index in 0..STATES.len() {
            let answer = ok(&cell_id(index));
            let play =
                move |path: &str| if path == "/hang" { Play::Hang } else { Play::Answer(answer.clone()) };
            cells.push(Scripted::start(move |seen| play(seen.head.second_word())).await);
        }
        let router = TestRouter::start(&Self::file(&cells, 1, &STATES, REST));
        Self { cells, router }
    }

    fn file(cells: &[Scripted], revision: u64, states: &[&str], rest: &str) -> String {
        let addresses: Vec<_> = cells.iter().map(|cell| cell.address).collect();
        in_states(revision, &addresses, states, rest)
    }

    /// Takes a file in which these cells are disabled.
    async fn without(&self, gone: &[usize], rest: &str) {
        let mut states = STATES;
        gone.iter().for_each(|&cell| states[cell] = "disabled");
        self.router.reload(&Self::file(&self.cells, 2, &states, rest)).await.unwrap();
    }

    async fn put(&self, tenant: &str, of: &str, to: &[&str]) {
        let body = json!({ "to": to, "for": "1h", "reason": "a test", "author": "ops" }).to_string();
        let answer = self.router.tell("PUT", &format!("/tenants/{tenant}/{of}"), &body).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
    }

    async fn explain(&self, words: &str) -> String {
        let output = run_at(self.router.admin, &format!("explain {words}")).await;
        assert!(matches!(output.status.code(), Some(0 | 1)) && !output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn json(&self, tenant: &str) -> Value {
        serde_json::from_str(&self.explain(&format!("{tenant} --json")).await).unwrap()
    }
}

/// How a word stands, as the admin listener has it, and that the text and the findings have it too.
async fn stands(stage: &Stage, tenant: &str, of: &str, to: &str, standing: &str) {
    let told = stage.json(tenant).await;
    let said = &told["placement"]["override"][of];
    let is_so = standing == "binds";
    assert_eq!(said["why"].is_null(), is_so, "{said}");
    assert_eq!(said["binds"] == true, standing.starts_with("binds"), "{said}");
    // Where it does not, the file's own word may be of the same kind.
    assert!(said["binds"] == false || told["placement"]["reason"] == of, "{told}");
    let printed = stage.explain(tenant).await;
    let (line, end) = (format!("\n{of} to {to} by ops until "), format!(" ({standing}): a test\n"));
    let (_, rest) = printed.split_once(&line).unwrap_or_else(|| panic!("{line}: {printed}"));
    assert!(rest.split_inclusive('\n').next().unwrap().ends_with(&end), "{end}: {printed}");
    let finding = format!("the operator's {of} to {to} {standing}");
    assert_eq!(told["findings"].as_array().unwrap().contains(&json!(finding)), !is_so, "{told}");
    assert_eq!(printed.contains(&format!("  ! {finding}\n")), !is_so, "{printed}");
}

#[tokio::test]
async fn a_pin_below_a_quarantine_is_told_with_what_comes_before_it() {
    let stage = Stage::start().await;
    let (pair, wards) = ("cell-e, cell-a", "cell-f, cell-g");
    stage.put("acme", "pin", &["cell-e", "cell-a"]).await;
    stands(&stage, "acme", "pin", pair, "binds").await;
    stage.put("acme", "quarantine", &["cell-f", "cell-g"]).await;
    stands(&stage, "acme", "pin", pair, "does not bind: the operator's quarantine comes before it").await;
    stands(&stage, "acme", "quarantine", wards, "binds").await;
    let list = stage.router.admin("/placement").await;
    let binds = ["quarantine", "pin"].map(|of| list["overrides"][0][of]["binds"] == true);
    assert_eq!(binds, [true, false], "{list}");
    let ends = r#"{"reason": "a test", "author": "ops"}"#;
    assert_eq!(stage.router.tell("DELETE", "/tenants/acme/quarantine", ends).await.status(), 200);
    stands(&stage, "acme", "pin", pair, "binds").await;

    stage.put("mallory", "pin", &["cell-e", "cell-a"]).await;
    stands(&stage, "mallory", "pin", pair, "does not bind: the fleet file's quarantine comes before it")
        .await;
    let printed = stage.explain("mallory").await;
    assert!(printed.contains("is on cell-f (home): by the fleet file's quarantine"), "{printed}");
}

#[tokio::test]
async fn a_word_whose_cells_the_file_has_no_more_is_told_with_what_holds_instead() {
    let stage = Stage::start().await;
    for tenant in ["acme", "filed"] {
        stage.put(tenant, "pin", &["cell-e", "cell-c"]).await;
    }
    let printed = stage.explain("filed").await;
    assert!(printed.contains("is on cell-e (home), cell-c: by an operator's pin"), "{printed}");
    stage.put("globex", "quarantine", &["cell-f"]).await;
    // The file keeps nobody apart any more, and neither the dedicated cell nor one of those for quarantine is left.
    stage.without(&[4, 5], &REST.replace("mallory: [cell-f]", "")).await;
    for tenant in ["acme", "filed"] {
        let why = format!("does not bind: pin of {tenant} names cell cell-e, which is disabled");
        stands(&stage, tenant, "pin", "cell-e, cell-c", &why).await;
    }
    let printed = stage.explain("filed").await;
    assert!(printed.contains("is on cell-a (home), cell-b: by the fleet file's pin"), "{printed}");
    let why = "quarantine of globex names cell cell-f, which is disabled: the tenant is kept apart on cell-g";
    stands(&stage, "globex", "quarantine", "cell-f", &format!("binds elsewhere: {why}")).await;
}

#[tokio::test]
async fn a_move_that_goes_on_is_told_with_its_phase_and_its_end_is_not() {
    let stage = Stage::start().await;
    let mut hangs = raw::Client::connect(stage.router.data).await;
    hangs.send(get("/hang", "filed")).await;
    stage.router.in_flight(1).await;
    let to = ["cell-c", "cell-d"];
    let body = json!({ "to": to, "timeout": "20s", "for": "1h", "reason": "a test", "author": "ops" });
    assert_eq!(stage.router.tell("PUT", "/tenants/filed/move", &body.to_string()).await.status(), 200);
    let held = "holding (router alone: holding, 1 in flight)";
    let printed = eventually("a move that holds", async || {
        Some(stage.explain("filed").await).filter(|printed| printed.contains(held))
    })
    .await;
    let line = printed.lines().find(|line| line.starts_with("it is being moved to cell-c, cell-d, until "));
    assert!(line.is_some_and(|line| line.ends_with(&format!(" at most: {held}"))), "{printed}");
    assert_eq!(stage.router.tell("DELETE", "/tenants/filed/move", "").await.status(), 200);
    assert!(!stage.explain("filed").await.contains("is being moved"));
    hangs.reset();
}
