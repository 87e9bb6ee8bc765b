//! The project's files as text: walked, read and named by their path from the root. It knows no rule.

use std::{fs, path::Path};

/// A text file of the project.
pub(crate) struct File {
    /// From the root, with `/` between the names.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }
}

/// Every text file of the checkout, sorted by path, without build output and hidden folders other than `.ci`.
/// Git is not asked, so that an unpacked archive is held to the same rules.
pub(crate) fn project() -> Vec<File> {
    let mut files = Vec::new();
    collect(Path::new(env!("CARGO_MANIFEST_DIR")), "", &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, prefix: &str, files: &mut Vec<File>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("a folder changed while it was read");
        let name = entry.file_name().into_string().expect("a file name is not UTF-8");
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("a file vanished while the tree was read");
        if kind.is_dir() {
            if name != "target" && (!name.starts_with('.') || name == ".ci") {
                collect(&entry.path(), &format!("{path}/"), files);
            }
        } else if kind.is_file()
            && name != ".git" // In a second work tree it is a file, which names where the first one is.
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.push(File { path, text });
        }
    }
}

#[test]
fn the_walk_sees_sources_scripts_and_manifests_but_no_build_output() {
    let files = project();
    for path in ["Cargo.toml", "src/main.rs", "shared/model/src/lib.rs", "tests/tidy/tree.rs", ".ci/run"] {
        assert!(files.iter().any(|file| file.path == path), "{path} was not seen");
    }
    let strays: Vec<_> =
        files.iter().map(|file| &file.path).filter(|path| path.contains("target/")).collect();
    assert!(strays.is_empty(), "{strays:?}");
}
