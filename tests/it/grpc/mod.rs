//! gRPC end to end: a client of HTTP/2, a router, agents, and backends that speak HTTP/2.

mod backend;
mod ends;
pub(crate) mod fleet;
mod refusals;
mod settled;

use std::time::Duration;

use bytes::Bytes;
use cofferdam_agent::BackendProtocol;
use http::{HeaderMap, HeaderValue, Method};

use self::fleet::{GrpcFleet, call, end, speaking, unary};
use crate::http2::client::{finish, get, request, rest, send, with};
use crate::support::within;

#[tokio::test]
async fn a_unary_call_goes_by_http2_to_its_backend_with_trailers_both_ways() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let (answer, mut body) = client.begin(call("/Unary", "acme"), false).await;
    body.send_data(Bytes::from_static(b"hello"), false).unwrap();
    let pairs = [("x-sum", "5"), ("cofferdam-class", "forged"), ("authorization", "Basic x")];
    let trailers: HeaderMap = pairs
        .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
        .into_iter()
        .collect();
    body.send_trailers(trailers).unwrap();
    let answer = finish(answer).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "hello"));
    assert_eq!((answer.field("x-backend"), answer.field("x-sum")), (Some("home"), Some("5")));
    assert!(answer.field("ratelimit-policy").is_some());
    let mut ended: Vec<_> = answer.trailers.as_ref().unwrap().keys().map(|name| name.as_str()).collect();
    ended.sort_unstable();
    assert_eq!(ended, ["grpc-status", "x-from"]);
    let seen = &fleet.backends[0].seen()[0];
    assert_eq!((seen.uri.path(), seen.uri.authority().unwrap().as_str()), ("/Unary", "test.example"));
    let field = |name: &str| seen.headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!((field("te"), field("cofferdam-tenant")), (Some("trailers"), Some("acme")));
    assert_eq!((field("content-type"), field("host")), (Some("application/grpc+proto"), None));
    assert_eq!(seen.headers.get_all("te").iter().count(), 1);
    assert!(field("via").unwrap().starts_with("2 ") && field("grpc-timeout").is_none(), "{seen:?}");
    fleet.router.idle().await;
}

#[tokio::test]
async fn te_is_said_for_the_next_hop_whatever_the_client_says_of_its_own() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let head = with(request(Method::POST, "/Unary", "acme"), "content-type", "application/grpc");
    assert_eq!(end(&unary(&mut client, head, "a").await, "grpc-status"), Some("0"));
    assert_eq!(fleet.backends[0].seen()[0].headers["te"], "trailers");
}

#[tokio::test]
async fn cookies_in_crumbs_are_one_field_towards_a_backend_of_http2() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let head = with(request(Method::POST, "/Unary", "acme"), "content-type", "application/grpc");
    let head = ["a=1", "b=2", "c=3"].into_iter().fold(head, |head, crumb| with(head, "cookie", crumb));
    assert_eq!(end(&unary(&mut client, head, "a").await, "grpc-status"), Some("0"));
    let seen = &fleet.backends[0].seen()[0];
    assert_eq!(seen.headers.get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2; c=3"]);
}

#[tokio::test]
async fn each_kind_of_streaming_works() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let answer = unary(&mut client, call("/Many", "acme"), "").await;
    assert_eq!(answer.text(), "message 0;message 1;message 2;");
    assert_eq!((end(&answer, "grpc-status"), end(&answer, "x-from")), (Some("0"), Some("home")));
    // The client's messages, more than any window on the way.
    let (answer, mut body) = client.begin(call("/Unary", "acme"), false).await;
    let (sent, answer) = tokio::join!(
        async {
            for _ in 0..20 {
                within("room", send(&mut body, vec![b'x'; 100_000].into(), false)).await.unwrap();
            }
            send(&mut body, Bytes::from_static(b"."), true).await
        },
        finish(answer)
    );
    sent.unwrap();
    assert_eq!(answer.unwrap().body.len(), 2_000_001);
    // Both at once: the answer begins before the first message, and each is answered before the next is sent.
    let (answer, mut body) = client.begin(call("/Chat", "acme"), false).await;
    let mut answer = within("a head", answer).await.unwrap().into_body();
    for text in ["one", "two", "three"] {
        body.send_data(Bytes::from(text), false).unwrap();
        let part = within("an echo", answer.data()).await.unwrap().unwrap();
        answer.flow_control().release_capacity(part.len()).unwrap();
        assert_eq!(part, text);
    }
    body.send_data(Bytes::new(), true).unwrap();
    let (left, trailers) = rest(&mut answer).await.unwrap();
    assert_eq!((left.len(), &trailers.unwrap()["grpc-status"]), (0, &HeaderValue::from_static("0")));
    fleet.router.idle().await;
}

#[tokio::test]
async fn an_answer_that_is_a_head_alone_stays_one() {
    let fleet = GrpcFleet::start("").await;
    let answer = unary(&mut fleet.client().await, call("/HeadAlone", "acme"), "a").await;
    assert_eq!((answer.status(), answer.trailers.is_none(), answer.body.len()), (200, true, 0));
    assert_eq!((answer.field("grpc-status"), answer.field("grpc-message")), (Some("9"), Some("not%20now")));
    let labels = ["outcome=\"client_error\"", "cell=\"cell-a\""];
    assert_eq!(fleet.router.metrics().await.sum("cofferdam_router_requests_total", &labels), 1.0);
}

#[tokio::test]
async fn many_calls_share_a_connection_and_each_has_its_own_tenant() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    for (tenant, backend) in [("acme", "home"), ("globex", "second"), ("acme", "home")] {
        let answer = unary(&mut client, call("/Unary", tenant), "a").await;
        assert_eq!(answer.field("x-backend"), Some(backend));
    }
    let tenants: Vec<_> =
        fleet.backends[0].seen().iter().map(|seen| seen.headers["cofferdam-tenant"].clone()).collect();
    assert_eq!(tenants, ["acme", "acme"]);
}

#[tokio::test]
async fn what_is_no_call_reaches_an_http2_backend_where_the_agent_is_told_so() {
    let fleet = GrpcFleet::with("", speaking(BackendProtocol::Http2)).await;
    let mut client = fleet.client().await;
    let answer = client.ask(get("/Many", "acme")).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "message 0;message 1;message 2;"));
    let raw = fleet.router.ask(crate::support::raw::post("/Unary", "acme", b"by http1")).await;
    assert_eq!((raw.status(), raw.text().as_str()), (200, "by http1"));
    assert_eq!(end(&unary(&mut client, call("/Unary", "acme"), "a").await, "grpc-status"), Some("0"));
    let seen = fleet.backends[0].seen();
    assert_eq!((seen.len(), seen[1].headers["content-length"].to_str().unwrap()), (3, "8"));
    assert!(!seen[0].headers.contains_key("te"));
}

#[tokio::test]
async fn a_callers_time_goes_on_as_what_is_left_of_it() {
    let fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let head = with(call("/Unary", "acme"), "grpc-timeout", "90S");
    assert_eq!(end(&unary(&mut client, head, "a").await, "grpc-status"), Some("0"));
    let seen = &fleet.backends[0].seen()[0];
    let timeout = seen.headers["grpc-timeout"].to_str().unwrap();
    let left: u64 = timeout.strip_suffix('u').unwrap().parse().unwrap();
    assert!((60_000_000..90_000_000).contains(&left), "{timeout}");
    let remaining: u64 = seen.headers["cofferdam-remaining-ms"].to_str().unwrap().parse().unwrap();
    assert!(Duration::from_millis(remaining) <= Duration::from_secs(15), "the route's own time is shorter");
}
