//! The file of differences, `differences.tsv`: where a peer does otherwise than a row expects, what it does, and why we
//! do not. It holds both ways: what is not listed fails, and what is listed and no longer so fails.

use std::collections::BTreeMap;

use super::row::{Party, Row};
use super::run::Seen;

const TEXT: &str = include_str!("differences.tsv");

/// The file.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    versions: Vec<(String, String)>,
    /// By peer and row: what is seen, and why it is right that we differ.
    lines: BTreeMap<(String, String), (String, String)>,
    malformed: Vec<String>,
}

pub(crate) fn read() -> Differences {
    parse(TEXT)
}

fn parse(text: &str) -> Differences {
    let mut file = Differences::default();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.split('\t').collect::<Vec<_>>().as_slice() {
            [peer, "version", version] => file.versions.push((peer.to_string(), version.to_string())),
            [peer, row, seen, why] if !why.is_empty() => {
                let key = (peer.to_string(), row.to_string());
                if file.lines.insert(key, (seen.to_string(), why.to_string())).is_some() {
                    file.malformed.push(format!("{peer} {row}: there twice"));
                }
            }
            _ => file.malformed.push(format!("not a peer, a row, what is seen and why: {line}")),
        }
    }
    file
}

impl Differences {
    /// The version of a peer that the file is about.
    pub(crate) fn version(&self, peer: Party) -> &str {
        let of = self.versions.iter().find(|(name, _)| name == peer.name());
        of.map_or("(no version)", |(_, version)| version)
    }

    /// What is wrong with the file by itself.
    pub(crate) fn problems(&self, rows: &[Row]) -> Vec<String> {
        let mut problems = self.malformed.clone();
        for (peer, row) in self.lines.keys() {
            if !rows.iter().any(|known| known.id == *row) {
                problems.push(format!("{peer} {row}: no such row"));
            }
            if !["nginx", "haproxy"].contains(&peer.as_str()) {
                problems.push(format!("{peer}: no such peer"));
            }
        }
        problems
    }

    /// Whether what was seen of one row is what is listed.
    pub(crate) fn holds(&self, peer: Party, row: &str, seen: &Seen) -> bool {
        let one = seen.get_key_value(row).map(|(row, seen)| (row.clone(), seen.clone()));
        self.compare(peer, &one.into_iter().collect()).is_empty()
    }

    /// What was seen of a peer against what is listed, as lines for the file where they are missing.
    pub(crate) fn compare(&self, peer: Party, seen: &Seen) -> Vec<String> {
        let mut problems = Vec::new();
        for (row, seen) in seen {
            let (seen, key) = (seen.join("; "), (peer.name().to_owned(), row.clone()));
            match self.lines.get(&key).map(|(listed, _)| listed.as_str()) {
                None if seen.is_empty() => {}
                None => problems.push(format!("{}\t{row}\t{seen}", peer.name())),
                Some(_) if seen.is_empty() => {
                    problems.push(format!("{} {row}: differs no longer", peer.name()))
                }
                Some(listed) if listed != seen => {
                    problems.push(format!("{} {row}: listed is {listed:?}, seen {seen:?}", peer.name()));
                }
                Some(_) => {}
            }
        }
        problems
    }
}

#[test]
fn a_difference_holds_both_ways() {
    let file = parse("nginx\tversion\t1.22\nnginx\ta\tcloses\tfor a reason\n");
    assert_eq!(file.version(Party::Nginx), "1.22");
    let seen = |id: &str, what: &str| {
        let what = if what.is_empty() { vec![] } else { vec![what.to_owned()] };
        Seen::from([(id.to_owned(), what)])
    };
    assert!(file.compare(Party::Nginx, &seen("a", "closes")).is_empty());
    for (id, what) in [("a", ""), ("a", "stays open"), ("b", "closes")] {
        assert_eq!(file.compare(Party::Nginx, &seen(id, what)).len(), 1, "{id} {what}");
        assert!(!file.holds(Party::Nginx, id, &seen(id, what)), "{id} {what}");
    }
    assert_eq!(file.compare(Party::Haproxy, &seen("a", "closes")).len(), 1);
    assert_eq!(file.problems(&[]).len(), 1);
    assert_eq!(parse("nginx\ta\tcloses\n").problems(&[]).len(), 1);
}
