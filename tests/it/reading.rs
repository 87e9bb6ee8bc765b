//! Fleet files that are large, odd or no files at all: they are refused with a clear word, what runs goes on, and nothing waits.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::eventually;
use crate::support::files::alone;
use crate::support::processes::{Process, RealFleet, free_port, probe, ready, run};
use crate::support::raw::{self, get};

/// What makes something odd of a path, and the word on it.
type Odd<'a> = (&'a dyn Fn(&Path), &'a str);

/// A router and one cell, with the addresses of their probes.
async fn fleet() -> (RealFleet, std::net::SocketAddr) {
    let fleet = RealFleet::start(1, &["--workers", "1"], |cells| alone(cells[0], "")).await;
    let probes = fleet.probes;
    (fleet, probes)
}

/// Puts something else in the place of the fleet file.
fn replace(fleet: &RealFleet, make: impl FnOnce(&Path)) {
    let (path, new) = (fleet.folder.path().join("fleet.yaml"), fleet.folder.path().join("new"));
    let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
    make(&new);
    fs::rename(&new, &path).unwrap();
}

fn unknown_keys(text: &str, bytes: usize) -> String {
    let mut text = text.to_owned();
    let mut n = 0;
    while text.len() < bytes {
        writeln!(text, "unknown_{n}: 1").unwrap();
        n += 1;
    }
    text
}

#[tokio::test]
async fn what_is_no_regular_file_of_a_fair_size_is_refused_and_what_runs_goes_on() {
    let (fleet, probes) = fleet().await;
    let good = fs::read_to_string(fleet.folder.path().join("fleet.yaml")).unwrap();
    let pipe = |at: &Path| assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
    let device = |at: &Path| std::os::unix::fs::symlink("/dev/zero", at).unwrap();
    let huge = |at: &Path| File::create(at).unwrap().set_len((16 << 20) + 1).unwrap();
    // Not even root follows it.
    let unreadable = |at: &Path| std::os::unix::fs::symlink("fleet.yaml", at).unwrap();
    let odd: [Odd<'_>; 5] = [
        (&pipe, "it is a pipe, and no regular file"),
        (&|at| fs::create_dir(at).unwrap(), "it is a folder, and no regular file"),
        (&device, "it is a device, and no regular file"),
        (&huge, "it has more than 16777216 bytes"),
        (&unreadable, "Too many levels of symbolic links"),
    ];
    for (make, why) in odd {
        replace(&fleet, make);
        for process in [&fleet.router, &fleet.cells[0]] {
            process.signal(Signal::HUP);
            let told = async || process.log().contains(why).then_some(());
            eventually(&format!("a word on {why:?}"), told).await;
        }
        let checked = run(&["check", "--fleet", fleet.folder.path().join("fleet.yaml").to_str().unwrap()]);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert!(checked.status.code() == Some(2) && said.contains(why), "{checked:?}");
        assert_eq!(probe(probes, "/healthz").await, 200);
        assert_eq!(raw::ask(fleet.data, get("/", "acme")).await.status(), 200, "{why}");
    }
    // And a good one is taken again.
    replace(&fleet, |at| fs::write(at, good.replace("revision: 1", "revision: 2")).unwrap());
    for process in [&fleet.router, &fleet.cells[0]] {
        let taken = async || process.log().contains("fleet file taken").then_some(());
        eventually("the good file", taken).await;
    }
}

#[tokio::test]
async fn probes_answer_while_a_large_file_is_read_and_the_log_shows_its_first_problems() {
    let (fleet, probes) = fleet().await;
    let path = fleet.folder.path().join("fleet.yaml");
    let large = unknown_keys(&fs::read_to_string(&path).unwrap(), 512 << 10);
    let n_unknown = large.matches("unknown_").count();
    // What it takes on this machine now, as a process of its own.
    let beside = fleet.folder.path().join("large.yaml");
    fs::write(&beside, &large).unwrap();
    let began = Instant::now();
    let checked = tokio::task::spawn_blocking(move || run(&["check", "--fleet", beside.to_str().unwrap()]));
    let checked = checked.await.unwrap();
    let takes = began.elapsed();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert_eq!(said.lines().count(), 21, "{said}");
    assert!(said.ends_with(&format!("{} more problems\n", n_unknown - 20)), "{said}");
    let done = Arc::<AtomicBool>::default();
    let asking = tokio::spawn(longest_gap(probes, Arc::clone(&done)));
    replace(&fleet, |at| fs::write(at, &large).unwrap());
    fleet.router.signal(Signal::HUP);
    let told = async || fleet.router.log().contains("fleet file not taken").then_some(());
    eventually("the file to be refused", told).await;
    done.store(true, Ordering::SeqCst);
    let gap = asking.await.unwrap();
    assert!(gap < takes / 2, "no probe was answered for {gap:?} of {takes:?}");
    assert!(fleet.router.log().len() < 100_000, "{} bytes", fleet.router.log().len());
}

/// The longest time for which no probe was answered, until it is `done`.
async fn longest_gap(probes: std::net::SocketAddr, done: Arc<AtomicBool>) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !done.load(Ordering::SeqCst) {
        assert_eq!(probe(probes, "/metrics").await, 200);
        longest = longest.max(last.elapsed());
        last = Instant::now();
    }
    longest
}

#[tokio::test]
async fn an_agent_that_starts_with_a_pipe_says_so_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("fleet.yaml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let at = [free_port(), free_port()].map(|address| address.to_string());
    for arguments in [
        &["agent", "--cell", "cell-a", "--listen", &at[0], "--probe-listen", &at[1], "--fleet"][..],
        &["router", "--listen", &at[0], "--probe-listen", &at[1], "--fleet"],
    ] {
        let arguments = [arguments, &[pipe.to_str().unwrap()]].concat();
        let mut process = Process::start(folder.path(), "process", &arguments);
        assert_eq!(ready(&mut process, free_port()).await, None);
        assert_eq!(process.end().await.code(), Some(2));
        assert!(process.log().contains("it is a pipe, and no regular file"), "{}", process.log());
    }
}
