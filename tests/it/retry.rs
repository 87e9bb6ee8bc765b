//! What was sent and had no answer: when it is sent again, where, and with which bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::support::agents::TestFleet;
use crate::support::eventually;
use crate::support::files::{PINS, fleet};
use crate::support::message::read_head;
use crate::support::raw::{self, chunk, get, post, with_fields};
use crate::support::relay::{Relay, Weather};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, Seen, ok};

async fn router(home: &Scripted, second: &Scripted) -> TestRouter {
    TestRouter::start(&fleet(&[home.address, second.address], PINS))
}

/// A PUT is idempotent and has a body.
fn put(tenant: &str, body: &[u8]) -> Vec<u8> {
    let length = format!("content-length: {}\r\n", body.len());
    [with_fields("PUT", "/", tenant, &length).as_bytes(), body].concat()
}

#[tokio::test]
async fn a_post_on_a_connection_that_the_cell_closed_while_it_was_idle_succeeds() {
    // Every connection serves one request, and is then closed without a word.
    let home = Scripted::start(|_| Play::Last(ok("home"))).await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    for n in 1..=10 {
        assert_eq!(router.ask(post("/", "acme", b"body")).await.text(), "home", "request {n}");
        let closed = async || (home.n_connections() == n).then_some(());
        eventually("the connection to be used", closed).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(second.n_connections(), 0);
}

#[tokio::test]
async fn a_get_whose_connection_died_is_tried_once_more_on_the_other_cell() {
    let home = Scripted::start(|_| Play::Close).await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    assert_eq!(router.ask(put("acme", b"the same bytes")).await.text(), "second");
    assert_eq!(home.seen().len(), 2);
    let seen = second.seen();
    assert_eq!(seen[1].body, b"the same bytes");
    assert_eq!(seen[1].head.field("cofferdam-attempt"), Some("2"));
    router.idle().await;
}

#[tokio::test]
async fn a_post_that_may_have_been_executed_is_502_and_never_sent_twice() {
    // P15
    let home = Scripted::start(|_| Play::Close).await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    let answer = router.ask(post("/", "acme", b"body")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (502, "cell_lost"));
    assert_eq!((home.seen().len(), second.n_connections()), (1, 0));
    router.idle().await;
}

#[tokio::test]
async fn a_get_that_both_cells_lose_is_502_after_two_executions() {
    // P15: no storm of attempts.
    let (home, second) = (Scripted::start(|_| Play::Close).await, Scripted::start(|_| Play::Close).await);
    let router = router(&home, &second).await;
    let answer = router.ask(get("/", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (502, "cell_lost"));
    assert_eq!((home.seen().len(), second.seen().len()), (1, 1));
    router.idle().await;
}

#[tokio::test]
async fn a_reused_connection_that_dies_gets_one_fresh_one_to_the_same_cell() {
    let n_asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&n_asked);
    // The second request on any connection is read, and the connection closed.
    let home = Scripted::start(move |_| match counter.fetch_add(1, Ordering::SeqCst) {
        1 => Play::Close,
        _ => Play::Answer(ok("home")),
    })
    .await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    assert_eq!((home.n_connections(), home.seen().len(), second.n_connections()), (2, 3, 0));
}

#[tokio::test]
async fn on_a_fresh_connection_to_the_same_cell_it_is_the_first_attempt_still() {
    // The next request on a kept connection is read, and the connection closed; below `/dies` that on a fresh one too.
    let n_asked = Arc::new(AtomicUsize::new(0));
    let home = Scripted::start(move |seen| match seen.head.second_word() {
        "/once" if n_asked.fetch_add(1, Ordering::SeqCst) == 0 => Play::Close,
        "/dies" => Play::Close,
        _ => Play::Answer(ok("home")),
    })
    .await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    for (path, served_by) in [("/", "home"), ("/once", "home"), ("/dies", "second")] {
        assert_eq!(router.ask(get(path, "acme")).await.text(), served_by, "{path}");
    }
    let attempts = |cell: &Scripted| -> Vec<_> {
        let attempt = |seen: Seen| {
            (seen.head.second_word().to_owned(), seen.head.field("cofferdam-attempt").unwrap().to_owned())
        };
        cell.seen().into_iter().map(attempt).collect()
    };
    let heard = |path: &str, attempt: &str| (path.to_owned(), attempt.to_owned());
    let at_home = [("/", "1"), ("/once", "1"), ("/once", "1"), ("/dies", "1"), ("/dies", "1")];
    assert_eq!(attempts(&home), at_home.map(|(path, attempt)| heard(path, attempt)));
    assert_eq!(attempts(&second), [heard("/dies", "2")], "the other cell is the second");
    router.idle().await;
}

#[tokio::test]
async fn a_body_that_outgrew_what_is_kept_is_not_sent_again() {
    let home = Scripted::start(|_| Play::Close).await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    let answer = router.ask(put("acme", &vec![b'x'; 64 * 1024 + 1])).await;
    assert_eq!((answer.status(), second.n_connections()), (502, 0));
    let kept = vec![b'x'; 64 * 1024];
    assert_eq!(router.ask(put("acme", &kept)).await.text(), "second");
    assert!(second.only().body == kept);
    router.idle().await;
}

#[tokio::test]
async fn a_chunked_upload_that_a_full_cell_refused_halfway_reaches_the_other_cell_whole() {
    // The home refuses at once, while the upload is under way, and goes on reading.
    let home = Scripted::raw(|stream: TcpStream, _| async move {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream).await.unwrap();
        let full = crate::support::scripted::refusal("503 Service Unavailable", "cell");
        stream.write_all(&full).await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let second = Scripted::named("second").await;
    let router = router(&home, &second).await;
    let mut client = raw::Client::connect(router.data).await;
    client.send(with_fields("POST", "/", "acme", "transfer-encoding: chunked\r\n")).await;
    let mut whole = Vec::new();
    for n in 0..30_u32 {
        let part = format!("part {n};").into_bytes();
        client.send(chunk(&part)).await;
        whole.extend(part);
        if n == 3 {
            eventually("the second cell to be asked", async || (second.n_connections() == 1).then_some(()))
                .await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    client.send(chunk(b"")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "second"));
    assert_eq!(String::from_utf8_lossy(&second.only().body), String::from_utf8_lossy(&whole));
    router.idle().await;
}

#[tokio::test]
async fn answers_that_are_lost_on_the_way_cost_a_get_nothing_and_a_post_a_502() {
    let (backend, second) = (Scripted::named("home").await, Scripted::named("second").await);
    let home = Relay::before(backend.address).await;
    let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
    assert_eq!(router.ask(get("/", "acme")).await.text(), "home");
    home.set(Weather::AnswersLost);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    assert_eq!(router.ask(post("/", "acme", b"body")).await.status(), 502);
    home.set(Weather::Cut);
    assert_eq!(router.ask(get("/", "acme")).await.text(), "second");
    home.set(Weather::Clear);
    assert_eq!(router.ask(post("/", "acme", b"body")).await.text(), "home");
    assert_eq!(second.seen().len(), 2);
    router.idle().await;
}

#[tokio::test]
async fn a_backend_that_dies_behind_its_agent_is_the_other_cells_turn() {
    let mut fleet = TestFleet::start(PINS).await;
    assert_eq!(fleet.router.ask(get("/", "acme")).await.text(), "cell-a");
    let backend = std::mem::replace(&mut fleet.cells[0].backend, Scripted::named("unused").await);
    backend.stop().await;
    for request in [get("/", "acme").into_bytes(), post("/", "acme", b"body")] {
        assert_eq!(fleet.router.ask(request).await.text(), "cell-b");
    }
    fleet.idle().await;
}
