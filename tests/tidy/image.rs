//! The image's stage of manifests: Cargo can read what it leaves of the checkout, whatever targets the manifests name.

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// What the build of the image is sent: the entries that `.dockerignore` lets through.
fn context(into: &Path) {
    let ignored = fs::read_to_string(format!("{ROOT}/.dockerignore")).expect("there is a .dockerignore");
    for entry in ignored.lines().filter_map(|line| line.strip_prefix('!')) {
        let to = into.join(entry);
        fs::create_dir_all(to.parent().expect("it is inside")).expect("a folder can be made");
        let copied = Command::new("cp").arg("-r").arg(format!("{ROOT}/{entry}")).arg(&to).status();
        assert!(copied.is_ok_and(|status| status.success()), "{entry} is not there");
    }
}

/// Whether Cargo reads a tree with all of its targets, and what it says if it does not.
fn read_by_cargo(tree: &Path) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    let read = cargo.args(["fetch", "--offline", "--locked"]).current_dir(tree).output();
    let output = read.expect("cargo runs");
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

#[test]
fn cargo_reads_what_the_images_stage_of_manifests_leaves() {
    let dockerfile = fs::read_to_string(format!("{ROOT}/deploy/Dockerfile")).expect("there is a Dockerfile");
    assert!(dockerfile.contains("\nRUN deploy/stand-ins.sh .\n"), "the stage is made by another command");
    let folder = tempfile::tempdir().expect("a folder can be made");
    context(folder.path());
    let made = Command::new(folder.path().join("deploy/stand-ins.sh")).arg(folder.path()).status();
    assert!(made.is_ok_and(|status| status.success()));
    assert_eq!(read_by_cargo(folder.path()), Ok(()));
    // And nothing else than manifests decides about it.
    let mut sources = 0;
    visit(folder.path(), &mut |path, text| {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let is_manifest = path.file_name().is_some_and(|name| name == "Cargo.toml" || name == "Cargo.lock");
        assert!(is_manifest || is_source && matches!(text, "" | "fn main() {}\n"), "{}", path.display());
        sources += usize::from(is_source);
    });
    assert!(sources > 10);
    // A stand-in that is missing is found.
    fs::remove_file(folder.path().join("benches/limits/main.rs")).expect("it is there");
    assert!(read_by_cargo(folder.path()).is_err_and(|said| said.contains("can't find `limits` bench")));
}

fn visit(folder: &Path, seen: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            visit(&entry, seen);
        } else {
            seen(&entry, &fs::read_to_string(&entry).expect("text"));
        }
    }
}
