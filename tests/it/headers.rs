//! What an intermediary takes away, adds, and never believes.

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, fleet};
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer, ok};

async fn start(play: Play) -> (TestRouter, Scripted, Scripted) {
    let cell = Scripted::start(move |_| play.clone()).await;
    let other = Scripted::named("other").await;
    let router = TestRouter::start(&fleet(&[cell.address, other.address], PINS));
    (router, cell, other)
}

#[tokio::test]
async fn a_clients_internal_headers_never_reach_the_backend() {
    // P39: headers trusted.
    let fleet = TestFleet::start(PINS).await;
    let forged = "cofferdam-class: checkout\r\ncofferdam-attempt: 9\r\ncofferdam-anything: x\r\n\
                  cofferdam-tenant: globex\r\nCofferdam-Remaining-Ms: 90000\r\nendpoint-load-metrics: TEXT x=1\r\n\
                  cofferdam-refused: cell\r\ncofferdam-resort: shed\r\ncofferdam-fault: lost\r\n\
                  cofferdam-leaving-ms: 9000\r\n";
    let answer = fleet.router.ask(with_fields("GET", "/", "acme", forged)).await;
    assert_eq!(answer.status(), 200);
    let head = fleet.cells[0].backend.only().head;
    assert_eq!(head.field("cofferdam-tenant"), Some("acme"));
    assert_eq!(head.field("cofferdam-class"), Some("default"));
    assert_eq!(head.field("cofferdam-attempt"), Some("1"));
    assert!((5000..=15_000).contains(&head.field("cofferdam-remaining-ms").unwrap().parse::<u64>().unwrap()));
    for name in [
        "cofferdam-anything",
        "endpoint-load-metrics",
        "cofferdam-refused",
        "cofferdam-resort",
        "cofferdam-fault",
        "cofferdam-leaving-ms",
    ] {
        assert_eq!(head.field(name), None, "{name}");
    }
}

#[tokio::test]
async fn internal_headers_never_leave_towards_the_client() {
    let fields = "cofferdam-secret: 1\r\ncofferdam-leaving-ms: 9000\r\nendpoint-load-metrics: TEXT application_utilization=0.5\r\n\
                  connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nx-kept: 1\r\n";
    let (router, _cell, _other) = start(Play::Answer(answer("200 OK", fields, "x"))).await;
    let answer = router.ask(get("/", "acme")).await;
    for (name, _) in &answer.head.fields {
        assert!(!name.starts_with("cofferdam-") && name != "endpoint-load-metrics", "{name}");
    }
    assert_eq!((answer.field("x-hop"), answer.field("keep-alive")), (None, None));
    assert_eq!(answer.field("x-kept"), Some("1"));
    assert!(answer.field("via").unwrap().contains("cofferdam"));
    // The real agents of a fleet say how full they are to the router, and to nobody else.
    let fleet = TestFleet::start(PINS).await;
    let answer = fleet.router.ask(get("/", "acme")).await;
    assert!(
        answer
            .head
            .fields
            .iter()
            .all(|(name, _)| !name.starts_with("cofferdam-") && name != "endpoint-load-metrics")
    );
}

#[tokio::test]
async fn hop_by_hop_headers_go_and_erase_nothing_of_ours() {
    let (router, cell, _other) = start(Play::Answer(ok("x"))).await;
    let fields = "connection: x-tenant-id, cofferdam-tenant, X-Secret, host, content-length\r\n\
                  connection: via\r\nx-secret: 1\r\nte: gzip\r\nupgrade: h2c\r\nkeep-alive: 5\r\n\
                  proxy-authorization: Basic x\r\nproxy-connection: keep-alive\r\ncontent-length: 3\r\n";
    let request = with_fields("POST", "/", "acme", fields) + "abc";
    assert_eq!(router.ask(request).await.status(), 200);
    let seen = cell.only();
    for name in
        ["connection", "x-secret", "te", "upgrade", "keep-alive", "proxy-authorization", "proxy-connection"]
    {
        assert_eq!(seen.head.field(name), None, "{name}");
    }
    assert_eq!(seen.head.field("host"), Some("test.example"));
    assert_eq!(seen.head.field("cofferdam-tenant"), Some("acme"));
    assert!(seen.head.field("via").unwrap().contains("cofferdam"));
    assert_eq!(seen.body, b"abc");
}

#[tokio::test]
async fn a_request_that_passed_here_before_is_508() {
    let (router, cell, _other) = start(Play::Answer(ok("x"))).await;
    let looped = with_fields("GET", "/", "acme", "via: 1.0 elsewhere, 1.1 cofferdam-test\r\n");
    let answer = router.ask(looped).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (508, "loop"));
    assert_eq!(cell.n_connections(), 0);
    let other = with_fields("GET", "/", "acme", "via: 1.1 cofferdam-of-others\r\n");
    assert_eq!(router.ask(other).await.status(), 200);
    assert_eq!(cell.only().head.field("via"), Some("1.1 cofferdam-of-others, 1.1 cofferdam-test"));
}

#[tokio::test]
async fn where_a_request_came_from_is_added() {
    let (router, cell, _other) = start(Play::Answer(ok("x"))).await;
    assert_eq!(router.ask(get("/", "acme")).await.status(), 200);
    let head = cell.only().head;
    assert_eq!(head.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(head.field("x-forwarded-proto"), Some("http"));
    assert_eq!(head.field("x-forwarded-host"), Some("test.example"));
}

#[tokio::test]
async fn head_204_and_304_carry_no_body_and_keep_the_connection() {
    let cell = Scripted::start(|seen| {
        Play::Answer(match seen.head.second_word() {
            "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/304" => b"HTTP/1.1 304 Not Modified\r\netag: \"e\"\r\ncontent-length: 5\r\n\r\n".to_vec(),
            "/head" => b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".to_vec(),
            _ => ok("after"),
        })
    })
    .await;
    let other = Scripted::named("other").await;
    let router = TestRouter::start(&fleet(&[cell.address, other.address], PINS));
    let mut client = raw::Client::connect(router.data).await;
    for (method, path, status) in [("GET", "/204", 204), ("GET", "/304", 304), ("HEAD", "/head", 200)] {
        client.send(with_fields(method, path, "acme", "")).await;
        let answer = client.answer_to(method == "HEAD").await;
        assert_eq!(answer.status(), status);
        if method == "HEAD" {
            assert_eq!(answer.field("content-length"), Some("5"));
        }
        // The next answer starts where this one ended, on both connections.
        assert_eq!(client.ask(get("/x", "acme")).await.text(), "after");
    }
    assert_eq!(cell.n_connections(), 1);
    router.idle().await;
}

#[tokio::test]
async fn an_answer_of_an_old_protocol_is_relayed_in_ours() {
    let old = b"HTTP/1.0 200 OK\r\nx-old: 1\r\n\r\nuntil the connection closes".to_vec();
    let (router, _cell, _other) = start(Play::Last(old)).await;
    let mut client = raw::Client::connect(router.data).await;
    for _ in 0..2 {
        let answer = client.ask(get("/", "acme")).await;
        assert!(answer.head.line.starts_with("HTTP/1.1 200"), "{answer:?}");
        assert_eq!(answer.text(), "until the connection closes");
        assert_eq!(answer.field("via"), Some("1.0 cofferdam-test"));
    }
}

#[tokio::test]
async fn connections_are_kept_on_both_sides() {
    let (router, cell, _other) = start(Play::Answer(ok("x"))).await;
    let mut client = raw::Client::connect(router.data).await;
    for _ in 0..20 {
        assert_eq!(client.ask(get("/", "acme")).await.status(), 200);
    }
    assert_eq!(cell.n_connections(), 1);
    let answer = client.ask(with_fields("GET", "/", "acme", "connection: close\r\n")).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(client.rest().await, b"");
}

#[tokio::test]
async fn a_trace_that_is_begun_anew_is_one_trace_for_both_hops() {
    // The router begins it, and the agent behind it finds nothing to mend: the second answer is as the first hop said.
    let (router, cell, _other) = start(Play::Answer(ok("x"))).await;
    let malformed =
        "traceparent: 00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01\r\ntracestate: a=1\r\n";
    assert_eq!(router.ask(with_fields("GET", "/", "acme", malformed)).await.status(), 200);
    let begun = cell.only().head.field("traceparent").unwrap().to_owned();
    assert!(begun.len() == 55 && begun.starts_with("00-") && begun.ends_with("-00"), "{begun}");
    assert!(!begun.to_ascii_lowercase().contains("0af7651916cd43dd8448eb211c80319c"), "{begun}");
    let fleet = TestFleet::start(PINS).await;
    let fields = format!("traceparent: {begun}\r\ntracestate: a=1\r\n");
    assert_eq!(fleet.router.ask(with_fields("GET", "/", "acme", &fields)).await.status(), 200);
    let head = fleet.cells[0].backend.only().head;
    assert_eq!((head.field("traceparent"), head.field("tracestate")), (Some(begun.as_str()), Some("a=1")));
}
