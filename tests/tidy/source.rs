//! Rust source as tokens, without comments, literals and test modules: enough to see what a file imports. It knows no
//! grammar.

/// One identifier or one punctuation character.
pub(crate) type Token = String;

/// The tokens of `text`, with inline `#[cfg(test)]` modules left out.
pub(crate) fn product_tokens(text: &str) -> Vec<Token> {
    without_test_modules(tokens(text))
}

/// The tokens of `text`. Comments vanish; a literal becomes one `"` token.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        let (length, token) = match rest {
            ['/', '/', ..] => (line_comment(rest), None),
            ['/', '*', ..] => (block_comment(rest), None),
            ['"', ..] => (string(rest), Some("\"".to_owned())),
            ['\'', ..] => quote(rest),
            [first, ..] if first.is_whitespace() => (1, None),
            [first, ..] if is_word(*first) => word_or_literal(rest),
            [first, ..] => (1, Some(first.to_string())),
            [] => unreachable!("the loop ends before"),
        };
        tokens.extend(token);
        at += length;
    }
    tokens
}

pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn line_comment(rest: &[char]) -> usize {
    rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of the quoted string that `rest` begins with.
fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// A character literal, or the mark of a lifetime.
fn quote(rest: &[char]) -> (usize, Option<Token>) {
    let length = match rest {
        ['\'', '\\', _, tail @ ..] => tail.iter().position(|c| *c == '\'').map(|end| end + 4),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    };
    length.map_or((1, None), |length| (length, Some("\"".to_owned())))
}

/// A word, or a string that a word opens: `r"`, `b"`, `br#"`.
fn word_or_literal(rest: &[char]) -> (usize, Option<Token>) {
    let length = rest.iter().position(|c| !is_word(*c)).unwrap_or(rest.len());
    let word: String = rest[..length].iter().collect();
    let raw = matches!(word.as_str(), "r" | "br" | "cr");
    let hashes = rest[length..].iter().take_while(|c| **c == '#').count();
    if raw && rest.get(length + hashes) == Some(&'"') {
        let mut end = vec!['"'];
        end.resize(1 + hashes, '#');
        let body = length + hashes + 1;
        let close = rest[body..].windows(end.len()).position(|window| window == end);
        return (close.map_or(rest.len(), |close| body + close + end.len()), Some("\"".to_owned()));
    }
    (length, Some(word))
}

fn without_test_modules(tokens: Vec<Token>) -> Vec<Token> {
    const MARK: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        let opens = at + MARK.len() + 1;
        let marked = tokens[at..].iter().map(String::as_str).take(MARK.len()).eq(MARK);
        if marked && tokens.get(opens).is_some_and(|token| token == "{") {
            at = opens + block(&tokens[opens..]);
        } else {
            kept.push(tokens[at].clone());
            at += 1;
        }
    }
    kept
}

/// The number of tokens from an opening brace to past the one that closes it.
fn block(tokens: &[Token]) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

#[test]
fn comments_and_literals_hide_what_they_mention() {
    let text = r##"
        //! crate::a
        /* crate::b /* crate::c */ crate::d */
        let s = "crate::e \" crate::f"; let r = r#"crate::g " crate::h"#;
        let q = '"'; let t: &'a str = b"crate::i"; let n = '\n'; end
    "##;
    let found = tokens(text);
    assert!(!found.contains(&"crate".to_owned()), "{found:?}");
    assert_eq!(found.last().map(String::as_str), Some("end"));
}

#[test]
fn test_modules_are_left_out_and_what_follows_is_kept() {
    let found = product_tokens("a; #[cfg(test)] mod tests { fn f() { crate::b } } #[cfg(test)] mod other; c");
    assert!(!found.contains(&"b".to_owned()), "{found:?}");
    assert!(found.contains(&"other".to_owned()) && found.contains(&"c".to_owned()), "{found:?}");
}
