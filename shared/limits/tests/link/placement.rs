//! What routers have in common of their placement: the file that was accepted last, and how far a release is, on real servers.

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{
    AcceptedBook, AcceptedFile, Fleet, Key, ReleaseBook, ReleaseState, ReleaseTerms, Script,
};
use redis::Value;

use crate::redis_server::RedisServer;
use crate::redis_server::cluster::RedisCluster;
use crate::spend::connected;

fn fleet() -> Fleet {
    Fleet::parse("f").unwrap()
}

fn file(revision: u64, digest: &str, text: &str) -> AcceptedFile {
    AcceptedFile { revision, digest: digest.to_owned(), text: text.to_owned() }
}

#[tokio::test]
async fn the_highest_revision_stays_and_its_text_is_changed_by_whoever_amends_it() {
    let server = RedisServer::start();
    let book = AcceptedBook::new(connected(&server.url()).await, &fleet());
    assert_eq!(book.look().await, Ok(None));
    let nine = file(9, "aa", "first");
    assert_eq!(book.offer(&nine).await, Ok(Some(nine.clone())));
    for other in [file(8, "bb", "older"), file(9, "bb", "another table"), file(9, "aa", "another text")] {
        assert_eq!(book.offer(&other).await, Ok(Some(nine.clone())));
    }
    for other in [file(8, "aa", "older"), file(9, "bb", "another table")] {
        assert_eq!(book.amend(&other).await, Ok(Some(nine.clone())));
    }
    let amended = file(9, "aa", "amended");
    assert_eq!(book.amend(&amended).await, Ok(Some(amended.clone())));
    // Ten is above nine, though "10" is below "9"; and so are numbers that no double holds.
    for revision in [10, 1 << 53, (1 << 53) + 1, u64::MAX] {
        let next = file(revision, "cc", "next");
        assert_eq!(book.offer(&next).await, Ok(Some(next.clone())));
        assert_eq!(book.look().await, Ok(Some(next)));
    }
}

/// A release's script with its clock in a key of the test's.
struct Held {
    link: Link,
    script: Script,
    keys: [Key; 1],
}

const HELD_CLOCK: &str = "local function now_us()\n  return tonumber(redis.call('GET', '{f:placement}clock'))\nend\n\
                          local function expire_in(key, us)\nend\n";

impl Held {
    async fn start(server: &RedisServer) -> Self {
        let link = connected(&server.url()).await;
        let held = Self { link, script: Script::release_with_clock(HELD_CLOCK), keys: [fleet().release()] };
        held.at(1).await;
        held
    }

    async fn at(&self, us: u64) {
        let set = redis::cmd("SET").arg("{f:placement}clock").arg(us).to_owned();
        self.link.command(set).await.unwrap();
    }

    /// The release's digest, how many slots are loose, and whether it goes on.
    async fn run(&self, args: &[&str]) -> (String, u64, bool) {
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes()).collect();
        let value: Value = self.link.run(&self.script, &self.keys, &args).await.unwrap();
        let (digest, _, _, n_loose, _, goes_on): (String, u64, u64, u64, u64, u8) =
            redis::from_redis_value(value).unwrap();
        (digest, n_loose, goes_on == 1)
    }
}

const MINUTE: u64 = 60_000_000;

#[tokio::test]
async fn slots_come_loose_by_the_servers_clock_and_a_stop_freezes_them() {
    let server = RedisServer::start();
    let held = Held::start(&server).await;
    let aa = |n: u64, goes_on: bool| ("aa".to_owned(), n, goes_on);
    assert_eq!(held.run(&["look", ""]).await, (String::new(), 0, false));
    held.at(1000 * MINUTE).await;
    let begin = ["begin", "aa", "7", "5000", "1000", "0"];
    assert_eq!(held.run(&begin).await, aa(0, true));
    held.at(1000 * MINUTE + MINUTE / 1000).await;
    assert_eq!(held.run(&["look", ""]).await, aa(1, true));
    held.at(1002 * MINUTE).await;
    // Another router begins it as well, and it goes on as it was.
    assert_eq!(held.run(&begin).await, aa(2000, true));
    assert_eq!(held.run(&["stop", "bb"]).await, aa(2000, true));
    assert_eq!(held.run(&["stop", "aa"]).await, aa(2000, false));
    held.at(1010 * MINUTE).await;
    assert_eq!(held.run(&["look", ""]).await, aa(2000, false));
    assert_eq!(held.run(&["stop", "aa"]).await, aa(2000, false));
    assert_eq!(held.run(&["go", "aa"]).await, aa(2000, true));
    held.at(1011 * MINUTE).await;
    assert_eq!(held.run(&["go", "aa"]).await, aa(3000, true));
    // A clock that goes back lets nothing be held again beyond what it was since.
    held.at(1009 * MINUTE).await;
    assert_eq!(held.run(&["look", ""]).await, aa(2000, true));
    held.at(1100 * MINUTE).await;
    assert_eq!(held.run(&["look", ""]).await, aa(5000, true));
}

#[tokio::test]
async fn a_higher_revision_begins_another_one_and_what_is_known_counts_where_the_store_forgot() {
    let server = RedisServer::start();
    let held = Held::start(&server).await;
    held.at(MINUTE).await;
    held.run(&["begin", "aa", "7", "5000", "1000", "0"]).await;
    held.at(2 * MINUTE).await;
    assert_eq!(held.run(&["begin", "bb", "7", "9000", "10", "0"]).await, ("aa".to_owned(), 1000, true));
    // The rate changes from now on.
    assert_eq!(held.run(&["begin", "aa", "8", "5000", "60", "0"]).await, ("aa".to_owned(), 1000, true));
    held.at(3 * MINUTE).await;
    assert_eq!(held.run(&["look", ""]).await, ("aa".to_owned(), 1060, true));
    // A store that went back is told.
    assert_eq!(held.run(&["begin", "aa", "8", "5000", "60", "1500"]).await, ("aa".to_owned(), 1500, true));
    assert_eq!(held.run(&["begin", "bb", "9", "9000", "10", "25"]).await, ("bb".to_owned(), 25, true));
    held.at(4 * MINUTE).await;
    assert_eq!(held.run(&["look", ""]).await, ("bb".to_owned(), 35, true));
}

#[tokio::test]
async fn both_are_kept_by_a_cluster() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    let (accepted, release) = (AcceptedBook::new(link.clone(), &fleet()), ReleaseBook::new(link, &fleet()));
    let one = file(1, "aa", "text");
    assert_eq!(accepted.offer(&one).await, Ok(Some(one)));
    let terms = ReleaseTerms { digest: "aa".to_owned(), revision: 1, total: 100, per_minute: 1 };
    let state = |is_stopped| Ok(Some(ReleaseState { terms: terms.clone(), n_loose: 7, is_stopped }));
    assert_eq!(release.look().await, Ok(None));
    assert_eq!(release.begin(&terms, 7).await, state(false));
    assert_eq!(release.stop("aa").await, state(true));
    assert_eq!(release.look().await, state(true));
    assert_eq!(release.go("aa").await, state(false));
}
