//! Which of the product's crates may depend on which, read from the manifests. Dev-dependencies are free.

use crate::tree::File;

const WORDS: &[&str] = &["cofferdam-files", "cofferdam-model"];
const PARTS: &[&str] = &[
    "cofferdam-files",
    "cofferdam-model",
    "cofferdam-fleet",
    "cofferdam-placement",
    "cofferdam-limits",
    "cofferdam-bulkhead",
    "cofferdam-proxy",
    "cofferdam-telemetry",
];
const PROCESSES: &[&str] = &[
    "cofferdam-files",
    "cofferdam-model",
    "cofferdam-fleet",
    "cofferdam-placement",
    "cofferdam-limits",
    "cofferdam-bulkhead",
    "cofferdam-proxy",
    "cofferdam-telemetry",
    "cofferdam-router",
    "cofferdam-agent",
];

/// Each crate of the product, and the crates of the product that it may import.
const LAYERS: &[(&str, &[&str])] = &[
    ("cofferdam-files", &[]),
    ("cofferdam-model", &[]),
    ("cofferdam-proxy", &[]),
    ("cofferdam-telemetry", &[]),
    ("cofferdam-fleet", WORDS),
    ("cofferdam-placement", WORDS),
    ("cofferdam-limits", WORDS),
    ("cofferdam-bulkhead", WORDS),
    ("cofferdam-router", PARTS),
    ("cofferdam-agent", PARTS),
    ("cofferdam", PROCESSES),
    ("cofferdam-fuzz", PARTS),
];

/// Imports between crates that the layers do not allow, and crates that have no layer.
pub(crate) fn import_directions(files: &[File]) -> Vec<String> {
    let mut problems = Vec::new();
    for manifest in
        files.iter().filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml"))
    {
        let Some(name) = package(&manifest.text) else { continue };
        let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
            problems.push(format!("{}: {name} has no place in the layers", manifest.path));
            continue;
        };
        for import in imports(&manifest.text).iter().filter(|import| !allowed.contains(&import.as_str())) {
            problems.push(format!("{}: {name} may not import {import}", manifest.path));
        }
    }
    problems
}

/// Crates of the layers that the tree does not have: a walk that misses one would check nothing of it.
pub(crate) fn missing_crates(files: &[File]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let found: Vec<_> = manifests.filter_map(|file| package(&file.text)).collect();
    let missing = LAYERS.iter().filter(|(name, _)| !found.iter().any(|found| found == name));
    missing.map(|(name, _)| format!("{name}: its manifest was not found")).collect()
}

fn package(manifest: &str) -> Option<String> {
    let mut lines = sections(manifest).filter(|(section, _)| *section == "package");
    lines.find_map(|(_, line)| {
        Some(line.strip_prefix("name")?.trim_start().strip_prefix('=')?.trim().replace('"', ""))
    })
}

/// The product's crates in every section that ends up in a build: plain, build and per-target dependencies.
fn imports(manifest: &str) -> Vec<String> {
    let is_dependencies = |part: &str| matches!(part, "dependencies" | "build-dependencies");
    let mut found = Vec::new();
    for (section, line) in sections(manifest) {
        let parts: Vec<&str> = section.split('.').collect();
        // `[dependencies.NAME]` names the crate in its title; the workspace's own list only declares.
        if parts[0] == "workspace" || !parts.iter().any(|part| is_dependencies(part)) {
            continue;
        }
        let titled = parts.last().filter(|part| !is_dependencies(part));
        found.extend(titled.into_iter().chain([&line]).flat_map(|text| product_crates(text)));
    }
    found.sort();
    found.dedup();
    found
}

/// The product's crates that a line names, as its key or as the `package` behind another name.
fn product_crates(line: &str) -> impl Iterator<Item = String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let words = line.split(move |c| !is_name(c));
    words.filter(|word| word.starts_with("cofferdam")).map(|word| word.replace('_', "-"))
}

/// The lines of a manifest, each with the title of its section. A title comes as a line of its own, so that an empty
/// section is seen too.
fn sections(manifest: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut section = "";
    manifest.lines().map(str::trim).filter(|line| !line.starts_with('#')).map(move |line| {
        if let Some(title) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = title;
            return (section, "");
        }
        (section, line)
    })
}

#[cfg(test)]
fn judge(name: &str, rest: &str) -> Vec<String> {
    import_directions(&[File::new(
        "x/Cargo.toml",
        &format!("[package]\nname = \"cofferdam{name}\"\n{rest}\n"),
    )])
}

#[test]
fn an_import_against_the_layers_is_caught_however_it_is_written() {
    for written in [
        "[dependencies]\ncofferdam-limits.workspace = true",
        "[dependencies]\ncofferdam-limits = { path = \"../limits\" }",
        "[dependencies]\nlimits = { package = \"cofferdam-limits\", path = \"../limits\" }",
        "[dependencies.cofferdam-limits]\nworkspace = true",
        "[dependencies.cofferdam-limits]",
        "[build-dependencies]\ncofferdam-limits.workspace = true",
        "[target.'cfg(unix)'.dependencies]\ncofferdam-limits.workspace = true",
    ] {
        assert_eq!(
            judge("-placement", written),
            ["x/Cargo.toml: cofferdam-placement may not import cofferdam-limits"]
        );
    }
}

#[test]
fn each_layer_takes_only_what_lies_below() {
    let takes = |name, import| {
        judge(name, &format!("[dependencies]\ncofferdam-{import}.workspace = true")).is_empty()
    };
    assert!(
        takes("-limits", "model")
            && takes("-router", "limits")
            && takes("", "router")
            && takes("-agent", "proxy")
    );
    assert!(!takes("-model", "fleet") && !takes("-fleet", "placement") && !takes("-proxy", "model"));
    assert!(!takes("-router", "agent") && !takes("-agent", "router") && !takes("-telemetry", "model"));
}

#[test]
fn dev_dependencies_and_the_workspaces_own_list_are_free() {
    assert!(judge("-placement", "[dev-dependencies]\ncofferdam-limits.workspace = true").is_empty());
    assert!(judge("-model", "[workspace.dependencies]\ncofferdam-limits = { path = \"l\" }").is_empty());
}

#[test]
fn a_crate_without_a_layer_and_a_layer_without_a_crate_are_caught() {
    assert_eq!(judge("-extras", "").len(), 1);
    assert_eq!(
        missing_crates(&[File::new("Cargo.toml", "[package]\nname = \"cofferdam\"")]).len(),
        LAYERS.len() - 1
    );
}
