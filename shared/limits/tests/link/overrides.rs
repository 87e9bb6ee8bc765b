//! Values that operators set for tenants: kept by a script of their own, on one server, in a cluster, and for a user with the
//! documented rule.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{Change, Changed, Fleet, OverrideBook};

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
    let mut all = book.all().await.unwrap();
    all.sort();
    all
}

#[tokio::test]
async fn what_is_put_replaces_what_is_kept_does_not_and_the_version_only_grows() {
    let server = RedisServer::start();
    let book = book(&connected(&server.url()).await, "limits");
    assert_eq!((book.version().await, book.all().await), (Ok(None), Ok(vec![])));
    let [one, two, three] = ["one", "two", "three"].map(|name| value(name, HOUR));
    let change = async |change, values: &[(&str, &str)]| {
        let before = book.version().await.unwrap();
        let Changed { done, left_out } = book.change(change, values).await.unwrap();
        let after = book.version().await.unwrap();
        assert_eq!((left_out, after > before), (0, done > 0), "{before:?} {after:?}");
        done
    };
    assert_eq!(change(Change::Put, &[("acme", &one), ("globex", &one)]).await, 2);
    assert_eq!(change(Change::Put, &[("acme", &two)]).await, 1);
    assert_eq!(change(Change::Keep, &[("acme", &three), ("initech", &three)]).await, 1);
    assert_eq!(change(Change::Drop, &[("globex", ""), ("nobody", "")]).await, 1);
    assert_eq!(change(Change::Keep, &[("acme", &three)]).await, 0);
    assert_eq!(all(&book).await, [("acme".to_owned(), two), ("initech".to_owned(), three)]);
}

#[tokio::test]
async fn what_has_ended_goes_with_the_next_write_and_the_version_outlives_everything() {
    let server = RedisServer::start();
    let book = book(&connected(&server.url()).await, "limits");
    let (over, lasting) = (value("over", Duration::ZERO), value("lasting", HOUR));
    book.change(Change::Put, &[("over", over.as_str()), ("broken", "{}"), ("lasting", lasting.as_str())])
        .await
        .unwrap();
    book.change(Change::Put, &[("acme", &lasting)]).await.unwrap();
    let left = [("acme".to_owned(), lasting.clone()), ("lasting".to_owned(), lasting)];
    assert_eq!(all(&book).await, left);
    let ends = |key: &str| -> i64 { ::redis::cmd("PTTL").arg(key).query(&mut server.connect()).unwrap() };
    let hash = ends("{f:overrides}limits");
    assert!((3_590_000..=3_600_001).contains(&hash), "{hash}");
    book.change(Change::Drop, &[("acme", ""), ("lasting", "")]).await.unwrap();
    assert!(book.all().await.unwrap().is_empty());
    assert!(ends("{f:overrides}limits:version") > 30 * 86_400_000);
}

#[tokio::test]
async fn each_kind_is_by_itself_and_more_than_one_calls_worth_is_written() {
    let server = RedisServer::start();
    let link = connected(&server.url()).await;
    let (limits, placement) = (book(&link, "limits"), book(&link, "placement"));
    let (names, one) = ((0..600).map(|n| format!("t{n}")).collect::<Vec<_>>(), value("one", HOUR));
    let values: Vec<_> = names.iter().map(|name| (name.as_str(), one.as_str())).collect();
    assert_eq!(limits.change(Change::Put, &values).await, Ok(Changed { done: 600, left_out: 0 }));
    assert_eq!((limits.all().await.unwrap().len(), placement.all().await), (600, Ok(vec![])));
    assert_eq!(placement.version().await, Ok(None));
}

#[tokio::test]
async fn a_cluster_keeps_them_where_their_keys_lie_and_a_script_that_was_flushed_is_loaded_again() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    let (book, one) = (book(&link, "limits"), value("one", HOUR));
    for n in 1..=3 {
        book.change(Change::Put, &[(&format!("t{n}"), &one)]).await.unwrap();
        assert_eq!(book.all().await.unwrap().len(), n);
        for node in &cluster.nodes {
            ::redis::cmd("SCRIPT").arg("FLUSH").exec(&mut node.connect()).unwrap();
        }
    }
    assert_eq!(link.metrics().redirections, 0);
}
