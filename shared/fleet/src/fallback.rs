//! A route's or a class's `fallback`: what a full compartment or an open breaker is answered with, so that a page renders without its panel.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::HeaderValue;

use crate::node::Node;

/// How old a last good answer may be.
const AGES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);
/// The largest static body in bytes: it stands in the file.
const MAX_BODY: usize = 64 * 1024;

/// What stands in; at least one of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The last good answer to the same GET, if it is no older than this.
    pub last_good: Option<Duration>,
    /// An answer that is always the same, where there is no other.
    pub answer: Option<StaticAnswer>,
}

/// An answer that is always the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticAnswer {
    /// Its status, of 200 to 599; 200 by default.
    pub status: u16,
    /// Its media type; `application/json` by default.
    pub content_type: HeaderValue,
    /// Its body, at most 64 KiB.
    pub body: Box<str>,
}

impl Fallback {
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let fields = node.fields(&["last_good", "status", "type", "body"]);
        let last_good = fields.get("last_good").and_then(|node| node.duration(AGES));
        let body = fields.get("body").and_then(|node| {
            node.read("a text such as '[]'", |text| match text.len() {
                0..=MAX_BODY => Ok(Box::<str>::from(text)),
                bytes => Err(format!("{bytes} bytes exceed {MAX_BODY}")),
            })
        });
        let status = fields.get("status").and_then(|node| node.whole_u32(200..=599));
        let content_type = fields.get("type").and_then(|node| {
            node.read("a media type such as text/html", |text| {
                HeaderValue::from_str(text).map_err(|_| "no field can have it")
            })
        });
        for key in ["status", "type"] {
            if let (Some(node), None) = (fields.get(key), fields.get("body")) {
                node.mark.refuse(format_args!("{key} needs a body beside it"));
            }
        }
        if fields.get("last_good").is_none() && fields.get("body").is_none() {
            node.mark.refuse("a fallback is last_good, such as 60s, or a body, or both");
        }
        let answer = body.map(|body| StaticAnswer {
            status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(200),
            content_type: content_type.unwrap_or(HeaderValue::from_static("application/json")),
            body,
        });
        Some(Self { last_good, answer })
    }
}
