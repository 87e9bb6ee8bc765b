//! Rules that each file is held to by itself: its length, its name, how it opens, and what it may not say.

use crate::{source, tree::File};

const MAX_LINES: usize = 400;
const MAX_README_LINES: usize = 200;
const BANNED_NAMES: [&str; 7] = ["util", "utils", "common", "helper", "helpers", "manager", "misc"];
const LUA_HEADER: [&str; 4] = ["keys", "argv", "returns", "complexity"];

// Written apart, since this file is held to them as well.
const BANNED_IN_RUST: [&str; 4] =
    [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[", "ignore"), concat!("FIX", "ME")];
const TEST_MODULE: &str = concat!("#[cfg", "(test)]");
/// What it draws is a password.
const SECRET: &str = "tests/support/redis/container.rs";
const UNSEEDED: [&str; 5] = [
    concat!("rand::", "rng()"),
    concat!("rand::", "random"),
    concat!("thread_", "rng"),
    concat!("from_os_", "rng"),
    concat!("RngSeed::", "Random"),
];
const BUILD_MACHINE: [&str; 3] = [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/")];

/// Sources longer than a reader keeps in mind.
pub(crate) fn too_long(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust() || file.has_extension("lua"))
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, n_lines)| *n_lines > MAX_LINES)
        .map(|(file, n_lines)| format!("{}: {n_lines} lines exceed {MAX_LINES}", file.path))
        .collect()
}

/// Files, folders and inline modules named after nothing in particular.
pub(crate) fn banned_names(files: &[File]) -> Vec<String> {
    let is_banned = |name: &str| name.split(['.', '_', '-']).any(|word| BANNED_NAMES.contains(&word));
    let mut problems = Vec::new();
    for file in files {
        if file.path.split('/').any(is_banned) {
            problems.push(format!("{}: says nothing about what it holds", file.path));
        }
        if file.is_rust() {
            for pair in source::tokens(&file.text).windows(2) {
                if pair[0] == "mod" && is_banned(&pair[1]) {
                    problems
                        .push(format!("{}: module {} says nothing about what it holds", file.path, pair[1]));
                }
            }
        }
    }
    problems
}

/// Rust files that do not open with what they hold.
pub(crate) fn missing_module_docs(files: &[File]) -> Vec<String> {
    files
        .iter()
        .filter(|file| file.is_rust() && !file.text.starts_with("//! "))
        .map(|file| format!("{}: does not open with `//!`", file.path))
        .collect()
}

/// Scripts whose opening comment leaves out a part of their contract.
pub(crate) fn lua_headers(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.has_extension("lua")) {
        let header: Vec<_> = file.text.lines().take_while(|line| line.starts_with("--")).collect();
        let header = header.join("\n").to_lowercase();
        for part in LUA_HEADER.iter().filter(|part| !header.contains(*part)) {
            problems.push(format!("{}: the opening comment does not name {part}", file.path));
        }
    }
    problems
}

/// The README is missing, or has become a manual.
pub(crate) fn readme(files: &[File]) -> Vec<String> {
    match files.iter().find(|file| file.path == "README.md").map(|file| file.text.lines().count()) {
        None => vec!["README.md: missing".to_owned()],
        Some(n_lines) if n_lines > MAX_README_LINES => {
            vec![format!("README.md: {n_lines} lines exceed {MAX_README_LINES}")]
        }
        Some(_) => Vec::new(),
    }
}

/// Rust files with unfinished work or a test that is passed over.
pub(crate) fn unfinished(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (line, text) in (1..).zip(file.text.lines()) {
            for word in BANNED_IN_RUST.iter().filter(|word| text.contains(*word)) {
                problems.push(format!("{}:{line}: `{word}`", file.path));
            }
        }
    }
    problems
}

/// Tests that draw numbers without a fixed seed: what they find cannot be repeated.
pub(crate) fn unseeded_tests(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && file.path != SECRET) {
        let is_test = file.path.split('/').any(|part| part == "tests" || part == "tests.rs");
        let tests_begin = if is_test { Some(0) } else { file.text.find(TEST_MODULE) };
        let Some(begin) = tests_begin else { continue };
        let n_before = file.text[..begin].lines().count();
        for (line, text) in (n_before + 1..).zip(file.text[begin..].lines()) {
            for word in UNSEEDED.iter().filter(|word| text.contains(*word)) {
                problems.push(format!("{}:{line}: `{word}` has no fixed seed", file.path));
            }
        }
    }
    problems
}

/// Paths that exist only where somebody built the project. One that goes on from another path or a URL is none.
pub(crate) fn build_machine_paths(files: &[File]) -> Vec<String> {
    let goes_on = |c: char| source::is_word(c) || "-.}~".contains(c);
    let mut problems = Vec::new();
    for file in files {
        for (line, text) in (1..).zip(file.text.lines()) {
            for root in BUILD_MACHINE {
                if text.match_indices(root).any(|(at, _)| !text[..at].ends_with(goes_on)) {
                    problems.push(format!("{}:{line}: a path of a build machine, `{root}`", file.path));
                }
            }
        }
    }
    problems
}

#[test]
fn a_test_without_a_fixed_seed_is_caught() {
    let call = concat!("let x = rand::", "random::<u64>();");
    let inline = format!("//! x\n{call}\n{TEST_MODULE}\nmod tests {{\n    {call}\n}}\n");
    let found = unseeded_tests(&[
        File::new("a/src/lib.rs", &format!("//! x\n{call}\n")),
        File::new("a/src/inline.rs", &inline),
        File::new("a/tests/it/main.rs", call),
        File::new("a/src/b/tests.rs", call),
    ]);
    let places: Vec<_> = found.iter().map(|problem| problem.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["a/src/inline.rs:5", "a/tests/it/main.rs:1", "a/src/b/tests.rs:1"]);
}

#[test]
fn a_file_of_one_line_too_many_is_caught() {
    let lines = |n_lines| "//! x\n".repeat(n_lines);
    assert!(too_long(&[File::new("a.rs", &lines(400)), File::new("a.md", &lines(900))]).is_empty());
    assert_eq!(too_long(&[File::new("a.rs", &lines(401)), File::new("a.lua", &lines(401))]).len(), 2);
}

#[test]
fn banned_names_are_caught_as_files_folders_words_and_inline_modules() {
    for path in ["src/util.rs", "src/helpers/mod.rs", "tests/common/a.txt", "src/cell_manager.rs", "misc"] {
        assert_eq!(banned_names(&[File::new(path, "")]).len(), 1, "{path}");
    }
    assert_eq!(banned_names(&[File::new("src/a.rs", "mod helpers { }")]).len(), 1);
    assert!(banned_names(&[File::new("src/utility.rs", "// mod util\nmod commons;")]).is_empty());
}

#[test]
fn a_file_that_opens_with_code_is_caught() {
    assert_eq!(missing_module_docs(&[File::new("a.rs", "use std::fs;\n//! Late.")]).len(), 1);
    assert!(missing_module_docs(&[File::new("a.rs", "//! What it holds.\n")]).is_empty());
}

#[test]
fn a_script_without_its_contract_is_caught() {
    let whole = "-- KEYS[1] bucket\n-- ARGV[1] cost\n-- Returns: level\n-- Complexity: O(1)\nreturn 1";
    assert!(lua_headers(&[File::new("a.lua", whole)]).is_empty());
    let late = "-- KEYS[1] bucket\n-- ARGV[1] cost\nlocal x = 1 -- Returns: level\n-- Complexity: O(1)";
    assert_eq!(lua_headers(&[File::new("a.lua", late)]).len(), 2);
}

#[test]
fn a_missing_or_long_readme_is_caught() {
    assert_eq!(readme(&[File::new("deploy/README.md", "x")]).len(), 1);
    assert_eq!(readme(&[File::new("README.md", &"x\n".repeat(201))]).len(), 1);
    assert!(readme(&[File::new("README.md", &"x\n".repeat(200))]).is_empty());
}

#[test]
fn each_mark_of_unfinished_work_is_caught() {
    for word in BANNED_IN_RUST {
        assert_eq!(
            unfinished(&[File::new("a.rs", &format!("//! a\n    {word}"))]),
            [format!("a.rs:2: `{word}`")]
        );
    }
    assert!(unfinished(&[File::new("a.md", BANNED_IN_RUST[0])]).is_empty());
}

#[test]
fn a_build_machine_path_is_caught_wherever_it_begins() {
    for root in BUILD_MACHINE {
        for text in [format!("{root}a"), format!("see `{root}a`"), format!("x={root}a")] {
            assert_eq!(build_machine_paths(&[File::new("a.md", &text)]).len(), 1, "{text}");
        }
        assert!(build_machine_paths(&[File::new("a.md", &format!("https://example.org{root}"))]).is_empty());
    }
}
