//! Rules on who imports whom within a crate: no circles, and the router's parts see each other through `app` alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::imports::{Crate, Place};
#[cfg(test)]
use crate::{imports, tree::File};

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Circles between the files of a crate.
pub(crate) fn between_files(crates: &[Crate]) -> Vec<String> {
    crates.iter().flat_map(|source| circles(&graph(source, |place| source.path(place).to_owned()))).collect()
}

/// Circles between the modules that a crate's root declares. The root itself composes them and stands apart: what it
/// imports, and who imports it, is seen between files.
pub(crate) fn between_modules(crates: &[Crate]) -> Vec<String> {
    let name = |source: &Crate, place: &Place| match place.first() {
        Some(module) => format!("{}/{module}", source.folder),
        None => String::new(),
    };
    let mut problems = Vec::new();
    for source in crates {
        let mut graph = graph(source, |place| name(source, place));
        graph.remove("");
        problems.extend(circles(&graph));
    }
    problems
}

/// In the router, `cells` and `admin` never import `data_path`, and nothing but `app` imports it together with them.
pub(crate) fn router_parts(crates: &[Crate]) -> Vec<String> {
    let mut problems = Vec::new();
    for source in crates.iter().filter(|source| source.folder == "router/src") {
        for place in source.places() {
            let imports = source.imports(place);
            let sees =
                |part: &str| imports.iter().any(|import| import.first().is_some_and(|first| first == part));
            let (path, aside) = (source.path(place), sees("cells") || sees("admin"));
            match place.first().map(String::as_str) {
                Some("cells" | "admin") if sees("data_path") => {
                    problems.push(format!("{path}: imports data_path"))
                }
                Some("cells" | "admin" | "data_path" | "app") => {}
                _ if sees("data_path") && aside => {
                    problems.push(format!(
                        "{path}: imports data_path beside cells or admin, which is app's part"
                    ));
                }
                _ => {}
            }
        }
    }
    problems
}

fn graph(source: &Crate, name: impl Fn(&Place) -> String) -> Graph {
    let mut graph = Graph::new();
    for place in source.places() {
        let from = name(place);
        let imports = source.imports(place).into_iter().map(&name).filter(|to| *to != from);
        graph.entry(from.clone()).or_default().extend(imports);
    }
    graph
}

/// One shortest circle through each node, told once, from its first name.
fn circles(graph: &Graph) -> Vec<String> {
    let found = graph.keys().filter_map(|start| circle(graph, start));
    found.filter(|circle| circle.iter().min() == circle.first()).map(|circle| circle.join(" -> ")).collect()
}

fn circle<'a>(graph: &'a Graph, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for next in graph.get(at).into_iter().flatten() {
            if next == start {
                let mut way = vec![start, at];
                while let Some(before) = way.last().and_then(|at| came_from.get(at)) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next.as_str()) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
fn crates(files: &[(&str, &str)]) -> Vec<Crate> {
    let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
    imports::crates(&files)
}

#[test]
fn a_circle_of_three_files_is_told_once() {
    let files = [
        ("s/lib.rs", "mod a; mod b; mod c;"),
        ("s/a.rs", "use crate::b::X;"),
        ("s/b.rs", "use super::c;"),
        ("s/c.rs", "fn f() { crate::a::g() }"),
    ];
    assert_eq!(between_files(&crates(&files)), ["s/a.rs -> s/b.rs -> s/c.rs -> s/a.rs"]);
    assert!(between_files(&crates(&files[..3])).is_empty());
}

#[test]
fn a_child_that_takes_from_the_parent_that_takes_from_it_is_a_circle() {
    let child = ("s/a/b.rs", "use super::Y;");
    let circle = [("s/lib.rs", ""), ("s/a/mod.rs", "use b::X; struct Y(X);"), child];
    assert_eq!(between_files(&crates(&circle)).len(), 1);
    let handed_on = [("s/lib.rs", ""), ("s/a/mod.rs", "pub use b::X; struct Y;"), child];
    assert!(between_files(&crates(&handed_on)).is_empty());
}

#[test]
fn a_circle_of_modules_that_is_none_of_files_is_caught() {
    let files = crates(&[
        ("s/lib.rs", ""),
        ("s/a/x.rs", "use crate::b::y::Y;"),
        ("s/a/z.rs", ""),
        ("s/b/y.rs", ""),
        ("s/b/w.rs", "use crate::a::z::Z;"),
    ]);
    assert!(between_files(&files).is_empty());
    assert_eq!(between_modules(&files), ["s/a -> s/b -> s/a"]);
}

#[test]
fn only_app_sees_the_data_path_and_what_stands_aside() {
    let see = |path, text| {
        let rest =
            [("router/src/data_path/mod.rs", ""), ("router/src/admin.rs", ""), ("router/src/lib.rs", "")];
        router_parts(&crates(&[&rest[..], &[("router/src/cells/mod.rs", ""), (path, text)]].concat()))
    };
    let both = "use crate::{cells::C, data_path::D};";
    assert_eq!(see("router/src/cells/probe.rs", "use crate::data_path::D;").len(), 1);
    assert_eq!(see("router/src/admin/tenants.rs", "fn f() { crate::data_path::g() }").len(), 1);
    assert_eq!(see("router/src/drain.rs", both).len(), 1);
    assert!(see("router/src/app.rs", both).is_empty());
    assert!(see("router/src/data_path/choose.rs", "use crate::cells::C;").is_empty());
}
