//! `cofferdam rollout`: how far the release of changed slots is; stops it, and lets it go on. The router's admin listener is asked,
//! and its answer shown.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::asked::At;

/// Show, stop and continue the release of slots that a changed fleet file moves
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show how far the release is
    Show(At),
    /// Let no more slots loose, at any router with the same store
    Stop(At),
    /// Go on where it was stopped
    Go(At),
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let release = |answer: &Value| shown(&answer["release"]);
    match &args.command {
        Command::Show(at) => at.ask("/placement/release", |client, url| client.get(url), release),
        Command::Stop(at) => {
            at.ask("/placement/release/stop", |client, url| client.post(url).json(&Map::new()), release)
        }
        Command::Go(at) => {
            at.ask("/placement/release/go", |client, url| client.post(url).json(&Map::new()), release)
        }
    }
}

/// How far a release is, for people.
pub(crate) fn shown(release: &Value) -> String {
    if release.is_null() {
        return "no release is under way".to_owned();
    }
    let number = |name: &str| release[name].as_u64().unwrap_or_default();
    let (n_loose, n_slots) = (number("n_loose"), number("n_slots"));
    let share = 100.0 * n_loose as f64 / n_slots.max(1) as f64;
    let end = match release["ends_in_s"].as_u64() {
        Some(seconds) => {
            let time = humantime::format_duration(Duration::from_secs(seconds));
            format!("{} a minute, over in {time}", number("per_minute"))
        }
        None => "stopped: `cofferdam rollout go` lets it go on".to_owned(),
    };
    format!(
        "revision {}: {n_loose} of {n_slots} slots are released ({share:.1} %); {end}",
        number("revision")
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_release_is_one_line() {
        assert_eq!(shown(&Value::Null), "no release is under way");
        let mut release =
            json!({ "revision": 7, "n_loose": 500, "n_slots": 2000, "per_minute": 1000, "ends_in_s": 90 });
        let line = "revision 7: 500 of 2000 slots are released (25.0 %); 1000 a minute, over in 1m 30s";
        assert_eq!(shown(&release), line);
        release["ends_in_s"] = Value::Null;
        assert!(shown(&release).ends_with("stopped: `cofferdam rollout go` lets it go on"));
    }
}
