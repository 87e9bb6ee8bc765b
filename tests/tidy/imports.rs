//! Which module of a crate imports which, read from `use` declarations and from paths in the code.
//!
//! Names that a module hands on are followed to the file that holds them. It is no compiler: what a glob brings in is
//! taken to live in the module named, and inline modules count as a part of their file.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    source::{self, Token, is_word},
    tree::File,
};

/// A module's place in its crate; the root's is empty.
pub(crate) type Place = Vec<String>;

/// The modules of one crate, by place.
pub(crate) struct Crate {
    /// The folder of the crate's root file, such as `router/src`.
    pub(crate) folder: String,
    modules: BTreeMap<Place, Module>,
}

struct Module {
    path: String,
    /// What `use` names: the name in this module, and the place and item that it stands for.
    names: BTreeMap<String, Place>,
    /// Everything of its own crate that the file makes use of.
    mentions: Vec<Place>,
}

/// The `use` declarations and the other paths of a file, as written.
#[derive(Default)]
struct Written {
    uses: Vec<Use>,
    paths: Vec<Vec<String>>,
    /// Every word that stands outside of `use` declarations.
    words: BTreeSet<Token>,
}

struct Use {
    name: String,
    path: Vec<String>,
    is_public: bool,
}

/// Every crate of the project: the folders that hold a `lib.rs` or a `main.rs`.
pub(crate) fn crates(files: &[File]) -> Vec<Crate> {
    let roots: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/lib.rs").or_else(|| file.path.strip_suffix("/main.rs")))
        .collect();
    roots.into_iter().map(|folder| Crate::read(folder, files)).collect()
}

impl Crate {
    fn read(folder: &str, files: &[File]) -> Self {
        let mut sources = BTreeMap::new();
        for file in files.iter().filter(|file| file.is_rust()) {
            if let Some(inside) = file.path.strip_prefix(folder).and_then(|path| path.strip_prefix('/')) {
                sources.insert(place(inside), file);
            }
        }
        let places: BTreeSet<&Place> = sources.keys().collect();
        let modules =
            sources.iter().map(|(place, file)| (place.clone(), Module::read(file, place, &places))).collect();
        Self { folder: folder.to_owned(), modules }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.modules.keys()
    }

    pub(crate) fn path(&self, place: &Place) -> &str {
        &self.modules[place].path
    }

    /// The other modules that the module at `place` makes use of.
    pub(crate) fn imports(&self, place: &Place) -> BTreeSet<&Place> {
        let mentions = self.modules[place].mentions.iter();
        mentions.filter_map(|path| self.holder(path, 8)).filter(|holder| *holder != place).collect()
    }

    /// The module whose file holds what `path` names. `hops` bounds how often a name is followed.
    fn holder(&self, path: &[String], hops: usize) -> Option<&Place> {
        let depth = (0..=path.len()).rev().find(|depth| self.modules.contains_key(&path[..*depth]))?;
        let (place, module) = self.modules.get_key_value(&path[..depth])?;
        match path.get(depth).and_then(|item| module.names.get(item)) {
            Some(target) if hops > 0 => self.holder(&[target, &path[depth + 1..]].concat(), hops - 1),
            _ => Some(place),
        }
    }
}

impl Module {
    fn read(file: &File, place: &Place, places: &BTreeSet<&Place>) -> Self {
        let is_child =
            |name: &String| places.contains(&[place.as_slice(), std::slice::from_ref(name)].concat());
        let written = Written::read(&source::product_tokens(&file.text), &is_child);
        let mut module = Self { path: file.path.clone(), names: BTreeMap::new(), mentions: Vec::new() };
        for Use { name, path, is_public } in written.uses {
            let Some(target) = from_root(&path, place, &is_child) else { continue };
            // A name that is only handed on binds the reader of this module, not the module.
            if !is_public || written.words.contains(&name) {
                module.mentions.push(target.clone());
            }
            module.names.insert(name, target);
        }
        module.mentions.extend(written.paths.iter().filter_map(|path| from_root(path, place, &is_child)));
        module
    }
}

impl Written {
    fn read(tokens: &[Token], is_child: &dyn Fn(&String) -> bool) -> Self {
        let mut written = Self::default();
        let mut at = 0;
        while at < tokens.len() {
            let before = at.checked_sub(1).map_or("", |at| tokens[at].as_str());
            let token = &tokens[at];
            if token == "use" && tokens.get(at + 1).is_some_and(|next| next != "<") {
                at += 1;
                let is_public = matches!(before, "pub" | ")");
                use_tree(tokens, &mut at, &[], &mut |name, path| {
                    written.uses.push(Use { name, path, is_public });
                });
                continue;
            }
            let opens = matches!(token.as_str(), "crate" | "self" | "super") || is_child(token);
            let path = path_from(&tokens[at..]);
            let is_visibility = before == "in" && at > 1 && tokens[at - 2] == "(";
            if opens && path.len() > 1 && !matches!(before, ":" | ".") && !is_visibility {
                written.paths.push(path);
            }
            written.words.insert(token.clone());
            at += 1;
        }
        written
    }
}

/// `a::b::c` from the words and colons that `tokens` begin with.
fn path_from(tokens: &[Token]) -> Vec<String> {
    let is_name = |token: &Token| token.starts_with(is_word);
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at).filter(|token| is_name(token)) {
        path.push(token.clone());
        if !tokens[at + 1..].iter().map(String::as_str).take(2).eq([":", ":"]) {
            break;
        }
        at += 3;
    }
    path
}

/// Reads one tree of a `use` declaration and gives each name it brings in, with its path.
fn use_tree(tokens: &[Token], at: &mut usize, prefix: &[String], found: &mut dyn FnMut(String, Vec<String>)) {
    let mut path = prefix.to_vec();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token.as_str() {
            ":" => {}
            "*" => return found("*".to_owned(), path),
            "{" => {
                while tokens.get(*at).is_some_and(|token| token != "}") {
                    use_tree(tokens, at, &path, found);
                    *at += usize::from(tokens.get(*at).is_some_and(|token| token == ","));
                }
                *at += 1;
                return;
            }
            name => {
                if name != "self" || path.is_empty() {
                    path.push(name.to_owned());
                }
                match tokens.get(*at).map(String::as_str) {
                    Some(":") => {}
                    Some("as") => {
                        *at += 2;
                        return found(tokens[*at - 1].clone(), path);
                    }
                    _ => return found(path.last().cloned().unwrap_or_default(), path),
                }
            }
        }
    }
}

/// The same path from the crate's root, or none where it names another crate.
fn from_root(path: &[String], place: &Place, is_child: &dyn Fn(&String) -> bool) -> Option<Place> {
    let n_supers = path.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match path.first()?.as_str() {
        "crate" => (&[][..], &path[1..]),
        "self" => (&place[..], &path[1..]),
        "super" => (&place[..place.len().checked_sub(n_supers)?], &path[n_supers..]),
        _ if is_child(&path[0]) => (&place[..], path),
        _ => return None,
    };
    Some([base, rest].concat())
}

/// `lib.rs` is the root, `a.rs` and `a/mod.rs` are `a`.
fn place(inside: &str) -> Place {
    let inside = inside.trim_end_matches(".rs");
    let names = inside.strip_suffix("/mod").unwrap_or(inside);
    names.split('/').filter(|_| !matches!(names, "lib" | "main")).map(str::to_owned).collect()
}

#[cfg(test)]
fn imports_of(path: &str, files: &[(&str, &str)]) -> Vec<String> {
    let files: Vec<File> = files.iter().map(|(path, text)| File::new(path, text)).collect();
    let found = crates(&files).remove(0);
    found.imports(&place(path)).into_iter().map(|place| found.path(place).to_owned()).collect()
}

#[test]
fn every_way_to_name_a_module_is_an_import() {
    let ways = [
        "use crate::b::X;",
        "use crate::{c::Y, b::{self, X as Z}};",
        "use super::b;",
        "fn f() { crate::b::g(); }",
        "fn f() -> super::b::X { }",
        "use crate::*; use crate::b::*;",
        "use crate::X;",
    ];
    for way in ways {
        let files =
            [("s/lib.rs", "mod a; mod b; pub use b::X;"), ("s/a.rs", way), ("s/b.rs", ""), ("s/c.rs", "")];
        assert!(imports_of("a", &files).contains(&"s/b.rs".to_owned()), "{way}");
    }
}

#[test]
fn what_is_no_import_is_none() {
    let ways = [
        "// use crate::b;",
        "use other::b::X;",
        "#[cfg(test)] mod tests { use crate::b::X; }",
        "pub(in crate::b) fn f() {}",
        "pub use crate::b::X;",
        "fn f(b: T) { b.g(); }",
    ];
    for way in ways {
        assert!(imports_of("a", &[("s/lib.rs", ""), ("s/a.rs", way), ("s/b.rs", "")]).is_empty(), "{way}");
    }
}

#[test]
fn a_parent_imports_its_child_by_its_bare_name_and_by_a_name_it_hands_on_and_uses() {
    let child = ("s/a/b.rs", "");
    for way in ["mod b; use b::X;", "mod b; fn f() { b::g() }", "mod b; pub use b::X; fn f(x: X) {}"] {
        assert_eq!(imports_of("a", &[("s/lib.rs", ""), ("s/a/mod.rs", way), child]), ["s/a/b.rs"], "{way}");
    }
}
