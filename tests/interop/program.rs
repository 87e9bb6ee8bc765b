//! Client programs: each runs to its end, within a time.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::OnceCell;

/// Where the Python programs are.
pub(crate) const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop");

/// The longest that a program may take, far above what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for what comes from a package index.
const INSTALL: Duration = Duration::from_secs(600);

/// Runs a program to its end, whatever that is.
pub(crate) async fn run(name: impl AsRef<OsStr>, arguments: &[&str], most: Duration) -> Output {
    let name = name.as_ref();
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(most, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => panic!("{name:?} does not start ({error}): tests/prerequisites.sh installs it"),
        Err(_) => panic!("{name:?} {arguments:?} did not end within {most:?}"),
    }
}

/// What a program printed, which has to succeed.
pub(crate) async fn printed(name: impl AsRef<OsStr>, arguments: &[&str]) -> String {
    succeeded(run(name, arguments, PATIENCE).await)
}

/// Runs one check of a client program in `clients`, which asserts by itself.
pub(crate) async fn check(program: &str, check: &str, arguments: &[&str]) {
    let path = format!("{FOLDER}/clients/{program}");
    let arguments = [&["-B", path.as_str(), check], arguments].concat();
    eprintln!("{}", printed(interpreter().await, &arguments).await);
}

fn succeeded(output: Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{}\n{stdout}{}", output.status, text(&output.stderr));
    stdout
}

/// The interpreter with the packages of `requirements.txt`. The first call may install them.
pub(crate) async fn interpreter() -> &'static PathBuf {
    static MADE: OnceCell<PathBuf> = OnceCell::const_new();
    MADE.get_or_init(|| async {
        let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/interop-venv");
        let printed = succeeded(run(format!("{FOLDER}/venv.sh"), &[folder], INSTALL).await);
        PathBuf::from(printed.trim_end())
    })
    .await
}
