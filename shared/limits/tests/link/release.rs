//! How far a release is, by the server's clock, on a real server whose clock the test holds.

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{Fleet, Key, ReleaseBook, ReleaseName, ReleaseProgress, ReleaseTerms, Script};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use redis::Value;

use crate::redis_server::RedisServer;
use crate::spend::connected;

/// A release's script with its clock in a key of the test's.
struct Held {
    link: Link,
    script: Script,
    keys: [Key; 1],
}

const HELD_CLOCK: &str = "local function now_us()\n  return tonumber(redis.call('GET', '{f:placement}clock'))\nend\n\
                          local function expire_in(key, us)\nend\n";

fn fleet() -> Fleet {
    Fleet::parse("f").unwrap()
}

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

    async fn forget(&self) {
        let del = redis::cmd("DEL").arg(self.keys[0].as_str()).to_owned();
        self.link.command(del).await.unwrap();
    }

    /// The release's digest and the revision that began it, how many slots are loose, and whether it goes on.
    async fn run(&self, args: &[&str]) -> (String, String, u64, bool) {
        let (digest, began, progress) = self.progress(args).await;
        (digest, began, progress.n_loose.into(), !progress.is_stopped())
    }

    async fn progress(&self, args: &[&str]) -> (String, String, ReleaseProgress) {
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes()).collect();
        let value: Value = self.link.run(&self.script, &self.keys, &args).await.unwrap();
        let (digest, began, _, n_loose, _, n_orders): (String, String, u64, u32, u64, u32) =
            redis::from_redis_value(value).unwrap();
        (digest, began, ReleaseProgress { n_loose, n_orders })
    }
}

const MINUTE: u64 = 60_000_000;

/// What is answered of a release.
fn of(digest: &str, began: &str, n_loose: u64, goes_on: bool) -> (String, String, u64, bool) {
    (digest.to_owned(), began.to_owned(), n_loose, goes_on)
}

#[tokio::test]
async fn slots_come_loose_by_the_servers_clock_and_a_stop_freezes_them() {
    let server = RedisServer::start();
    let held = Held::start(&server).await;
    let aa = |n: u64, goes_on: bool| of("aa", "7", n, goes_on);
    assert_eq!(held.run(&["look", "", "0"]).await, of("", "", 0, true));
    held.at(1000 * MINUTE).await;
    let begin = ["begin", "aa", "7", "5000", "1000", "0", "0"];
    assert_eq!(held.run(&begin).await, aa(0, true));
    held.at(1000 * MINUTE + MINUTE / 1000).await;
    assert_eq!(held.run(&["look", "", "0"]).await, aa(1, true));
    held.at(1002 * MINUTE).await;
    // Another router begins it as well, and it goes on as it was.
    assert_eq!(held.run(&begin).await, aa(2000, true));
    for other in [["stop", "bb", "7"], ["stop", "aa", "8"]] {
        assert_eq!(held.run(&other).await, aa(2000, true));
    }
    assert_eq!(held.run(&["stop", "aa", "7"]).await, aa(2000, false));
    held.at(1010 * MINUTE).await;
    assert_eq!(held.run(&begin).await, aa(2000, false));
    assert_eq!(held.run(&["stop", "aa", "7"]).await, aa(2000, false));
    // Who knows an earlier beginning of the same way means this one.
    assert_eq!(held.run(&["go", "aa", "6"]).await, aa(2000, true));
    held.at(1011 * MINUTE).await;
    assert_eq!(held.run(&["go", "aa", "7"]).await, aa(3000, true));
    // A clock that goes back lets nothing be held again beyond what it was since.
    held.at(1009 * MINUTE).await;
    assert_eq!(held.run(&["look", "", "0"]).await, aa(2000, true));
    held.at(1100 * MINUTE).await;
    assert_eq!(held.run(&["look", "", "0"]).await, aa(5000, true));
}

#[tokio::test]
async fn what_began_later_begins_anew_even_to_the_same_table_and_what_is_known_counts_where_the_store_forgot()
{
    let server = RedisServer::start();
    let held = Held::start(&server).await;
    held.at(MINUTE).await;
    held.run(&["begin", "aa", "9", "5000", "1000", "0", "0"]).await;
    held.at(2 * MINUTE).await;
    for earlier in
        [["begin", "bb", "9", "9000", "10", "0", "0"], ["begin", "aa", "8", "9000", "10", "4000", "3"]]
    {
        assert_eq!(held.run(&earlier).await, of("aa", "9", 1000, true));
    }
    // The rate changes from now on, and no part of a slot is lost however often it does.
    for half_second in 0..=120 {
        held.at(2 * MINUTE + half_second * MINUTE / 120).await;
        let rate = if half_second % 2 == 0 { "60" } else { "30" };
        held.run(&["begin", "aa", "9", "5000", rate, "0", "0"]).await;
    }
    assert_eq!(held.run(&["look", "", "0"]).await, of("aa", "9", 1045, true));
    // A store that went back is told: how far it was, and that somebody has stopped it since.
    assert_eq!(held.run(&["begin", "aa", "9", "5000", "60", "1500", "3"]).await, of("aa", "9", 1500, false));
    assert_eq!(held.run(&["begin", "aa", "9", "5000", "60", "0", "2"]).await, of("aa", "9", 1500, false));
    // The same way once more is another one.
    assert_eq!(held.run(&["begin", "aa", "10", "5000", "10", "0", "0"]).await, of("aa", "10", 0, true));
    held.at(4 * MINUTE).await;
    assert_eq!(held.run(&["begin", "bb", "11", "9000", "10", "25", "1"]).await, of("bb", "11", 25, false));
    // Numbers that no double holds.
    let (one, other) = ((u64::MAX - 1).to_string(), u64::MAX.to_string());
    assert_eq!(held.run(&["begin", "aa", &one, "9", "1", "0", "0"]).await, of("aa", &one, 0, true));
    assert_eq!(held.run(&["begin", "aa", &other, "9", "1", "2", "0"]).await, of("aa", &other, 2, true));
    // A router that found more slots to change has them released as well.
    held.at(30 * MINUTE).await;
    assert_eq!(held.run(&["begin", "aa", &other, "20", "1", "0", "0"]).await, of("aa", &other, 9, true));
    held.at(31 * MINUTE).await;
    assert_eq!(held.run(&["look", "", "0"]).await, of("aa", &other, 10, true));
}

#[tokio::test]
async fn a_release_that_is_looked_at_is_not_forgotten() {
    let server = RedisServer::start();
    let book = ReleaseBook::new(connected(&server.url()).await, &fleet());
    let name = ReleaseName { digest: "aa".to_owned(), began: 1 };
    let terms = ReleaseTerms { name: name.clone(), total: 9, per_minute: 1 };
    book.begin(&terms, ReleaseProgress::default()).await.unwrap();
    book.stop(&name).await.unwrap();
    let (mut connection, key) = (server.connect(), fleet().release());
    let set: bool = redis::cmd("EXPIRE").arg(key.as_str()).arg(60).query(&mut connection).unwrap();
    assert!(set);
    book.begin(&terms, ReleaseProgress::default()).await.unwrap();
    let left_s: u64 = redis::cmd("TTL").arg(key.as_str()).query(&mut connection).unwrap();
    assert!(left_s > 30 * 86_400, "{left_s}");
}

/// What happens to a release that two routers run.
#[derive(Debug, Clone)]
enum Event {
    Wait(u64),
    /// A router looks, with the budget of its file.
    Look(usize, u32),
    Stop(usize),
    Go(usize),
    /// The store forgets, and both look.
    Forget,
    /// Both go back, and the same way once more.
    Again,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let router = || 0..2_usize;
    let event = prop_oneof![
        4 => (0..5 * MINUTE).prop_map(Event::Wait),
        4 => (router(), 1..3000_u32).prop_map(|(router, rate)| Event::Look(router, rate)),
        2 => router().prop_map(Event::Stop),
        2 => router().prop_map(Event::Go),
        1 => Just(Event::Forget),
        1 => Just(Event::Again),
    ];
    vec(event, 1..40)
}

const N_SLOTS: u32 = 5000;

/// A plain release: parts of slots, 60,000,000 to a slot.
struct Plain {
    parts: u64,
    /// What its budgets have allowed since it began.
    allowed: u64,
    rate: u32,
    n_orders: u32,
    began: u64,
    now: u64,
}

impl Plain {
    fn wait(&mut self, us: u64) {
        self.now += us;
        if self.n_orders.is_multiple_of(2) {
            let grown = us * u64::from(self.rate);
            self.allowed += grown;
            self.parts = (self.parts + grown).min(u64::from(N_SLOTS) * MINUTE);
        }
    }

    fn progress(&self) -> ReleaseProgress {
        ReleaseProgress { n_loose: (self.parts / MINUTE) as u32, n_orders: self.n_orders }
    }

    fn order(&mut self, is_stop: bool) {
        if self.n_orders.is_multiple_of(2) == is_stop {
            self.n_orders += 1;
        }
    }
}

async fn look(held: &Held, plain: &Plain, known: ReleaseProgress) -> ReleaseProgress {
    let numbers = [N_SLOTS, plain.rate, known.n_loose, known.n_orders].map(|number| number.to_string());
    let [total, rate, n_loose, n_orders] = &numbers;
    held.progress(&["begin", "aa", &plain.began.to_string(), total, rate, n_loose, n_orders]).await.2
}

async fn play(held: &Held, events: Vec<Event>) -> Result<(), TestCaseError> {
    held.forget().await;
    let mut plain = Plain { parts: 0, allowed: 0, rate: 60, n_orders: 0, began: 1, now: MINUTE };
    held.at(plain.now).await;
    let mut known = [look(held, &plain, ReleaseProgress::default()).await; 2];
    for event in events {
        let before = known;
        match event {
            Event::Wait(us) => {
                plain.wait(us);
                held.at(plain.now).await;
                continue;
            }
            Event::Look(router, rate) => {
                plain.rate = rate;
                known[router] = look(held, &plain, known[router]).await;
                prop_assert_eq!(known[router], plain.progress());
            }
            Event::Stop(router) | Event::Go(router) => {
                let is_stop = matches!(event, Event::Stop(_));
                let order = if is_stop { "stop" } else { "go" };
                plain.order(is_stop);
                known[router] = held.progress(&[order, "aa", &plain.began.to_string()]).await.2;
                prop_assert_eq!(known[router], plain.progress());
            }
            Event::Forget => {
                held.forget().await;
                // What nobody has seen comes loose later.
                let n_loose = known[0].n_loose.max(known[1].n_loose);
                let n_orders = known[0].n_orders.max(known[1].n_orders);
                (plain.parts, plain.n_orders) = (u64::from(n_loose) * MINUTE, n_orders);
                for router in [1, 0, 1] {
                    known[router] = look(held, &plain, known[router]).await;
                }
                prop_assert_eq!(known, [plain.progress(); 2]);
            }
            Event::Again => {
                plain = Plain { parts: 0, allowed: 0, n_orders: 0, began: plain.began + 1, ..plain };
                known = [look(held, &plain, ReleaseProgress::default()).await; 2];
                prop_assert_eq!(known, [ReleaseProgress::default(); 2]);
                continue;
            }
        }
        for (before, now) in before.iter().zip(&known) {
            prop_assert!(now.n_loose >= before.n_loose, "back from {before:?} to {now:?}");
            prop_assert!(
                u64::from(now.n_loose) * MINUTE <= plain.allowed,
                "{now:?} within {}",
                plain.allowed
            );
        }
    }
    Ok(())
}

#[test]
fn whatever_happens_no_slot_goes_back_none_is_early_and_none_moves_while_it_is_stopped() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = RedisServer::start();
    let held = runtime.block_on(Held::start(&server));
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&events(), |events| runtime.block_on(play(&held, events))).unwrap();
}
