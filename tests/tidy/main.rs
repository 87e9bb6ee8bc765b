//! Holds the tree to the project's rules. A rule is a function from the files to a list of problems, and stands beside
//! tests that show it catching a fault, so that no rule passes because it looks at nothing.

mod circles;
mod files;
mod image;
mod imports;
mod layers;
mod patterns;
mod source;
mod tree;

#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}

#[test]
fn sources_are_short() {
    assert_none(&files::too_long(&tree::project()));
}

#[test]
fn names_say_what_is_inside() {
    assert_none(&files::banned_names(&tree::project()));
}

#[test]
fn every_source_opens_with_what_it_holds() {
    assert_none(&files::missing_module_docs(&tree::project()));
}

#[test]
fn every_script_opens_with_its_contract() {
    assert_none(&files::lua_headers(&tree::project()));
}

#[test]
fn the_readme_is_there_and_is_no_manual() {
    assert_none(&files::readme(&tree::project()));
}

#[test]
fn nothing_is_unfinished_or_passed_over() {
    assert_none(&files::unfinished(&tree::project()));
}

#[test]
fn random_tests_have_fixed_seeds() {
    assert_none(&files::unseeded_tests(&tree::project()));
    // Cargo takes it from `.cargo/config.toml`; `proptest` and the models of long runs read it.
    assert!(std::env::var("PROPTEST_RNG_SEED").is_ok_and(|seed| seed.parse::<u64>().is_ok()));
}

#[test]
fn no_file_names_a_path_of_a_build_machine() {
    assert_none(&files::build_machine_paths(&tree::project()));
}

#[test]
fn crates_import_only_what_lies_below_them() {
    assert_none(&layers::import_directions(&tree::project()));
    assert_none(&layers::missing_crates(&tree::project()));
}

#[test]
fn files_import_each_other_in_no_circle() {
    assert_none(&circles::between_files(&imports::crates(&tree::project())));
}

#[test]
fn modules_import_each_other_in_no_circle() {
    assert_none(&circles::between_modules(&imports::crates(&tree::project())));
}

#[test]
fn the_routers_parts_meet_only_in_app() {
    assert_none(&circles::router_parts(&imports::crates(&tree::project())));
}

#[test]
fn every_pattern_has_its_row_and_every_row_its_test() {
    assert_none(&patterns::table(&tree::project()));
}
