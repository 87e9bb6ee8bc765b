//! YAML faults in plain words. The parser reports where it stopped; the fault, such as a missing colon, may stand lines before.

use crate::Problem;

/// What the parser says where a text turns out to be no key, with the place of the second colon.
const TWO_COLONS: &str = "mapping values are not allowed in this context";

/// What it says where a key has no colon, with the place of the key.
const NO_COLON: &str = "simple key expected ':'";

/// What it says where a text without a key is the whole document, since a comment ends it.
const NO_DOCUMENT: &str = "did not find expected <document start>";

/// The parser's message and place as a problem of the file.
pub(crate) fn problem(text: &str, line: u32, column: u32, message: &str) -> Problem {
    let at = |line, column, message| Problem { line, column, key: String::new(), message };
    let lines: Vec<&str> = text.lines().collect();
    let here = lines.get(line as usize - 1).copied().unwrap_or_default();
    if message == NO_COLON {
        let key: String = here.chars().skip(column as usize - 1).collect();
        return at(line, column, missing(&key));
    }
    if message == TWO_COLONS || message == NO_DOCUMENT {
        return match key_before(&lines, line as usize) {
            Some((line, column, key)) => at(line, column, missing(key)),
            None if message == NO_DOCUMENT => {
                at(line, column, "text behind the end of the file's map".to_owned())
            }
            None => at(line, column, "a second `: ` in one value: put the value in quotes".to_owned()),
        };
    }
    at(line, column, plain(message).map_or_else(|| message.to_owned(), str::to_owned))
}

/// Says which sign is missing in what should have been a key and its value.
pub(crate) fn missing(text: &str) -> String {
    let text = text.trim();
    let word = text.split([' ', '\t', ':', '=', ',', '}']).next().unwrap_or_default();
    let word = word.escape_debug();
    match text.strip_prefix(&*word.to_string()).map(str::trim_start) {
        Some(rest) if rest.starts_with(':') => format!("expected a space behind `{word}:`"),
        Some(rest) if rest.starts_with('=') => format!("expected `{word}: ` with a colon, found `{word} =`"),
        _ => format!("expected `{word}: ` with a colon and a space"),
    }
}

/// Which known key `text` begins with, where a colon or the space behind it is missing.
pub(crate) fn key_without_colon<'k>(text: &str, known: &[&'k str]) -> Option<&'k str> {
    let begins = |key: &&&str| {
        let rest = text.strip_prefix(**key);
        rest.is_some_and(|rest| rest.starts_with([' ', ':', '=']) && !rest.trim_start().is_empty())
    };
    known.iter().find(begins).copied()
}

/// The first of the lines in front of `line` that are text without a key: the parser takes them and `line` for one text.
fn key_before<'t>(lines: &[&'t str], line: usize) -> Option<(u32, u32, &'t str)> {
    let has_no_key = |text: &str| !text.ends_with([':', ',', '{', '[']) && !text.contains(": ");
    let before = (1..line).rev().map(|number| (number, lines[number - 1]));
    let mut first = None;
    for (number, text) in before {
        let said = text.split(" #").next().unwrap_or_default().trim();
        if said.is_empty() || said.starts_with('#') {
            continue;
        }
        if !has_no_key(said) {
            break;
        }
        first = Some((number, text));
    }
    let (number, text) = first?;
    let key = text.trim_start_matches(['-', ' ']);
    let column = text.chars().count() - key.chars().count() + 1;
    Some((number as u32, column as u32, key))
}

/// The parser's words that name its own states, in words of a file.
fn plain(message: &str) -> Option<&'static str> {
    [
        ("tabs disallowed", "a tab cannot indent a line: expected spaces"),
        ("expected '-' indicator", "this line is indented otherwise than the list that it follows"),
        ("block mapping, did not find expected key", "this line is indented otherwise than those before it"),
        ("expected ',' or '}'", "expected `,` or `}`: a value with `: ` or `,` in it needs quotes"),
        ("expected ',' or ']'", "expected `,` or `]`: a value with `: ` or `,` in it needs quotes"),
        (
            "invalid trailing content after double-quoted",
            "text behind a closing quote: is a quote missing before?",
        ),
        (
            "invalid trailing content after single-quoted",
            "text behind a closing quote: is a quote missing before?",
        ),
    ]
    .into_iter()
    .find_map(|(theirs, ours)| message.contains(theirs).then_some(ours))
}
