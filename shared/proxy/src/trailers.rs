//! Which fields may come behind a body (RFC 9110 section 6.5.1), and which of one message's stay here: what is taken away
//! from a head is no more welcome behind it.

use http::header::{self, CONNECTION};
use http::{HeaderMap, HeaderName};

use crate::fields::{is_hop_by_hop, nominated, strip_where};
use crate::forwarding::is_forwarding;
use crate::look_alikes::NameGuard;

/// Fields that frame, route, steer, authenticate, or say how the content is to be read: by the time that they would
/// come, it is too late for them. Those of one connection are more of them, and those that each hop makes anew.
const NEVER_TRAILERS: [HeaderName; 16] = [
    header::CONTENT_LENGTH,
    header::TE,
    header::TRAILER,
    header::HOST,
    header::EXPECT,
    header::CACHE_CONTROL,
    header::MAX_FORWARDS,
    header::RANGE,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::COOKIE,
    header::SET_COOKIE,
    header::VIA,
];

/// Whether a field may be a trailer.
pub(crate) fn may_trail(name: &HeaderName) -> bool {
    let is_made_anew = is_forwarding(name) || matches!(name.as_str(), "traceparent" | "tracestate");
    !is_hop_by_hop(name) && !is_made_anew && !NEVER_TRAILERS.contains(name)
}

/// The fields that a head nominates as those of its connection alone, and that could still be trailers: they go with the
/// connection, wherever in the message they come (RFC 9110 section 7.6.1).
pub(crate) fn nominated_trailers(head: &HeaderMap) -> Box<[HeaderName]> {
    if !head.contains_key(CONNECTION) {
        return Box::default();
    }
    nominated(head).filter(|name| may_trail(name) && name != "close").collect()
}

/// The trailers of one message that go no further.
#[derive(Debug)]
pub struct Withheld {
    internal: fn(&HeaderName) -> bool,
    guard: Option<NameGuard>,
    names: Box<[HeaderName]>,
}

impl Withheld {
    /// No trailer but those that may be none.
    pub fn nothing() -> Self {
        Self { internal: |_| false, guard: None, names: Box::default() }
    }

    /// Those for which `internal` answers true, those of `names`, and those that `head` nominates as its connection's
    /// own. It is the head as it came: nothing is stripped yet.
    pub fn new<'n>(
        head: &HeaderMap,
        internal: fn(&HeaderName) -> bool,
        names: impl IntoIterator<Item = &'n HeaderName>,
    ) -> Self {
        let nominated = nominated_trailers(head).into_iter();
        Self { internal, guard: None, names: nominated.chain(names.into_iter().cloned()).collect() }
    }

    /// The same, with those that go no further for their names.
    pub fn guarded(self, guard: &NameGuard) -> Self {
        Self { guard: Some(guard.clone()), ..self }
    }

    /// Takes away what goes no further.
    pub(crate) fn clean(&self, trailers: &mut HeaderMap) {
        let kept_away = |name: &HeaderName| self.guard.as_ref().is_some_and(|guard| guard.keeps_away(name));
        strip_where(trailers, |name| (self.internal)(name) || self.names.contains(name) || kept_away(name));
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::look_alikes::OddNames;

    fn map(names: &[&'static str]) -> HeaderMap {
        let named = names.iter().map(|name| HeaderName::from_static(name));
        named.map(|name| (name, HeaderValue::from_static("1"))).collect()
    }

    #[test]
    fn what_goes_from_a_head_goes_from_its_trailers() {
        let mut head = HeaderMap::new();
        head.insert(CONNECTION, HeaderValue::from_static("close, X-Hop, te"));
        head.append(CONNECTION, HeaderValue::from_static("x-other"));
        let named = [HeaderName::from_static("x-tenant-id")];
        let withheld = Withheld::new(&head, |name| name.as_str().starts_with("internal-"), &named);
        let mut trailers = map(&["x-sum", "x-hop", "x-other", "x-tenant-id", "internal-cost"]);
        withheld.clean(&mut trailers);
        assert_eq!(trailers, map(&["x-sum"]));
        let mut trailers = map(&["x-sum", "x-hop"]);
        Withheld::nothing().clean(&mut trailers);
        assert_eq!(trailers, map(&["x-sum", "x-hop"]));
    }

    #[test]
    fn a_trailer_that_reads_as_another_field_stays_here() {
        for (odd, kept) in [(OddNames::Guard, &["x-sum", "x_other"][..]), (OddNames::Refuse, &["x-sum"])] {
            let guard = NameGuard::new(odd, |_| false, [HeaderName::from_static("x-own")]);
            let mut trailers = map(&["x-sum", "x_own", "x_forwarded_for", "x_other"]);
            Withheld::new(&HeaderMap::new(), |_| false, []).guarded(&guard).clean(&mut trailers);
            assert_eq!(trailers, map(kept), "{odd:?}");
        }
    }

    #[test]
    fn what_each_hop_says_anew_is_no_trailer() {
        for name in [
            "via",
            "forwarded",
            "x-forwarded-for",
            "x_forwarded_for",
            "x-real-ip",
            "traceparent",
            "tracestate",
            "keep-alive",
            "content_length",
        ] {
            assert!(!may_trail(&HeaderName::from_static(name)), "{name}");
        }
        assert!(may_trail(&HeaderName::from_static("grpc-status")));
    }
}
