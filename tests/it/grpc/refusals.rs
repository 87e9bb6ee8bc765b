//! What a call is told by whoever stands between it and its backend: 200, a head alone, and a status of gRPC's.

use cofferdam_agent::BackendProtocol;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_router::Settings;
use http::Method;

use super::fleet::{GrpcFleet, before, call, end, refused, speaking, unary};
use crate::http2::client::{Client, finish, request, send, with};
use crate::support::raw;
use crate::support::routers::{TestRouter, settings};
use crate::support::scripted::Scripted;

const ONE: &str =
    "plans: { test: { sustained: 1/h, burst: 1, max_in_flight: 1 } }\ntenant: { unknown: test }\n";

#[tokio::test]
async fn a_limit_is_resource_exhausted_with_its_fields_and_when_to_come_back() {
    // P47
    let fleet = GrpcFleet::start(ONE).await;
    let mut client = fleet.client().await;
    assert_eq!(end(&unary(&mut client, call("/Unary", "acme"), "a").await, "grpc-status"), Some("0"));
    let answer = unary(&mut client, call("/Unary", "acme"), "a").await;
    refused(&answer, "8");
    let number = |name: &str| answer.field(name).unwrap().parse::<u64>().unwrap();
    assert_eq!(number("ratelimit-remaining"), 0);
    assert_eq!(number("grpc-retry-pushback-ms"), number("retry-after") * 1000);
    // What is no call is told as ever.
    let plain = client.ask(crate::http2::client::get("/Many", "acme")).await.unwrap();
    assert_eq!((plain.status(), plain.field("grpc-status")), (429, None));
    assert_eq!(fleet.backends[0].seen().len(), 1);
    fleet.router.idle().await;
}

#[tokio::test]
async fn what_is_wrong_with_a_call_is_said_in_grpcs_words() {
    let fleet = GrpcFleet::start(
        "plans: { p: { sustained: 9/s, burst: 9, max_in_flight: 9 } }\ntenant: { plan_of: { acme: p }, unknown: refuse }\n",
    )
    .await;
    let mut client = fleet.client().await;
    let without_tenant = {
        let mut head = call("/Unary", "acme");
        head.headers_mut().remove("x-tenant-id");
        head
    };
    for (head, status) in [
        (call("/Unary", "BAD"), "3"),
        (without_tenant, "3"),
        (call("/Unary", "globex"), "5"),
        (with(call("/Unary", "acme"), "grpc-timeout", "1x"), "3"),
        (with(call("/Unary", "acme"), "grpc-timeout", "123456789S"), "3"),
        (with(call("/Unary", "acme"), "content-length", "99999999"), "8"),
    ] {
        let (answer, _body) = client.begin(head, false).await;
        refused(&finish(answer).await.unwrap(), status);
    }
    let web = with(request(Method::POST, "/Unary", "BAD"), "content-type", "application/grpc-web");
    assert_eq!(client.ask(web).await.unwrap().status(), 400);
    let many = (0..101).fold(call("/Unary", "acme"), |head, _| with(head, "x-many", "1"));
    refused(&client.ask(many).await.unwrap(), "8");
    assert_eq!(fleet.backends[0].seen().len(), 0);
}

#[tokio::test]
async fn a_message_over_the_limit_is_resource_exhausted() {
    let fleet = GrpcFleet::start("").await;
    let body = BodyLimits { max_bytes: 1000, ..BodyLimits::default() };
    let cells: Vec<_> = fleet.backends.iter().map(|backend| backend.address).collect();
    let router =
        TestRouter::with(&crate::support::files::fleet(&cells, ""), Settings { body, ..settings() }, 1);
    let mut client = Client::connect(router.data).await;
    let (answer, mut upload) = client.begin(call("/Unary", "acme"), false).await;
    let _ = send(&mut upload, vec![b'x'; 2000].into(), true).await;
    refused(&finish(answer).await.unwrap(), "8");
    router.idle().await;
}

#[tokio::test]
async fn calls_that_fail_in_their_trailers_open_the_breaker_of_what_they_need() {
    let db = "routes: [{ match: { path: / }, dependency: db }]\n\
              cell: { dependencies: { db: { breaker: { failures: 3, share: 0.01, window: 10m } } } }\n";
    let fleet = GrpcFleet::start(db).await;
    let mut client = fleet.client().await;
    for _ in 0..3 {
        assert_eq!(end(&unary(&mut client, call("/Unary", "acme"), "a").await, "grpc-status"), Some("0"));
    }
    for _ in 0..3 {
        let failed = unary(&mut client, call("/Unavailable", "acme"), "a").await;
        assert_eq!((failed.field("grpc-status"), end(&failed, "grpc-status")), (None, Some("14")));
    }
    // The agent hears of the last one's end a moment after its client.
    crate::support::eventually("the breaker to open", async || {
        let answer = unary(&mut client, call("/Unary", "acme"), "a").await;
        (answer.field("grpc-status") == Some("14")).then_some(())
    })
    .await;
    let n_seen = fleet.backends[0].seen().len();
    refused(&unary(&mut client, call("/Unary", "acme"), "a").await, "14");
    assert_eq!((fleet.backends[0].seen().len(), fleet.backends[1].seen().len()), (n_seen, 0));
}

#[tokio::test]
async fn an_agents_refusal_moves_a_call_or_stays_by_the_same_rule_as_ever() {
    // P48
    // The home has no place for the tenant's second call: its own doing, which does not move.
    let share = "cell: { max_in_flight: 100, tenant_share: 0.01, classes: { default: { queue: 0 } } }\n";
    let fleet = GrpcFleet::start(share).await;
    let mut client = fleet.client().await;
    let (_held, _body) = client.begin(call("/Hang", "acme"), false).await;
    crate::support::eventually("the call's arrival", async || {
        (fleet.backends[0].seen().len() == 1).then_some(())
    })
    .await;
    let answer = unary(&mut client, call("/Unary", "acme"), "a").await;
    refused(&answer, "8");
    assert_eq!(answer.field("grpc-retry-pushback-ms"), Some("1000"));
    assert_eq!(fleet.backends[1].seen().len(), 0);
    // A full cell is nobody's doing: the call goes to the other one.
    let full = "cell: { max_in_flight: 1, tenant_share: 1, classes: { default: { queue: 0 } } }\n";
    let fleet = GrpcFleet::start(full).await;
    let mut client = fleet.client().await;
    let (_held, _body) = client.begin(call("/Hang", "acme"), false).await;
    crate::support::eventually("the call's arrival", async || {
        (fleet.backends[0].seen().len() == 1).then_some(())
    })
    .await;
    let answer = unary(&mut client, call("/Unary", "acme"), "moved").await;
    assert_eq!((answer.text().as_str(), answer.field("x-backend")), ("moved", Some("second")));
}

#[tokio::test]
async fn a_backend_that_speaks_no_http2_gets_a_status_and_no_hang() {
    let cells = [Scripted::named("a").await, Scripted::named("b").await];
    let addresses = cells.each_ref().map(|cell| cell.address);
    // Told so, an agent does not even ask.
    let (router, _agents) = before(&addresses, "", speaking(BackendProtocol::Http1));
    let mut client = Client::connect(router.data).await;
    refused(&unary(&mut client, call("/Unary", "acme"), "a").await, "12");
    assert_eq!(client.ask(crate::http2::client::get("/", "acme")).await.unwrap().text(), "a");
    // Else it finds out, and says the same: nothing was executed, and it is of no use to try again.
    let (router, _agents) = before(&addresses, "", |_| {});
    let answer = unary(&mut Client::connect(router.data).await, call("/Unary", "acme"), "a").await;
    refused(&answer, "12");
    assert!(answer.field("grpc-retry-pushback-ms").is_none());
    router.idle().await;
}

/// It went on as a mere GET, whose answer then was the client's.
#[tokio::test]
async fn a_websocket_before_a_backend_of_http2_is_501_and_reaches_nobody() {
    let fleet = GrpcFleet::with("", speaking(BackendProtocol::Http2)).await;
    let asking = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: a2V5\r\n\
                  sec-websocket-version: 13\r\n";
    let answer = fleet.router.ask(raw::with_fields("GET", "/Many", "acme", asking)).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (501, "no_websocket"));
    assert_eq!(fleet.router.ask(raw::get("/Many", "acme")).await.status(), 200);
    assert_eq!(fleet.backends[0].seen().len(), 1);
    assert!(fleet.backends[1].seen().is_empty());
    fleet.router.idle().await;
}
