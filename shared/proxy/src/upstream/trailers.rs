//! Which fields may come behind a body (RFC 9110 section 6.5.1).

use http::HeaderName;
use http::header;

use crate::fields::is_hop_by_hop;

/// Fields that frame, route, steer, authenticate, or say how the content is to be read: by the time that they would
/// come, it is too late for them. Those of one connection are more of them.
const NEVER_TRAILERS: [HeaderName; 15] = [
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
];

/// Whether a field may be a trailer.
pub(super) fn may_trail(name: &HeaderName) -> bool {
    !is_hop_by_hop(name) && !NEVER_TRAILERS.contains(name)
}
