//! The table of patterns, `tests/PATTERNS.md`: every row once, and every test it names really there.

use crate::{source, tree::File};

const PATH: &str = "tests/PATTERNS.md";
const N_ROWS: usize = 55;

/// Rows that are missing or doubled, and tests that a row names and nobody wrote.
pub(crate) fn table(files: &[File]) -> Vec<String> {
    let Some(table) = files.iter().find(|file| file.path == PATH) else {
        return vec![format!("{PATH}: missing")];
    };
    let rows: Vec<(&str, &str)> = table.text.lines().filter_map(row).collect();
    let mut problems = Vec::new();
    for number in 1..=N_ROWS {
        let name = format!("P{number}");
        match rows.iter().filter(|(row, _)| *row == name).count() {
            1 => {}
            n_rows => problems.push(format!("{PATH}: {name} has {n_rows} rows instead of one")),
        }
    }
    for (name, tests) in rows.iter().filter(|(_, tests)| *tests != "later") {
        problems.extend(row_problems(name, tests, files));
    }
    problems
}

/// The first and the last cell of a line of the table that has four.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let is_row = cells[0].strip_prefix('P').is_some_and(|number| number.parse::<usize>().is_ok());
    (is_row && cells.len() == 4).then(|| (cells[0], cells[3]))
}

/// Each test stands in backticks and is a function; a file that holds one carries the row's name in a comment.
fn row_problems(name: &str, tests: &str, files: &[File]) -> Vec<String> {
    let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    if tests.is_empty() {
        return vec![format!("{PATH}: {name} names no test and does not say `later`")];
    }
    let mut problems = Vec::new();
    let mut is_marked = false;
    for test in tests {
        let function = test.rsplit("::").next().unwrap_or(test);
        let holders: Vec<_> = files.iter().filter(|file| file.is_rust() && defines(file, function)).collect();
        is_marked |= holders.iter().any(|file| mentions(&file.text, name));
        if holders.is_empty() {
            problems.push(format!("{PATH}: {name} names {test}, which is no function of the project"));
        }
    }
    if problems.is_empty() && !is_marked {
        problems.push(format!("{PATH}: no file with a test of {name} mentions {name}"));
    }
    problems
}

fn defines(file: &File, function: &str) -> bool {
    file.text.contains(function)
        && source::tokens(&file.text).windows(2).any(|pair| pair[0] == "fn" && pair[1] == function)
}

fn mentions(text: &str, row: &str) -> bool {
    text.match_indices(row).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + row.len()..].chars().next());
        !before.is_some_and(source::is_word) && !after.is_some_and(source::is_word)
    })
}

#[cfg(test)]
fn judge(change: impl Fn(usize) -> String) -> Vec<String> {
    let rows: String = (1..=N_ROWS).map(change).collect();
    let head = "| row | what | where | test |\n|---|---|---|---|\n";
    let test = File::new("a/src/lib.rs", "// P7: full.\n#[test]\nfn a_full_pool_rejects() {}");
    table(&[File::new(PATH, &format!("{head}{rows}")), test])
}

#[cfg(test)]
fn with_p7(line: &str) -> Vec<String> {
    judge(|number| if number == 7 { line.to_owned() } else { format!("| P{number} | a | b | later |\n") })
}

#[test]
fn a_whole_table_is_accepted() {
    assert!(with_p7("| P7 | a | b | later |\n").is_empty());
    assert!(with_p7("| P7 | a | b | `a_full_pool_rejects` |\n").is_empty());
    assert!(
        with_p7("| P7 | a | b | `limits::tests::a_full_pool_rejects`, `a_full_pool_rejects` |\n").is_empty()
    );
}

#[test]
fn a_row_that_is_missing_doubled_or_of_another_shape_is_caught() {
    for line in [
        "",
        "| P7 | a | b | later |\n| P7 | c | d | later |\n",
        "| P7 | a | later |\n",
        "| P77 | a | b | later |\n",
    ] {
        assert_eq!(with_p7(line).len(), 1, "{line}");
    }
    assert_eq!(table(&[]).len(), 1);
}

#[test]
fn a_row_whose_tests_are_not_there_is_caught() {
    for tests in
        ["", "soon", "`nobody_wrote_this`", "`a_full_pool_rejects`, `nobody_wrote_this`", "`a_full_pool`"]
    {
        assert_eq!(with_p7(&format!("| P7 | a | b | {tests} |\n")).len(), 1, "{tests}");
    }
}

#[test]
fn a_row_whose_test_does_not_carry_its_name_is_caught() {
    let problems = judge(|number| match number {
        1 => "| P1 | a | b | `a_full_pool_rejects` |\n".to_owned(),
        _ => format!("| P{number} | a | b | later |\n"),
    });
    assert_eq!(problems.len(), 1, "{problems:?}");
}
