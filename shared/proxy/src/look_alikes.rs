//! Which fields of a request go no further, since a server behind this hop would take them for others (see `names`). Which
//! names are ours it is told.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName};

use crate::fields::{is_for_this_hop, remove_where};
use crate::forwarding::is_forwarding;
use crate::names::{folded, is_odd};

/// What happens to a request's field whose name has another character than letters, digits and `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OddNames {
    /// It is dropped where it reads as a field that a hop sets, strips or identifies by.
    #[default]
    Guard,
    /// It is dropped.
    Drop,
    /// The request is refused.
    Refuse,
}

/// A request has a field whose name servers read as another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the field name {0} has another character than letters, digits and '-'")]
pub struct OddName(HeaderName);

/// Keeps fields away that a server behind this hop would take for other ones. Clones share what they hold.
#[derive(Debug, Clone)]
pub struct NameGuard(Arc<Rules>);

#[derive(Debug)]
struct Rules {
    odd: OddNames,
    internal: fn(&HeaderName) -> bool,
    /// The fields that this hop identifies by, as they are configured.
    own: Box<[HeaderName]>,
    /// How servers read them.
    folded: Box<[HeaderName]>,
}

impl NameGuard {
    /// Guards what is `internal`, the fields in `own` and those that every hop makes anew.
    pub fn new(
        odd: OddNames,
        internal: fn(&HeaderName) -> bool,
        own: impl IntoIterator<Item = HeaderName>,
    ) -> Self {
        let own: Box<[HeaderName]> = own.into_iter().collect();
        let folded = own.iter().map(|name| folded(name).unwrap_or_else(|| name.clone())).collect();
        Self(Arc::new(Rules { odd, internal, own, folded }))
    }

    /// Takes the fields away from a request's head that go no further.
    ///
    /// # Errors
    ///
    /// Where there is one that may not be there at all.
    pub fn clean(&self, fields: &mut HeaderMap) -> Result<(), OddName> {
        // One look at each name, since nearly every request has plain ones alone.
        if !fields.keys().any(|name| self.is_looked_at(name)) {
            return Ok(());
        }
        if self.0.odd == OddNames::Refuse
            && let Some(odd) = fields.keys().find(|name| is_odd(name) && !self.0.own.contains(name))
        {
            return Err(OddName(odd.clone()));
        }
        remove_where(fields, |name| {
            let goes = self.keeps_away(name);
            if goes {
                tracing::debug!(%name, "a field is dropped: servers would read its name as another one");
            }
            goes
        });
        Ok(())
    }

    /// Whether a field of a request, of its head or behind its body, goes no further for its name.
    pub fn keeps_away(&self, name: &HeaderName) -> bool {
        let Rules { odd, internal, own, folded: read } = &*self.0;
        if own.contains(name) {
            return false;
        }
        match folded(name) {
            Some(_) if *odd != OddNames::Guard => true,
            Some(name) => internal(&name) || read.contains(&name) || is_made_by_a_hop(&name),
            // Its twin is configured.
            None => read.contains(name),
        }
    }

    fn is_looked_at(&self, name: &HeaderName) -> bool {
        is_odd(name) || self.0.read_as_others(name)
    }
}

impl Rules {
    /// Whether a plain name is how servers read another one that is configured.
    fn read_as_others(&self, name: &HeaderName) -> bool {
        // Nearly always empty or plain, and so the same.
        self.own.iter().zip(&self.folded).any(|(own, folded)| own != folded && folded == name)
    }
}

/// Whether a field frames, is about one connection, or says where a request came from.
fn is_made_by_a_hop(name: &HeaderName) -> bool {
    const MORE: [&str; 2] = ["grpc-timeout", "max-forwards"];
    is_for_this_hop(name) || is_forwarding(name) || *name == CONTENT_LENGTH || MORE.contains(&name.as_str())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn guard(odd: OddNames, own: &[&'static str]) -> NameGuard {
        let own = own.iter().map(|name| HeaderName::from_static(name));
        NameGuard::new(odd, |name| name.as_str().starts_with("internal-"), own)
    }

    fn kept(guard: &NameGuard, names: &[&'static str]) -> Result<Vec<String>, OddName> {
        let named = names.iter().map(|name| HeaderName::from_static(name));
        let mut fields: HeaderMap = named.map(|name| (name, HeaderValue::from_static("1"))).collect();
        guard.clean(&mut fields)?;
        let mut kept: Vec<_> = fields.keys().map(ToString::to_string).collect();
        kept.sort();
        Ok(kept)
    }

    const NAMES: [&str; 11] = [
        "x-own",
        "x_own",
        "x.own",
        "internal_a",
        "internal!a",
        "transfer_encoding",
        "x_forwarded_for",
        "grpc_timeout",
        "x-plain",
        "x_other",
        "x~other",
    ];

    #[test]
    fn what_reads_as_ours_goes_and_nothing_else_does() {
        let kept = kept(&guard(OddNames::Guard, &["x-own"]), &NAMES).unwrap();
        assert_eq!(kept, ["x-own", "x-plain", "x_other", "x~other"]);
    }

    #[test]
    fn every_odd_name_is_dropped_or_refused_where_that_is_wanted() {
        assert_eq!(kept(&guard(OddNames::Drop, &["x-own"]), &NAMES).unwrap(), ["x-own", "x-plain"]);
        let refused = kept(&guard(OddNames::Refuse, &["x-own"]), &["x-plain", "x_other"]).unwrap_err();
        assert!(refused.to_string().contains("x_other"), "{refused}");
        assert!(kept(&guard(OddNames::Refuse, &["x-own"]), &["x-plain"]).is_ok());
    }

    #[test]
    fn a_configured_name_that_is_odd_itself_is_kept_and_its_twins_go() {
        for odd in [OddNames::Guard, OddNames::Drop] {
            let kept = kept(&guard(odd, &["x_own"]), &["x_own", "x-own", "x.own", "x-plain"]).unwrap();
            assert_eq!(kept, ["x-plain", "x_own"], "{odd:?}");
        }
        let kept = kept(&guard(OddNames::Refuse, &["x_own"]), &["x_own", "x-own"]).unwrap();
        assert_eq!(kept, ["x_own"]);
    }
}
