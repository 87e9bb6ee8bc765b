//! Values that operators set for tenants: kept by a script of their own, on one server, in a cluster, and for a user with the
//! documented rule.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{All, Fleet, Kept, OverrideBook, Swap, Swapped, Version};

use crate::redis_server::RedisServer;
use crate::redis_server::cluster::RedisCluster;
use crate::spend::connected;

fn book(link: &Link, kind: &str) -> OverrideBook {
    OverrideBook::new(link.clone(), &Fleet::parse("f").unwrap(), kind)
}

/// A value that ends in so long.
fn value(name: &str, lasting: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("{{\"until_ms\":{},\"name\":\"{name}\"}}", (now + lasting).as_millis())
}

const HOUR: Duration = Duration::from_secs(3_600);

async fn all(book: &OverrideBook) -> Vec<(String, String)> {
    let mut all = book.all().await.unwrap().values;
    all.sort();
    all
}

async fn version(book: &OverrideBook) -> Option<Version> {
    book.look(None).await.unwrap().version
}

async fn swap(book: &OverrideBook, tenant: &str, expected: Option<&str>, value: Option<&str>) -> Swapped {
    book.swap(tenant, Swap { expected, value, not_after_ms: None }).await.unwrap()
}

#[tokio::test]
async fn a_swap_needs_what_it_expects_what_is_kept_replaces_nothing_and_the_version_only_grows() {
    let server = RedisServer::start();
    let book = book(&connected(&server.url()).await, "limits");
    let nothing = || Ok(All { version: None, values: vec![] });
    assert_eq!((version(&book).await, book.all().await), (None, nothing()));
    let [one, two, three] = ["one", "two", "three"].map(|name| value(name, HOUR));
    let (none, one, two, three) = (None, Some(&*one), Some(&*two), Some(&*three));
    for (tenant, expected, value, swapped) in [
        ("acme", none, one, Swapped::Done),
        ("acme", none, two, Swapped::Changed),
        ("acme", one, two, Swapped::Done),
        ("globex", one, two, Swapped::Changed),
        ("globex", none, one, Swapped::Done),
        ("acme", two, two, Swapped::Done),
    ] {
        let before = version(&book).await;
        assert_eq!(swap(&book, tenant, expected, value).await, swapped);
        assert_eq!(version(&book).await > before, swapped == Swapped::Done, "{tenant} {expected:?}");
    }
    let keep = async |tenant| book.keep(&[(tenant, three.unwrap())]).await.unwrap();
    assert_eq!(keep("acme").await, Kept { done: 0, left_out: 0 });
    assert_eq!(keep("initech").await, Kept { done: 1, left_out: 0 });
    assert_eq!(swap(&book, "globex", one, None).await, Swapped::Done);
    assert_eq!(swap(&book, "nobody", one, None).await, Swapped::Changed);
    let text = |value: Option<&str>| value.unwrap().to_owned();
    assert_eq!(all(&book).await, [("acme".to_owned(), text(two)), ("initech".to_owned(), text(three))]);
    let looks = async |tenant| book.look(Some(tenant)).await.unwrap().value;
    assert_eq!((looks("acme").await.as_deref(), looks("globex").await), (two, None));
}

#[tokio::test]
async fn a_swap_that_comes_too_late_by_the_stores_own_clock_does_nothing() {
    let server = RedisServer::start();
    let book = book(&connected(&server.url()).await, "placement");
    let (one, now_ms) = (value("one", HOUR), book.look(None).await.unwrap().now_ms);
    let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(now_ms.abs_diff(here) < 5_000, "{now_ms} {here}");
    for (not_after_ms, swapped) in [(now_ms - 1, Swapped::Late), (now_ms + 60_000, Swapped::Done)] {
        let swap = Swap { expected: None, value: Some(&one), not_after_ms: Some(not_after_ms) };
        assert_eq!(book.swap("acme", swap).await, Ok(swapped));
    }
}

#[tokio::test]
async fn what_has_ended_goes_with_the_next_write_and_the_version_outlives_everything() {
    let server = RedisServer::start();
    let book = book(&connected(&server.url()).await, "limits");
    let (over, lasting) = (value("over", Duration::ZERO), value("lasting", HOUR));
    book.keep(&[("over", over.as_str()), ("broken", "{}"), ("lasting", lasting.as_str())]).await.unwrap();
    // What has ended is as good as nothing.
    assert_eq!(swap(&book, "over", Some(&over), Some(&lasting)).await, Swapped::Changed);
    assert_eq!(swap(&book, "acme", None, Some(&lasting)).await, Swapped::Done);
    let left = [("acme".to_owned(), lasting.clone()), ("lasting".to_owned(), lasting.clone())];
    assert_eq!(all(&book).await, left);
    let ends = |key: &str| -> i64 { ::redis::cmd("PTTL").arg(key).query(&mut server.connect()).unwrap() };
    let hash = ends("{f:overrides}limits");
    assert!((3_590_000..=3_600_001).contains(&hash), "{hash}");
    for tenant in ["acme", "lasting"] {
        assert_eq!(swap(&book, tenant, Some(&lasting), None).await, Swapped::Done);
    }
    assert!(all(&book).await.is_empty());
    assert!(ends("{f:overrides}limits:version") > 30 * 86_400_000);
}

#[tokio::test]
async fn a_store_that_has_forgotten_has_another_birth_whoever_writes_first() {
    let server = RedisServer::start();
    let (book, one) = (book(&connected(&server.url()).await, "limits"), value("one", HOUR));
    let one = Some(&*one);
    assert_eq!(swap(&book, "acme", None, one).await, Swapped::Done);
    let first = version(&book).await.unwrap();
    assert_eq!(swap(&book, "acme", one, None).await, Swapped::Done);
    let second = version(&book).await.unwrap();
    assert!(second.birth_us == first.birth_us && second.number > first.number, "{first:?} {second:?}");
    ::redis::cmd("FLUSHALL").exec(&mut server.connect()).unwrap();
    assert_eq!(swap(&book, "globex", None, one).await, Swapped::Done);
    let third = book.all().await.unwrap();
    assert!(third.version.unwrap().birth_us > first.birth_us, "{first:?} {third:?}");
    assert_eq!((third.version, third.values.len()), (version(&book).await, 1));
}

#[tokio::test]
async fn each_kind_is_by_itself_and_more_than_one_calls_worth_is_written() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    let (limits, placement) = (book(&link, "limits"), book(&link, "placement"));
    let (names, one) = ((0..600).map(|n| format!("t{n}")).collect::<Vec<_>>(), value("one", HOUR));
    let values: Vec<_> = names.iter().map(|name| (name.as_str(), one.as_str())).collect();
    assert_eq!(limits.keep(&values).await, Ok(Kept { done: 600, left_out: 0 }));
    assert_eq!(all(&limits).await.len(), 600);
    assert_eq!(placement.all().await, Ok(All { version: None, values: vec![] }));
}

#[tokio::test]
async fn a_cluster_keeps_them_where_their_keys_lie_and_a_script_that_was_flushed_is_loaded_again() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    let (book, one) = (book(&link, "limits"), value("one", HOUR));
    for n in 1..=3 {
        assert_eq!(swap(&book, &format!("t{n}"), None, Some(&one)).await, Swapped::Done);
        assert_eq!(all(&book).await.len(), n);
        for node in &cluster.nodes {
            ::redis::cmd("SCRIPT").arg("FLUSH").exec(&mut node.connect()).unwrap();
        }
    }
    assert_eq!(link.metrics().redirections, 0);
}
