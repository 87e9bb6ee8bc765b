//! `cofferdam simulate` as a process: what must come out of it, the same again for the same seed, and its picture.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::processes::{EXE, run};

/// How many standard errors an estimate may be off. A right one is further off once in 16,000, and with these seeds none is.
const MOST_ERRORS: f64 = 4.0;

/// A fleet of as many equal cells in each zone as `zones` says.
fn fleet(folder: &Path, zones: &[usize]) -> String {
    let mut text = "fleet: f\nrevision: 3\ncells:\n".to_owned();
    for (zone, &n_cells) in zones.iter().enumerate() {
        for cell in 0..n_cells {
            let port = 1 + 1000 * zone + cell;
            text += &format!("  - {{ id: cell-{zone}-{cell}, zone: zone-{zone}, url: 'http://a:{port}' }}\n");
        }
    }
    let file = folder.join("fleet.yaml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

struct Simulated {
    folder: TempDir,
    json: Value,
}

fn simulate(zones: &[usize], flags: &[&str]) -> Simulated {
    let folder = tempfile::tempdir().unwrap();
    let file = fleet(folder.path(), zones);
    let flags: Vec<String> =
        flags.iter().map(|flag| flag.replace("FOLDER", folder.path().to_str().unwrap())).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let output = run(&[&["simulate", "--fleet", &file, "--json"], &flags[..]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "a bar is for a terminal");
    Simulated { folder, json: serde_json::from_slice(&output.stdout).unwrap() }
}

/// What was simulated is what is expected, up to [`MOST_ERRORS`].
#[track_caller]
fn comes_out(figure: &Value, expected: f64) {
    let number = |name: &str| figure["simulated"][name].as_f64().unwrap();
    let (mean, error) = (number("mean"), number("standard_error"));
    assert!((mean - expected).abs() < MOST_ERRORS * error, "{mean} +- {error} beside {expected}");
}

/// A figure that is given is the one that is written, as far as 65,536 slots can have it.
#[track_caller]
fn is(figure: &Value, exact: &str, expected: f64, off: f64) {
    let given = figure[exact].as_f64().unwrap();
    assert!((given - expected).abs() < off, "{exact}: {given} beside {expected}");
}

#[test]
fn two_tenants_share_what_the_formulae_say_in_fleets_of_8_20_and_100_cells() {
    // P10
    for (n_cells, written) in [
        (8, [0.535_714, 0.428_571, 0.035_714]),
        (20, [0.805_263, 0.189_474, 0.005_263]),
        (100, [0.960_202, 0.039_596, 0.000_202]),
    ] {
        let told = simulate(&[n_cells], &["--tenants", "200", "--trials", "400", "--seed", "6"]).json;
        for (figure, written) in told["overlap"].as_array().unwrap().iter().zip(written) {
            comes_out(figure, written);
            is(figure, "equal_cells", written, 1e-6);
            is(figure, "table", written, 1e-3);
        }
    }
}

#[test]
fn bad_tenants_cover_what_the_formulae_say() {
    // P10
    for (bad, written) in [("1", 0.035_714), ("2", 0.161_990), ("3", 0.309_995)] {
        let told =
            simulate(&[8], &["--bad", bad, "--tenants", "100", "--trials", "1000", "--seed", "6"]).json;
        comes_out(&told["fully_covered"], written);
        is(&told["fully_covered"], "equal_cells", written, 1e-6);
        is(&told["fully_covered"], "table", written, 1e-3);
        let share = |name: &str| told[name]["simulated"]["mean"].as_f64().unwrap();
        let all = share("fully_covered") + share("partly_covered") + share("untouched");
        assert!((all - 1.0).abs() < 1e-9);
    }
}

#[test]
fn zones_have_their_own_odds_and_load() {
    // P25
    let told = simulate(&[3, 3, 3], &["--tenants", "200", "--trials", "400", "--seed", "6"]).json;
    for (figure, share) in told["overlap"].as_array().unwrap().iter().zip([16.0, 10.0, 1.0]) {
        comes_out(figure, share / 27.0);
        is(figure, "table", share / 27.0, 2e-3);
    }
    let zones = told["zones"].as_array().unwrap();
    assert_eq!(
        (zones.len(), &zones[0]["id"], told["cells"].as_array().unwrap().len()),
        (3, &"zone-0".into(), 9)
    );
    for (load, homes) in zones
        .iter()
        .map(|zone| (zone, 1.0 / 3.0))
        .chain(told["cells"].as_array().unwrap().iter().map(|cell| (cell, 1.0 / 9.0)))
    {
        is(&load["home"], "table", homes, 0.01);
        is(&load["inclusion"], "table", 2.0 * homes, 0.02);
        comes_out(&load["home"], load["home"]["table"].as_f64().unwrap());
        comes_out(&load["inclusion"], load["inclusion"]["table"].as_f64().unwrap());
    }
}

#[test]
fn a_seed_is_the_same_simulation_again_and_another_is_another() {
    let flags = ["--tenants", "100", "--trials", "10", "--svg", "FOLDER/plot.svg", "--seed"];
    let [one, again, other] = ["1", "1", "2"].map(|seed| simulate(&[8], &[&flags[..], &[seed]].concat()));
    assert_eq!(one.json, again.json);
    assert_ne!(one.json["overlap"], other.json["overlap"]);
    let [one, again] =
        [one, again].map(|simulated| std::fs::read(simulated.folder.path().join("plot.svg")).unwrap());
    assert_eq!(one, again);
}

#[test]
fn the_picture_is_whole_svg_with_a_bar_for_each_figure_and_cell() {
    let flags = ["--tenants", "100", "--trials", "10", "--bad", "2", "--svg", "FOLDER/plot.svg"];
    let simulated = simulate(&[2, 2], &flags);
    let svg = std::fs::read_to_string(simulated.folder.path().join("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"));
    // The background and two zones' colours in the legend besides.
    assert_eq!(svg.matches("<rect").count(), 3 + 3 + 4 + 1 + 2);
    for text in
        ["Fleet f at revision 3: 4 cells, shards of 2", "What 2 bad tenants do to the others", "cell-1-1"]
    {
        assert!(svg.contains(text), "{text}");
    }
    for tag in ["svg", "text"] {
        let opened = svg.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, svg.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn the_table_has_every_figure_and_what_cannot_be_simulated_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = fleet(folder.path(), &[8]);
    let simulate = |flags: &[&str]| run(&[&["simulate", "--fleet", &file], flags].concat());
    let printed = String::from_utf8(simulate(&["--tenants", "50", "--trials", "2"]).stdout).unwrap();
    for text in [
        "8 active cells in 1 zone, shards of 2",
        "two tenants share 1 cell",
        "all cells hit",
        "cell-0-7",
        "0.535714",
    ] {
        assert!(printed.contains(text), "{text}: {printed}");
    }
    // One trial has no standard error.
    assert!(String::from_utf8(simulate(&["--trials", "1"]).stdout).unwrap().contains(" -  "));
    for flags in [["--tenants", "1"], ["--trials", "0"], ["--bad", "10000"]] {
        assert_eq!(simulate(&flags).status.code(), Some(1), "{flags:?}");
    }
}

/// Runs the command with its standard error on a terminal. What it printed, and what the terminal was sent.
fn on_a_terminal(arguments: &[&str]) -> (String, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let child = {
        let mut command = Command::new(EXE);
        command.args(arguments).env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(ioctl_tiocgptpeer(&terminal, flags).unwrap()).spawn().unwrap()
    };
    let mut sent = Vec::new();
    // A terminal that nobody has any more ends with an error.
    let ended = File::from(terminal).read_to_end(&mut sent);
    assert_eq!(ended.unwrap_err().raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    (String::from_utf8(output.stdout).unwrap(), String::from_utf8(sent).unwrap())
}

/// How far the bar was, each time that it was drawn.
fn percents(sent: &str) -> Vec<u8> {
    let drawn = sent.split(" % of 1 trials").map(|before| before.rsplit(' ').next().unwrap());
    drawn.filter_map(|percent| percent.parse().ok()).collect()
}

#[test]
fn a_bar_goes_on_within_a_trial_and_is_taken_away_in_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = fleet(folder.path(), &[8]);
    // The second is for a machine that has done the first before anything is drawn.
    let goes_on = ["1000000", "30000000"].into_iter().find_map(|tenants| {
        let flags = ["simulate", "--fleet", &file, "--tenants", tenants, "--trials", "1"];
        let (printed, sent) = on_a_terminal(&flags);
        assert!(printed.contains(&format!("1 trials of {tenants} tenants")), "{printed}");
        percents(&sent).into_iter().any(|percent| (1..100).contains(&percent)).then_some(sent)
    });
    let sent = goes_on.expect("a bar that stands neither at its beginning nor at its end");
    assert!(sent.contains("[=") && sent.contains(" left"), "{sent:?}");
    let (_, last) = sent.rsplit_once(" left").unwrap();
    assert!(last.contains("\r\x1b[2K"), "{last:?}");
}
