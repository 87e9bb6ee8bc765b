//! Text that is no fleet file at all, or wants to be too much of one.

use crate::{TWO_CELLS, parse, refusal, with};

#[test]
fn text_that_is_not_yaml_is_refused_where_it_stops() {
    for (text, expected) in [
        ("cells: [", "fleet:1:8: unclosed bracket '['"),
        ("a: b: c", "fleet:1:5: a second `: ` in one value: put the value in quotes"),
        ("fleet: f\ncell: *x", "fleet:2:7: alias references unknown anchor"),
        ("fleet: f\n---\nfleet: g", "fleet:3:1: a second document starts here: expected one"),
        ("fleet: !secret f", "fleet:1:16: unsupported tag `!secret`"),
        ("fleet: f\n[a, b]: c", "fleet:2:1: a key cannot be a list or a map: expected text"),
        ("fleet: f\n{ a: b }: c", "fleet:2:1: a key cannot be a list or a map: expected text"),
        ("fleet: f\ncells: &c [*c]", "fleet:2:12: an alias cannot stand inside what it names"),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

#[test]
fn a_file_without_a_map_says_what_a_file_is() {
    const KEYS: &str = "fleet, revision, cells, placement, tenant, edge, plans, ceiling, limits, routes, retry_budget, poison_guard, health, cell";
    for (text, found) in [("", "nothing"), ("[]", "a list"), ("x", "\"x\"")] {
        assert_eq!(refusal(text), format!("fleet:1:1: expected a map with the keys {KEYS}, found {found}"));
    }
    assert_eq!(
        refusal("fleet: f"),
        "fleet:1:1: missing key `cells`: \
         expected a list of cells such as { id: cell-a, url: http://10.0.1.10:7100 }"
    );
    assert_eq!(
        refusal("fleet: f\ncells: []"),
        "fleet:2:8: cells: expected a list of cells such as { id: cell-a, url: http://10.0.1.10:7100 }, \
         found an empty list"
    );
}

#[test]
fn aliases_expand_but_not_without_end() {
    let fleet = with("plans:\n  a: &a { sustained: 1/s, burst: &n 7, max_in_flight: *n }\n  b: *a");
    assert_eq!(fleet.plans[0].bucket, fleet.plans[1].bucket);
    assert_eq!(fleet.plans[1].max_in_flight, 7);

    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{before}]\n"));
    }
    let said = refusal(&bomb);
    assert!(said.ends_with(": the aliases expand to too much"), "{said}");
}

#[test]
fn merge_keys_are_no_words() {
    let said = refusal(&format!(
        "{TWO_CELLS}plans:\n  a: &a {{ sustained: 1/s, burst: 1, max_in_flight: 1 }}\n  b: {{ <<: *a }}\n"
    ));
    assert!(said.contains("fleet:7:8: plans.b.<<: unknown key `<<`; expected sustained"), "{said}");
}

#[test]
fn deep_nesting_and_great_length_are_refused() {
    for (depth, expected) in [(20, "the values are nested too deep"), (1000, "recursion limit exceeded")] {
        let said = refusal(&format!("fleet: {}{}", "[".repeat(depth), "]".repeat(depth)));
        assert!(said.starts_with("fleet:1:") && said.ends_with(expected), "{said}");
    }
    let long = " ".repeat((16 << 20) + 1);
    assert_eq!(refusal(&long), "fleet:1:1: the file has more than 16777216 bytes");
}

#[test]
fn a_number_keeps_the_spelling_of_the_file() {
    assert_eq!(
        refusal(&format!("{TWO_CELLS}revision: 1_000")),
        "fleet:5:11: revision: \"1_000\" is not a count such as 100, 20k or 10M"
    );
    assert_eq!(
        refusal(&format!("{TWO_CELLS}# é\nrevision: é")),
        "fleet:6:11: revision: \"é\" is not a count such as 100, 20k or 10M"
    );
}

#[test]
fn a_key_with_a_line_break_stays_on_one_line() {
    assert_eq!(refusal(&format!("{TWO_CELLS}\"a\\nb\": 1")).lines().count(), 1);
}

#[test]
fn nothing_that_may_be_absent_is_needed() {
    assert!(parse(TWO_CELLS).is_ok());
}

#[test]
fn a_missing_colon_is_told_where_it_is_missing() {
    for (lines, expected) in [
        ("limits\n  mode: auto", "5:1: expected `limits: ` with a colon and a space"),
        ("limits:\n  routers: 2\n  mode auto", "7:3: expected `mode: ` with a colon and a space"),
        ("limits:\n  mode auto\n  routers: 2", "6:3: expected `mode: ` with a colon and a space"),
        (
            "tenant:\n  plan_of:\n    acme big\n    globex: small",
            "7:5: expected `acme: ` with a colon and a space",
        ),
        ("revision 3", "5:1: expected `revision: ` with a colon and a space"),
        ("revision = 3", "5:1: expected `revision: ` with a colon, found `revision =`"),
        ("limits:\n  mode auto", "6:3: limits: expected `mode: ` with a colon and a space"),
        ("limits:\n  mode:auto", "6:3: limits: expected a space behind `mode:`"),
        (
            "limits: { mode auto }",
            "5:11: limits.mode auto: unknown key `mode auto`; expected `mode: ` with a colon and a space",
        ),
        (
            "limits: { mode:auto }",
            "5:11: limits.mode:auto: unknown key `mode:auto`; expected a space behind `mode:`",
        ),
        (
            "limits { mode: auto }",
            "5:1: limits { mode: unknown key `limits { mode`; expected `limits: ` with a colon and a space",
        ),
        (
            "routes:\n  - match { path: /a }",
            "6:5: routes[0].match { path: unknown key `match { path`; expected `match: ` with a colon and a space",
        ),
    ] {
        assert_eq!(refusal(&format!("{TWO_CELLS}{lines}\n")), format!("fleet:{expected}"), "{lines}");
    }
    for (text, expected) in [
        ("fleet first\ncells: []", "1:1: expected `fleet: ` with a colon and a space"),
        ("# é\nfleet first # ü\n\ncells: []", "2:1: expected `fleet: ` with a colon and a space"),
        ("fleet:first\ncells: []", "1:1: expected a space behind `fleet:`"),
        ("fleet first", "1:1: expected `fleet: ` with a colon and a space"),
        ("cells:\n  - id a\n    url: http://a:1", "2:5: expected `id: ` with a colon and a space"),
        ("cells:\n  - id: a\n    url http://a:1", "3:5: expected `url: ` with a colon and a space"),
    ] {
        assert_eq!(refusal(text), format!("fleet:{expected}"), "{text}");
    }
}

#[test]
fn other_slips_of_the_pen_are_told_in_plain_words() {
    for (lines, expected) in [
        ("limits:\n\tmode: auto", "6:2: a tab cannot indent a line: expected spaces"),
        ("  limits:\n  mode: auto", "5:3: this line is indented otherwise than the list that it follows"),
        ("limits:\n  mode: auto\n routers: 2", "7:2: this line is indented otherwise than those before it"),
        (
            "placement: { force: it is 5: no }",
            "5:28: expected `,` or `}`: a value with `: ` or `,` in it needs quotes",
        ),
    ] {
        assert_eq!(refusal(&format!("{TWO_CELLS}{lines}\n")), format!("fleet:{expected}"), "{lines}");
    }
}
