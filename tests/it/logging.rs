//! What a process logs, and which filters it takes.

use std::fs;

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::processes::{RealRouter, run};
use crate::support::raw::{self, get};
use crate::support::scripted::Scripted;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/examples/fleet.yaml");

#[test]
fn a_log_filter_that_names_no_level_is_refused_with_the_levels_in_the_message() {
    let commands: [&[&str]; 4] = [
        &["router", "--fleet", EXAMPLE],
        &["agent", "--fleet", EXAMPLE, "--cell", "cell-a"],
        &["cell", "--fleet", EXAMPLE, "--cell", "cell-a"],
        &["backend"],
    ];
    for command in commands {
        for filter in [
            "inof",
            "warning",
            "INFOO",
            "debug,inof",
            "cofferdam_router=inof",
            "h2=warn,inof",
            "=info",
            "info,,",
            "a b",
        ] {
            let output = run(&[command, &["--log", filter]].concat());
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{command:?} {filter:?}: {said}");
            assert!(said.contains("off, error, warn, info, debug, trace"), "{filter:?}: {said}");
        }
    }
}

#[test]
fn a_bad_filter_in_the_environment_is_refused_as_well() {
    let output = std::process::Command::new(crate::support::processes::EXE)
        .args(["router", "--fleet", EXAMPLE])
        .env("COFFERDAM_LOG", "inof")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("inof") && said.contains("off, error, warn, info, debug, trace"), "{said}");
}

#[tokio::test]
async fn refusals_are_summed_up_in_one_line_for_each_reason_and_class_and_silence_says_nothing() {
    let cell = Scripted::named("cell").await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.yaml");
    let plans = "plans: { small: { sustained: 1/h, burst: 2, max_in_flight: 5 } }\n\
                 tenant: { unknown: small }\n";
    fs::write(&file, alone(cell.address, plans)).unwrap();
    let flags = ["--log-format", "json", "--refusals-every", "1s"];
    let router = RealRouter::start("router", &file, &flags, &[]).await;
    for _ in 0..12 {
        raw::ask(router.data, get("/", "acme")).await;
    }
    for _ in 0..5 {
        raw::ask(router.data, get("/", "globex")).await;
    }
    let summaries = || -> Vec<serde_json::Value> {
        let log = router.process.log();
        let lines = log.lines().filter(|line| line.contains("requests refused"));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let counted =
        |lines: &[serde_json::Value]| lines.iter().map(|line| line["n"].as_u64().unwrap()).sum::<u64>();
    let lines = eventually("every refusal to be summed up", async || {
        let lines = summaries();
        (counted(&lines) == 13).then_some(lines)
    })
    .await;
    for line in &lines {
        assert_eq!(
            (line["level"].as_str(), line["reason"].as_str()),
            (Some("WARN"), Some("tenant_rate")),
            "{line}"
        );
        assert_eq!(line["class"], "default", "{line}");
    }
    let told: String = lines.iter().map(|line| line["tenants"].as_str().unwrap()).collect();
    assert!(told.contains("acme (") && told.contains("globex ("), "{told}");
    // A well request, and some more seconds of the summary's own: nothing is added.
    let before = summaries().len();
    let began = std::time::Instant::now();
    eventually("three rounds of silence", async || {
        (began.elapsed() > std::time::Duration::from_secs(3)).then_some(())
    })
    .await;
    assert_eq!(summaries().len(), before);
}
