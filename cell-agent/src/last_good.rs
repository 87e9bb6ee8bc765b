//! The last good answers to what was asked by GET, for when nothing better can be had. They are kept as a cache that many share
//! may keep them (RFC 9111 section 3): what one user of a tenant may see, another may not.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use cofferdam_model::TenantId;
use http::header::{
    AGE, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_TYPE, COOKIE, HOST, RANGE,
    SET_COOKIE, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// The most bytes of all answers that are kept, and the most of one.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
const MAX_ANSWER: usize = 64 * 1024;
/// What an answer takes beside its body and its target, about.
const OVERHEAD: u64 = 512;
/// Answers of the usual size that have room.
const USUAL: usize = 4096;
/// Fields that say what a body is. Nothing else of an answer is kept.
const KEPT: [HeaderName; 3] = [CONTENT_TYPE, CONTENT_ENCODING, CONTENT_LANGUAGE];

/// What an answer says that is not to be shown to others, or not when it is old (RFC 9111 sections 4.2.4 and 5.2.2).
const FORBIDDING: [&str; 6] =
    ["no-store", "private", "no-cache", "must-revalidate", "proxy-revalidate", "s-maxage"];

/// The answers of one agent. When they are too many, those go that were asked for least and longest ago.
pub(crate) struct LastGood(Cache<Key, Arc<Kept>, Sizes>);

/// Whose answer, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    tenant: TenantId,
    host: Option<HeaderValue>,
    target: Box<str>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Kept {
    fields: HeaderMap,
    body: Bytes,
    at: Instant,
}

/// An answer that is on its way to be kept.
#[derive(Debug)]
pub(crate) struct Keeping {
    kept_by: Arc<LastGood>,
    key: Key,
    fields: HeaderMap,
    /// `None` once it has become too long.
    body: Option<BytesMut>,
}

#[derive(Clone)]
struct Sizes;

impl Weighter<Key, Arc<Kept>> for Sizes {
    fn weight(&self, key: &Key, kept: &Arc<Kept>) -> u64 {
        OVERHEAD + (key.target.len() + kept.body.len()) as u64
    }
}

impl Key {
    /// The key of a request; nothing where its answer may be its user's alone, or a part.
    pub(crate) fn of(tenant: &TenantId, head: &Parts) -> Option<Self> {
        let fields = &head.headers;
        let is_own = [AUTHORIZATION, COOKIE, RANGE].iter().any(|name| fields.contains_key(name))
            || says(fields, &["no-store"]);
        let reads = matches!(head.method, Method::GET | Method::HEAD);
        (reads && !is_own).then(|| Self {
            tenant: *tenant,
            host: fields.get(HOST).cloned(),
            target: head.uri.path_and_query().map_or("/", |it| it.as_str()).into(),
        })
    }
}

impl Default for LastGood {
    fn default() -> Self {
        Self(Cache::with_weighter(USUAL, MAX_BYTES, Sizes))
    }
}

impl LastGood {
    /// Begins to keep an answer to `key`, if it is good and may be kept.
    pub(crate) fn keep<B>(self: &Arc<Self>, key: Key, answer: &Response<B>) -> Option<Keeping> {
        let fields = answer.headers();
        if answer.status() != StatusCode::OK || fields.contains_key(SET_COOKIE) || fields.contains_key(VARY) {
            return None;
        }
        if says(fields, &FORBIDDING) {
            return None;
        }
        let kept = KEPT.into_iter().filter_map(|name| Some((name.clone(), fields.get(name)?.clone())));
        Some(Keeping { kept_by: Arc::clone(self), key, fields: kept.collect(), body: Some(BytesMut::new()) })
    }

    /// The last good answer to `key` that is no older than `max_age`, marked as what it is.
    pub(crate) fn answer(&self, key: &Key, max_age: Duration) -> Option<Response<Bytes>> {
        let kept = self.0.get(key)?;
        let age = kept.at.elapsed();
        if age > max_age {
            return None;
        }
        let mut response = Response::new(kept.body.clone());
        *response.headers_mut() = kept.fields.clone();
        response.headers_mut().insert(AGE, age.as_secs().into());
        Some(response)
    }
}

/// Whether Cache-Control has one of these directives.
fn says(fields: &HeaderMap, directives: &[&str]) -> bool {
    let is_one = |directive: &[u8]| {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        directives.iter().any(|wanted| name.eq_ignore_ascii_case(wanted.as_bytes()))
    };
    let mut values = fields.get_all(CACHE_CONTROL).iter();
    values.any(|value| value.as_bytes().split(|byte| *byte == b',').any(is_one))
}

impl Keeping {
    /// The next part of the body.
    pub(crate) fn add(&mut self, data: &Bytes) {
        self.body = self.body.take().filter(|body| body.len() + data.len() <= MAX_ANSWER).map(|mut body| {
            body.extend_from_slice(data);
            body
        });
    }

    /// The body was whole.
    pub(crate) fn done(self) {
        let Some(body) = self.body else { return };
        let kept = Kept { fields: self.fields, body: body.freeze(), at: Instant::now() };
        self.kept_by.0.insert(self.key, Arc::new(kept));
    }
}

impl std::fmt::Debug for LastGood {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LastGood").field("bytes", &self.0.weight()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::Alphabet;
    use http::Request;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn key(request: http::request::Builder) -> Option<Key> {
        let tenant = TenantId::parse(b"acme", &Alphabet::default()).unwrap();
        Key::of(&tenant, &request.body(()).unwrap().into_parts().0)
    }

    fn keep(cache: &Arc<LastGood>, target: &str, answer: http::response::Builder, body: &[u8]) -> bool {
        let Some(mut keeping) = cache.keep(key(Request::get(target)).unwrap(), &answer.body(()).unwrap())
        else {
            return false;
        };
        for part in body.chunks(10_000) {
            keeping.add(&Bytes::copy_from_slice(part));
        }
        keeping.done();
        cache.answer(&key(Request::get(target)).unwrap(), MINUTE).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_answer_is_kept_with_what_its_body_is_until_it_is_too_old() {
        let cache = Arc::<LastGood>::default();
        let answer = Response::builder().header("content-type", "text/plain").header("server", "x");
        assert!(keep(&cache, "/panel?a=1", answer, b"good"));
        tokio::time::advance(Duration::from_secs(12)).await;
        let again = cache.answer(&key(Request::get("/panel?a=1")).unwrap(), MINUTE).unwrap();
        assert_eq!((&again.body()[..], &again.headers()["age"]), (&b"good"[..], &HeaderValue::from(12)));
        assert_eq!(
            (again.headers().len(), &again.headers()["content-type"]),
            (2, &HeaderValue::from_static("text/plain"))
        );
        assert!(cache.answer(&key(Request::get("/panel?a=2")).unwrap(), MINUTE).is_none());
        tokio::time::advance(MINUTE).await;
        assert!(cache.answer(&key(Request::get("/panel?a=1")).unwrap(), MINUTE).is_none());
    }

    #[tokio::test]
    async fn what_may_be_one_users_alone_is_not_kept() {
        let cache = Arc::<LastGood>::default();
        for own in ["authorization", "cookie", "range"] {
            assert_eq!(key(Request::get("/x").header(own, "x")), None);
        }
        assert_eq!(key(Request::post("/x")), None);
        assert_eq!(key(Request::get("/x").header("cache-control", "max-age=0, No-Store")), None);
        assert_ne!(key(Request::get("/x").header("host", "a")), key(Request::get("/x").header("host", "b")));
        assert_eq!(key(Request::head("/x")), key(Request::get("/x")));
        for (name, value) in [
            ("set-cookie", "a=b"),
            ("vary", "x"),
            ("cache-control", "max-age=9, Private"),
            ("cache-control", "no-store"),
            ("cache-control", "Must-Revalidate"),
            ("cache-control", "s-maxage=60"),
        ] {
            assert!(!keep(&cache, "/x", Response::builder().header(name, value), b"x"), "{name}: {value}");
        }
        assert!(!keep(&cache, "/x", Response::builder().status(203), b"x"));
        assert!(keep(&cache, "/x", Response::builder().header("cache-control", "max-age=0"), b"x"));
    }

    #[tokio::test]
    async fn memory_is_bounded() {
        let cache = Arc::<LastGood>::default();
        assert!(!keep(&cache, "/long", Response::builder(), &vec![0; MAX_ANSWER + 1]));
        for n in 0..1000 {
            keep(&cache, &format!("/{n}"), Response::builder(), &vec![0; MAX_ANSWER]);
        }
        assert!(cache.0.weight() <= MAX_BYTES, "{}", cache.0.weight());
    }
}
