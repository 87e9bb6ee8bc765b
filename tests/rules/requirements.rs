//! The list of requirements, `REQUIREMENTS.md`: each with the rows or the tests that show it, or with the reason why it
//! binds nothing here, and every row named by one of them.

use std::collections::BTreeSet;
use std::{fs, path::Path};

use super::row::{Row, Step};

const TEXT: &str = include_str!("REQUIREMENTS.md");

/// What a cell begins with that need name nothing: the requirement binds nothing here.
const NOT_APPLICABLE: &str = "not applicable: ";

/// What a cell begins with where we do otherwise: it says why, and names the rows that show what is done.
const DEVIATES: &str = "deviates: ";

/// The part of the list that is no RFC's, and what the design speaks of: each has to have a line there.
const DESIGN: &str = "## The design's own rules";
const TOPICS: [&str; 12] = [
    "framing", "headers", "upgrade", "errors", "retries", "leaving", "time", "limits", "identity", "hop",
    "panics", "path",
];

/// What is wrong between the list and the rows.
pub(crate) fn problems(rows: &[Row]) -> Vec<String> {
    let sources =
        [sources("src"), sources("tests"), sources("shared"), sources("router"), sources("cell-agent")];
    let sources = sources.concat();
    let mut problems = judge(TEXT, rows, &tests(&sources));
    problems.extend(judge_design(TEXT, rows, &TOPICS));
    problems
}

/// What is wrong with the design's own part: it speaks of each topic and of nothing else, and names every row that is the
/// design's.
fn judge_design(text: &str, rows: &[Row], topics: &[&str]) -> Vec<String> {
    let Some((_, part)) = text.split_once(DESIGN) else {
        return vec![format!("no part is called {DESIGN:?}")];
    };
    let lines = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| section"));
    let said: BTreeSet<&str> = lines.filter_map(|line| line.split('|').nth(1).map(str::trim)).collect();
    let known: BTreeSet<&str> = topics.iter().copied().collect();
    let topics = said.symmetric_difference(&known).map(|topic| format!("{topic}: a topic of one side alone"));
    let ours = rows.iter().filter(|row| row.source.split("; ").any(|source| source == "design"));
    let unnamed = ours.filter(|row| !part.contains(&format!("`{}`", row.id)));
    topics.chain(unnamed.map(|row| format!("[{}]: the design's part does not name it", row.id))).collect()
}

fn judge(text: &str, rows: &[Row], tests: &BTreeSet<&str>) -> Vec<String> {
    let ids: BTreeSet<&str> = rows.iter().map(|row| row.id.as_str()).collect();
    let mut named = BTreeSet::new();
    let mut problems = Vec::new();
    let mut n_requirements = 0;
    for line in text
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|--"))
        .filter(|line| !line.starts_with("| section"))
    {
        n_requirements += 1;
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [section, _words, shown] = cells.as_slice() else {
            problems.push(format!("not a section, a requirement and what shows it: {line}"));
            continue;
        };
        let reason = shown.strip_prefix(NOT_APPLICABLE).filter(|reason| !reason.is_empty());
        let names: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
        // A code, a path or a word of the protocol in a reason is no name.
        let names = names.into_iter().filter(|name| reason.is_none() || ids.contains(name));
        let names: Vec<&str> = names.collect();
        if names.is_empty() && reason.is_none() {
            problems.push(format!("{section}: neither a row, a test nor a reason in {shown:?}"));
        }
        if !shown.starts_with('`') && !shown.starts_with(DEVIATES) && reason.is_none() {
            problems.push(format!("{section}: begins with neither a name nor a reason: {shown:?}"));
        }
        for name in names {
            if ids.contains(name) {
                named.insert(name);
            } else if !tests.contains(name) {
                problems.push(format!("{section}: no row and no test is named {name}"));
            }
        }
    }
    if n_requirements == 0 {
        problems.push("no requirement was read".to_owned());
    }
    problems.extend(ids.difference(&named).map(|id| format!("[{id}]: no requirement names this row")));
    problems
}

/// What is wrong with the rows by themselves.
pub(crate) fn row_problems(rows: &[Row]) -> Vec<String> {
    let mut ids = BTreeSet::new();
    let mut problems = Vec::new();
    for row in rows {
        if !ids.insert(&row.id) {
            problems.push(format!("[{}]: there twice", row.id));
        }
        let is_id =
            row.id.contains('-') && row.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_id {
            problems.push(format!("[{}]: an id is words with hyphens", row.id));
        }
        let sends = row.client.iter().any(|step| matches!(step, Step::Send(_)));
        let expects = row.client.iter().any(|step| matches!(step, Step::Expect(_)));
        if !sends || !expects || row.says.is_empty() {
            problems
                .push(format!("[{}]: a row says something, sends something and expects something", row.id));
        }
    }
    problems
}

/// The names of the functions that are tests, by the attribute before them.
fn tests(sources: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in sources.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((before, rest)) = line.split_once("fn ")
            && ["", "async "].contains(&before)
        {
            names.extend(rest.split('(').next().filter(|_| is_test));
            is_test = false;
        } else if !line.is_empty() && !line.starts_with("//") && !line.starts_with("#[") {
            is_test = false;
        }
    }
    names
}

/// The text of every Rust file below a folder.
fn sources(folder: &str) -> String {
    let mut text = String::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    text
}

#[test]
fn a_gap_in_the_designs_own_part_is_caught() {
    let rows = super::row::parse(
        "[a-row] design\nSays.\n> x\n[b-row] 9112 1; design\nSays.\n[c-row] 1\nSays.\n",
        false,
    );
    let judge = |part: &str| judge_design(&format!("`a-row`\n{DESIGN}\n{part}"), &rows, &["time"]);
    assert!(judge("| time | words | `a-row`, `b-row` |\n").is_empty());
    for part in ["| time | words | `b-row` |\n", "`a-row`, `b-row`", "| time | words | `a-row` |\n"] {
        assert_eq!(judge(part).len(), 1, "{part}");
    }
    assert_eq!(judge("| time | words | `a-row`, `b-row` |\n| else | words | `a-row` |\n").len(), 1);
    assert_eq!(judge_design("", &rows, &["time"]).len(), 1);
}

#[test]
fn each_gap_is_caught() {
    let rows = super::row::parse("[a-row] 9112 1\nSays.\n> x\n= 200\n", false);
    let source =
        "#[test]\n// P1\nfn a_test() {\n}\n\nfn no_test() {\n#[tokio::test(x)]\nasync fn another() {";
    let tests = tests(source);
    assert_eq!(tests, BTreeSet::from(["a_test", "another"]));
    let judge = |shown: &str| judge(&format!("| 9112 1 | words | {shown} |\n"), &rows, &tests);
    for shown in
        ["`a-row`", "`a-row`, `a_test`", "deviates: why, as `a-row` shows", "not applicable: `a-row`"]
    {
        assert_eq!(judge(shown), [""; 0], "{shown}");
    }
    for (shown, n_problems) in [
        ("", 3),
        ("`b-row`, `a-row`", 1),
        ("`no_test`, `a-row`", 1),
        ("not applicable: ", 3),
        ("not applicable: why", 1),
        ("deviates: why", 2),
        ("open: why", 3),
        ("open: why, as `a-row` shows", 1),
    ] {
        assert_eq!(judge(shown).len(), n_problems, "{shown}");
    }
    assert!(row_problems(&rows).is_empty());
    assert_eq!(row_problems(&super::row::parse("[a-b] 1\nSays.\n> x\n[a-b] 1\n= 200\n", false)).len(), 3);
}
