//! Which cells drain, and which requests still belong to one of them. Whether the tenant had that cell is not known here.

use std::time::SystemTime;

use cofferdam_fleet::{Affinity, Fleet};
use cofferdam_model::{CellId, CellIndex};
use http::HeaderMap;
use http::header::COOKIE;

/// The cells that drain, where a request can say that it belongs to one.
#[derive(Debug)]
pub(crate) struct Drains {
    affinity: Affinity,
    cells: Vec<Draining>,
}

#[derive(Debug)]
struct Draining {
    id: CellId,
    index: CellIndex,
    until: SystemTime,
}

impl Drains {
    /// `None` where no request has to be looked at.
    pub(crate) fn of(fleet: &Fleet) -> Option<Self> {
        let affinity = fleet.placement.affinity.clone()?;
        let draining = fleet.cells.iter().zip(0..).filter_map(|(cell, index)| {
            Some(Draining { id: cell.id.clone(), index: CellIndex(index), until: cell.until? })
        });
        let cells: Vec<_> = draining.collect();
        (!cells.is_empty()).then_some(Self { affinity, cells })
    }

    /// The draining cell that a request is marked with, where its time is not over. Of several marks the first counts
    /// that names one: a client keeps a cookie for each path, and the most specific one comes first.
    pub(crate) fn marked(&self, fields: &HeaderMap) -> Option<CellIndex> {
        match &self.affinity {
            Affinity::Header(name) => {
                fields.get_all(name).iter().find_map(|value| self.find(value.as_bytes()))
            }
            Affinity::Cookie(name) => {
                let pairs =
                    fields.get_all(COOKIE).iter().flat_map(|value| value.as_bytes().split(|b| *b == b';'));
                let values = pairs.filter_map(|pair| cookie_value(pair.trim_ascii(), name.as_bytes()));
                { values }.find_map(|value| self.find(value))
            }
        }
    }

    fn find(&self, mark: &[u8]) -> Option<CellIndex> {
        let cell = self.cells.iter().find(|cell| cell.id.as_str().as_bytes() == mark)?;
        (SystemTime::now() < cell.until).then_some(cell.index)
    }
}

/// What `pair` gives to the cookie `name`; names have case, and a value may be quoted.
fn cookie_value<'p>(pair: &'p [u8], name: &[u8]) -> Option<&'p [u8]> {
    let value = pair.strip_prefix(name)?.strip_prefix(b"=")?;
    Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use http::HeaderValue;

    use super::*;

    fn drains(affinity: &str, until: &str) -> Option<Drains> {
        let text = format!(
            "fleet: f\nplacement: {{ shard_size: 1{affinity} }}\ncells:\n  - {{ id: a, url: 'http://a:1' }}\n  \
             - {{ id: b, url: 'http://b:1', state: draining, until: {until} }}\n"
        );
        Drains::of(&Fleet::parse(&text, Path::new(".")).unwrap().fleet)
    }

    fn marked(drains: &Drains, name: &'static str, values: &[&str]) -> Option<u16> {
        let fields =
            values.iter().map(|value| (name.parse().unwrap(), HeaderValue::from_str(value).unwrap()));
        drains.marked(&fields.collect()).map(|cell| cell.0)
    }

    const LONG: &str = "9999-01-01T00:00:00Z";

    #[test]
    fn a_cookie_marks_a_request_wherever_it_stands_and_whatever_stands_beside_it() {
        let drains = drains(", affinity: { cookie: cell }", LONG).unwrap();
        for values in [
            &["cell=b"][..],
            &["x=1; cell=b"],
            &["x=1;cell=b;y=2"],
            &["cell=\"b\""],
            &["x=1", "cell=b"],
            // Another path's, of a cell that is well.
            &["cell=a; cell=b"],
        ] {
            assert_eq!(marked(&drains, "cookie", values), Some(1), "{values:?}");
        }
        for values in [
            &["cell=a"][..],
            &["cell=bb"],
            &["Cell=b"],
            &["xcell=b"],
            &["cell"],
            &["cell="],
            &[""],
            &["=b"],
            &["x=cell=b"],
        ] {
            assert_eq!(marked(&drains, "cookie", values), None, "{values:?}");
        }
        assert_eq!(marked(&drains, "cell", &["b"]), None);
    }

    #[test]
    fn a_header_marks_a_request_by_the_cells_whole_name() {
        let drains = drains(", affinity: { header: x-cell }", LONG).unwrap();
        assert_eq!(marked(&drains, "x-cell", &["b"]), Some(1));
        assert_eq!(marked(&drains, "x-cell", &["a"]), None);
        assert_eq!(marked(&drains, "cookie", &["x-cell=b"]), None);
    }

    #[test]
    fn a_mark_counts_until_the_cells_time_is_over_and_nobody_looks_without_one() {
        let over = drains(", affinity: { cookie: cell }", "2020-01-01T00:00:00Z").unwrap();
        assert_eq!(marked(&over, "cookie", &["cell=b"]), None);
        assert!(drains("", LONG).is_none());
    }
}
