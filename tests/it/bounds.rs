//! One bound on heads for both hops: what the first one takes of a client, or the last one of a backend, goes all the way,
//! with the fields that each adds. What is beyond is refused once, and said.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use cofferdam_agent as agent;
use cofferdam_model::CellId;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::upstream::HeadLimits;
use http::Version;
use tokio::time::sleep;

use crate::http2::client::{Client, get};
use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::raw;
use crate::support::scripted::{Play, Scripted, answer};

/// The most fields of a head that comes from outside.
const MOST: usize = 100;

fn fields(n: usize) -> String {
    (0..n).map(|n| format!("x-{n}: 1\r\n")).collect()
}

/// A fleet before a backend that answers a path such as `/7` with so many fields, and says how many it was asked with.
async fn fleet() -> TestFleet {
    let backends = async || {
        Scripted::start(|seen| {
            let n: usize = seen.head.second_word()[1..].parse().unwrap();
            let came =
                seen.head.fields.iter().filter(|(name, _)| name.starts_with("x-") && name.len() < 6).count();
            // The answer's own is its length.
            Play::Answer(answer("200 OK", &fields(n - 1), &came.to_string()))
        })
        .await
    };
    TestFleet::before(PINS, [backends().await, backends().await]).await
}

/// What one sees who asks with so many fields, its Host and its tenant included, for so many in return: the status, how many came
/// back of those that the backend sends, and the problem.
async fn ask(to: SocketAddr, version: Version, n_asked: usize, n_back: usize) -> (u16, usize, String) {
    let (path, mine) = (format!("/{n_back}"), n_asked - 2);
    let is_one = |name: &str| name.starts_with("x-") && name.len() < 6;
    if version == Version::HTTP_2 {
        let mut request = get(&path, "acme");
        // Neither Host nor anything in its place is among the fields of HTTP/2, but for the tenant's.
        for n in 0..=mine {
            request
                .headers_mut()
                .insert(format!("x-{n}").parse::<http::HeaderName>().unwrap(), "1".parse().unwrap());
        }
        let came = Client::connect(to).await.ask(request).await.unwrap();
        let n_came = came.head.headers().keys().filter(|name| is_one(name.as_str())).count();
        let problem = if came.status() == 200 { came.text() } else { came.problem() };
        return (came.status(), n_came, problem);
    }
    let head = raw::with_fields("GET", &path, "acme", &fields(mine));
    let came = raw::ask(to, head).await;
    let n_came = came.head.fields.iter().filter(|(name, _)| is_one(name)).count();
    let problem = if came.status() == 200 { came.text() } else { came.problem() };
    (came.status(), n_came, problem)
}

#[tokio::test]
async fn what_a_hop_takes_the_next_one_takes_with_what_is_added() {
    let fleet = fleet().await;
    let router = fleet.router.data;
    for version in [Version::HTTP_11, Version::HTTP_2] {
        for n in [80, 89, 90, 91, 95, 98, 99, MOST] {
            let mine = n - if version == Version::HTTP_2 { 1 } else { 2 };
            let expected = (200, 0, mine.to_string());
            assert_eq!(ask(router, version, n, 1).await, expected, "{n} fields of {version:?} to the router");
            let (status, n_came, _) = ask(router, version, 3, n).await;
            assert_eq!((status, n_came), (200, n - 1), "{n} fields of an answer to {version:?}");
            let both = ask(router, version, n, n).await;
            assert_eq!((both.0, both.1), (200, n - 1), "{n} fields both ways of {version:?}");
        }
        for n in [MOST + 1, MOST + 2, MOST + 27, MOST + 28, MOST + 29, 200] {
            let refused = (431, 0, "head_too_large".to_owned());
            assert_eq!(ask(router, version, n, 1).await, refused, "{n} fields of {version:?} to the router");
            let (status, n_came, problem) = ask(router, version, 3, n).await;
            let expected = (502, 0, "backend_malformed".to_owned());
            assert_eq!((status, n_came, problem), expected, "{n} fields of an answer to {version:?}");
        }
    }
    fleet.idle().await;
}

#[tokio::test]
async fn an_agent_has_room_for_what_a_router_adds_and_refuses_what_is_beyond() {
    let fleet = fleet().await;
    let to = fleet.cells[0].address;
    let ask = async |n: usize| {
        let tenant = "cofferdam-tenant: acme\r\n";
        raw::ask(to, format!("GET /1 HTTP/1.1\r\nhost: a\r\n{tenant}{}\r\n", fields(n - 2))).await
    };
    for n in [MOST, MOST + 1, MOST + 27, MOST + 28] {
        assert_eq!((ask(n).await.status(), ask(n).await.text()), (200, (n - 2).to_string()), "{n}");
    }
    for n in [MOST + 29, 200, 400] {
        assert_eq!((ask(n).await.status(), ask(n).await.problem().as_str()), (431, "head_too_large"), "{n}");
    }
    fleet.idle().await;
}

#[tokio::test]
async fn heads_of_nearly_all_the_bytes_that_they_may_have_go_all_the_way() {
    let fleet = fleet().await;
    let large = |bytes: usize| format!("x-large: {}\r\n", "v".repeat(bytes));
    let ask = async |bytes: usize| {
        let head = raw::with_fields("GET", "/1", "acme", &large(bytes));
        raw::ask(fleet.router.data, head).await
    };
    for bytes in [30_000, 32_000, 32 * 1024 - 100] {
        assert_eq!(ask(bytes).await.status(), 200, "{bytes}");
    }
    let refused = ask(33_000).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (431, "head_too_large"));
    fleet.idle().await;
}

#[tokio::test]
async fn a_body_that_stands_still_is_late_at_its_own_time_and_not_at_its_deadline() {
    let routes = format!("{PINS}routes: [{{ match: {{ path: /short }}, class: default, timeout: 300ms }}]\n");
    let body = BodyLimits { idle: Duration::from_secs(1), ..BodyLimits::default() };
    let fleet =
        TestFleet::sized(&routes, [Scripted::named("a").await, Scripted::named("b").await], body).await;
    let begin = async || {
        let mut client = raw::Client::connect(fleet.router.data).await;
        client.send(raw::with_fields("POST", "/short", "acme", "content-length: 6\r\n")).await;
        client.send("abc").await;
        (client, Instant::now())
    };
    let (mut client, began) = begin().await;
    assert_eq!(client.answer().await.status(), 408);
    assert!(began.elapsed() >= body.idle, "at its own time: {:?}", began.elapsed());
    // What comes behind the deadline comes too late, and is the client's doing as well.
    let (mut client, _) = begin().await;
    sleep(body.idle / 2).await;
    client.send("def").await;
    assert_eq!(client.answer().await.status(), 408);
    // A whole body leaves the time to the cell.
    let late = Scripted::start(|_| Play::Hang).await;
    let fleet = TestFleet::sized(&routes, [late, Scripted::named("b").await], body).await;
    let answer = raw::ask(fleet.router.data, raw::post("/short", "acme", b"abc")).await;
    assert_eq!(answer.status(), 504);
}

#[test]
fn each_hop_takes_more_of_its_own_than_of_strangers() {
    let agent = agent::Settings::new(CellId::parse("cell-a").unwrap(), "http://127.0.0.1:1".parse().unwrap());
    let router = cofferdam_router::Settings::default();
    assert_eq!((agent.upstream.head, router.upstream.head), (HeadLimits::OUTSIDE, HeadLimits::OF_A_HOP));
    assert!(agent.serve.max_fields > router.serve.max_fields);
    assert!(agent.serve.max_head_bytes > router.serve.max_head_bytes);
    assert!(agent.serve.max_list_bytes > router.serve.max_list_bytes);
    assert!(agent.serve.idle > router.upstream.idle, "a router lets go first");
}
