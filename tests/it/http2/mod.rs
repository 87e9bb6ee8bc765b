//! HTTP/2 with prior knowledge, on the port of HTTP/1.1 and in front of the same cells.

pub(crate) mod client;
mod ends;
mod streams;

use std::process::Command;

use bytes::Bytes;
use http::{Method, Request};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use self::client::{Client, finish, get, request, send, with};
use crate::support::agents::TestFleet;
use crate::support::files::{PINS, alone};
use crate::support::message::read_head;
use crate::support::raw;
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer, ok};

fn before(cell: &Scripted) -> TestRouter {
    TestRouter::start(&alone(cell.address, ""))
}

/// What curl prints when it is called like this, towards `router`.
async fn curl(router: &TestRouter, arguments: &[&str]) -> String {
    let url = format!("http://{}/path", router.data);
    let mut command = Command::new("curl");
    command.args(["--http2-prior-knowledge", "--silent", "--show-error", "--max-time", "20", "--include"]);
    command.args(["--header", "x-tenant-id: acme"]).args(arguments).arg(url);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn curl_gets_and_uploads() {
    let fleet = TestFleet::start(PINS).await;
    let seen = curl(&fleet.router, &[]).await;
    assert!(seen.starts_with("HTTP/2 200") && seen.ends_with("cell-a"), "{seen}");
    let body = "x".repeat(100_000);
    let seen = curl(&fleet.router, &["--data-raw", &body]).await;
    assert!(seen.starts_with("HTTP/2 200"), "{seen}");
    assert_eq!(fleet.cells[0].backend.seen()[1].body.len(), 100_000);
    let seen = curl(&fleet.router, &["--head"]).await;
    assert!(seen.starts_with("HTTP/2 200") && seen.contains("content-length: 6"), "{seen}");
    fleet.idle().await;
}

#[tokio::test]
async fn each_request_of_a_connection_has_its_own_tenant() {
    let fleet = TestFleet::start(PINS).await;
    let mut client = Client::connect(fleet.router.data).await;
    for (tenant, cell) in [("acme", "cell-a"), ("globex", "cell-b"), ("acme", "cell-a")] {
        let answer = client.ask(get("/", tenant)).await.unwrap();
        assert_eq!((answer.status(), answer.text().as_str()), (200, cell));
    }
    let answer = client.ask(get("/", "BAD")).await.unwrap();
    assert_eq!((answer.status(), answer.problem().as_str()), (400, "bad_tenant"));
    // The port still speaks HTTP/1.1.
    assert_eq!(fleet.router.ask(raw::get("/", "acme")).await.text(), "cell-a");
}

#[tokio::test]
async fn authority_is_the_host_and_another_host_beside_it_is_400() {
    let cell = Scripted::named("cell").await;
    let host = "tenant: { from: [{ host: { pattern: \"{tenant}.app.example\" } }] }\n";
    let router = TestRouter::start(&alone(cell.address, host));
    let mut client = Client::connect(router.data).await;
    let ask = |uri: &str| Request::get(uri).body(()).unwrap();
    let answer = client.ask(ask("http://acme.app.example/a?b")).await.unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "cell"));
    let head = cell.only().head;
    assert_eq!((head.line.as_str(), head.field("host")), ("GET /a?b HTTP/1.1", Some("acme.app.example")));
    assert_eq!(head.field("via").unwrap().split(' ').next(), Some("2"));
    let same = with(ask("http://acme.app.example/"), "host", "Acme.App.Example");
    assert_eq!(client.ask(same).await.unwrap().status(), 200);
    let other = with(ask("http://acme.app.example/"), "host", "globex.app.example");
    let answer = client.ask(other).await.unwrap();
    assert_eq!((answer.status(), answer.problem().as_str()), (400, "bad_request"));
}

#[tokio::test]
async fn connect_and_trace_are_405_and_a_question_about_the_server_is_answered() {
    let cell = Scripted::named("cell").await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let connect = Request::connect("test.example:80").body(()).unwrap();
    for stray in [connect, request(Method::TRACE, "/", "acme")] {
        let answer = client.ask(stray).await.unwrap();
        assert_eq!((answer.status(), answer.problem().as_str()), (405, "method"));
        assert!(answer.field("allow").unwrap().contains("GET"));
    }
    assert_eq!(cell.n_connections(), 0);
    assert_eq!(client.ask(get("/", "acme")).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_keeps_its_length_or_goes_on_in_chunks() {
    let cell = Scripted::named("cell").await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let post = || request(Method::POST, "/", "acme");
    for (n, request) in [with(post(), "content-length", "10"), post()].into_iter().enumerate() {
        let (answer, mut body) = client.begin(request, false).await;
        send(&mut body, Bytes::from_static(b"0123456789"), true).await.unwrap();
        assert_eq!(finish(answer).await.unwrap().status(), 200);
        let seen = cell.seen()[n].clone();
        assert_eq!(seen.body, b"0123456789");
        let framing = (seen.head.field("content-length"), seen.head.field("transfer-encoding"));
        assert_eq!(framing, [(Some("10"), None), (None, Some("chunked"))][n]);
    }
    let none = client.ask(post()).await.unwrap();
    assert_eq!((none.status(), cell.seen()[2].head.field("transfer-encoding")), (200, None));
}

#[tokio::test]
async fn cookies_in_crumbs_are_one_field_for_the_cell() {
    let cell = Scripted::named("cell").await;
    let router = before(&cell);
    let crumbs = with(with(get("/", "acme"), "cookie", "a=1"), "cookie", "b=2");
    assert_eq!(Client::connect(router.data).await.ask(crumbs).await.unwrap().status(), 200);
    assert_eq!(cell.only().head.field("cookie"), Some("a=1; b=2"));
}

#[tokio::test]
async fn head_204_and_304_have_no_body() {
    let cell = Scripted::start(|seen| {
        Play::Answer(match seen.head.second_word() {
            "/204" => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
            "/304" => b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\netag: \"x\"\r\n\r\n".to_vec(),
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n".to_vec(),
        })
    })
    .await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    for (request, status, length) in [
        (request(Method::HEAD, "/", "acme"), 200, Some("7")),
        (get("/204", "acme"), 204, None),
        (get("/304", "acme"), 304, Some("7")),
    ] {
        let answer = client.ask(request).await.unwrap();
        let seen = (answer.status(), answer.field("content-length"), answer.text());
        assert_eq!(seen, (status, length, String::new()));
    }
    // Our own words have no body either; what their length would be is said.
    let refused = client.ask(request(Method::HEAD, "/", "BAD")).await.unwrap();
    assert_eq!((refused.status(), refused.body.len()), (400, 0));
    assert!(refused.field("content-length").unwrap().parse::<usize>().unwrap() > 0);
    router.idle().await;
}

#[tokio::test]
async fn an_answer_has_no_field_of_the_cells_connection() {
    let fields = "connection: keep-alive, x-secret\r\nkeep-alive: timeout=5\r\nx-secret: 1\r\nproxy-connection: x\r\n\
                  upgrade: h2c\r\nx-kept: 2\r\n";
    let script = answer("200 OK", fields, "text");
    let cell = Scripted::start(move |_| Play::Answer(script.clone())).await;
    let router = before(&cell);
    let answer = Client::connect(router.data).await.ask(get("/", "acme")).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.field("x-kept")), ("text", Some("2")));
    for name in ["connection", "keep-alive", "x-secret", "proxy-connection", "upgrade"] {
        assert_eq!(answer.field(name), None, "{name}");
    }
}

#[tokio::test]
async fn trailers_go_both_ways_without_fields_of_a_connection() {
    let cell = Scripted::raw(|stream: TcpStream, _| async move {
        let mut stream = BufReader::new(stream);
        read_head(&mut stream).await.unwrap();
        let mut line = String::new();
        while line != "x-sum: 7\r\n" {
            line.clear();
            tokio::io::AsyncBufReadExt::read_line(&mut stream, &mut line).await.unwrap();
        }
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\nx-sum: 8\r\n\
                      keep-alive: 1\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
    })
    .await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let (answer, mut body) = client.begin(request(Method::POST, "/", "acme"), false).await;
    body.send_data(Bytes::from_static(b"some"), false).unwrap();
    body.send_trailers([("x-sum".parse().unwrap(), "7".parse().unwrap())].into_iter().collect()).unwrap();
    let answer = finish(answer).await.unwrap();
    assert_eq!(answer.text(), "text");
    let trailers = answer.trailers.unwrap();
    assert_eq!((trailers.len(), &trailers["x-sum"]), (1, &"8".parse::<http::HeaderValue>().unwrap()));
    router.idle().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413() {
    let cell = Scripted::start(|_| Play::Answer(ok("cell"))).await;
    let router = before(&cell);
    let mut client = Client::connect(router.data).await;
    let declared = with(request(Method::POST, "/", "acme"), "content-length", "99999999");
    let (answer, _body) = client.begin(declared, false).await;
    let answer = finish(answer).await.unwrap();
    assert_eq!((answer.status(), answer.problem().as_str()), (413, "body_too_large"));
    let (answer, mut body) = client.begin(request(Method::POST, "/", "acme"), false).await;
    let _ = send(&mut body, vec![b'x'; 11 << 20].into(), true).await;
    assert_eq!(finish(answer).await.unwrap().status(), 413);
    router.idle().await;
}
