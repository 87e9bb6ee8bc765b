//! Which fields may come behind a body (RFC 9110 section 6.5.1).

use http::HeaderName;
use http::header;

/// Fields that frame, route, steer, authenticate, or say how the content is to be read: by the time that they would
/// come, it is too late for them.
const NEVER_TRAILERS: [HeaderName; 20] = [
    header::TRANSFER_ENCODING,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::UPGRADE,
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
    header::PROXY_AUTHORIZATION,
    header::WWW_AUTHENTICATE,
    header::PROXY_AUTHENTICATE,
    header::COOKIE,
    header::SET_COOKIE,
];

/// Whether a field may be a trailer.
pub(super) fn may_trail(name: &HeaderName) -> bool {
    !NEVER_TRAILERS.contains(name)
}
