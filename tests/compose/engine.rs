//! The container engine of this machine, as processes of its command. It knows nothing of any fleet.

use std::io::Write;
use std::process::{Command, Stdio};

/// Whether there is an engine; else why not.
pub(crate) fn answers() -> Result<(), String> {
    run(Command::new("docker").arg("info")).map(|_| ())
}

/// Says, past the test's own captured output, that it did not run.
pub(crate) fn skipped(test: &str, why: &str) {
    let why = why.lines().last().unwrap_or_default();
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no container engine ({why})");
}

/// The command of compose: the engine's own, or the older one beside it.
pub(crate) fn compose() -> Command {
    let mut own = Command::new("docker");
    own.arg("compose");
    if run(Command::new("docker").args(["compose", "version"])).is_ok() {
        return own;
    }
    Command::new("docker-compose")
}

/// What a program printed; an error has what it said about it.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{command:?}: {}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr)))
}

/// The same for what has to succeed.
#[track_caller]
pub(crate) fn must(command: &mut Command) -> String {
    run(command).unwrap_or_else(|error| panic!("{error}"))
}

/// A container's health, as the engine sees it.
pub(crate) fn health(container: &str) -> String {
    must(Command::new("docker").args(["inspect", "--format", "{{.State.Health.Status}}", container]))
}
