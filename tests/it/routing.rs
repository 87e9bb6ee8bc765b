//! Whose request is it, and which cell serves it?

use crate::support::files::{PINS, fleet};
use crate::support::raw::{self, get, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

/// Header, host and path sources; the header must agree with what decides.
const SOURCES: &str = r#"
tenant:
  from:
    - host: { pattern: "{tenant}.app.example", reserved: [www] }
    - path: { pattern: "/t/{tenant}" }
    - header: { name: x-tenant-id, must_agree: true }
"#;

/// Nobody on loopback is trusted with the header.
const STRANGERS: &str = r#"
tenant:
  from:
    - header: { name: x-tenant-id, trusted: [10.0.0.0/8] }
    - host: { pattern: "{tenant}.app.example" }
"#;

struct Cells {
    router: TestRouter,
    a: Scripted,
    b: Scripted,
}

async fn start(rest: &str) -> Cells {
    let (a, b) = (Scripted::named("cell-a").await, Scripted::named("cell-b").await);
    let router = TestRouter::start(&fleet(&[a.address, b.address], &format!("{PINS}{rest}")));
    Cells { router, a, b }
}

fn hosted(host: &str, path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{fields}\r\n")
}

#[tokio::test]
async fn each_tenant_is_served_by_its_home_cell() {
    // P24
    let cells = start("").await;
    for _ in 0..3 {
        assert_eq!(cells.router.ask(get("/", "acme")).await.text(), "cell-a");
        assert_eq!(cells.router.ask(get("/", "globex")).await.text(), "cell-b");
    }
    assert_eq!((cells.a.seen().len(), cells.b.seen().len()), (3, 3));
    assert_eq!(cells.a.seen()[0].head.field("cofferdam-tenant"), Some("acme"));
}

#[tokio::test]
async fn host_path_and_header_each_name_a_tenant() {
    let cells = start(SOURCES).await;
    for (request, cell) in [
        (hosted("acme.app.example", "/", ""), "cell-a"),
        (hosted("globex.APP.example:8080", "/", ""), "cell-b"),
        (hosted("www.app.example", "/t/globex/x", ""), "cell-b"),
        (hosted("test.example", "/t/acme", ""), "cell-a"),
        (hosted("test.example", "/t/acme?q=/t/globex", ""), "cell-a"),
        (hosted("test.example", "/", "x-tenant-id: globex\r\n"), "cell-b"),
    ] {
        let answer = cells.router.ask(&request).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, cell), "{request}");
    }
}

#[tokio::test]
async fn a_path_names_the_tenant_that_is_left_when_it_is_resolved() {
    // A backend that resolves the path must not serve globex for what acme was admitted for.
    let cells = start(SOURCES).await;
    for (path, cell) in [
        ("/t/acme/../globex/secret", "cell-b"),
        ("/t/acme/%2e%2E/globex/secret", "cell-b"),
        ("/t/globex/x/../y", "cell-b"),
        ("//t//acme/x", "cell-a"),
        ("/t/%61cme/x", "cell-a"),
    ] {
        let answer = cells.router.ask(hosted("test.example", path, "")).await;
        assert_eq!(answer.text(), cell, "{path}");
        let seen = if cell == "cell-a" { cells.a.seen() } else { cells.b.seen() };
        assert_eq!(seen.last().unwrap().head.second_word(), path, "the bytes go on as they came");
    }
    for path in ["/t/..", "/t/acme/../../secret", "/t/acme%2Fx"] {
        let answer = cells.router.ask(hosted("test.example", path, "")).await;
        assert_eq!(answer.status(), 400, "{path}");
    }
}

#[tokio::test]
async fn a_request_without_a_tenant_is_told_where_one_was_looked_for() {
    let cells = start(SOURCES).await;
    let answer = cells.router.ask(hosted("test.example", "/", "")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (400, "no_tenant"));
    let places = "host {tenant}.app.example, path /t/{tenant}, header x-tenant-id";
    assert!(answer.text().contains(places), "{}", answer.text());
}

#[tokio::test]
async fn the_first_source_that_is_present_decides_and_must_agree_is_checked() {
    let cells = start(SOURCES).await;
    let answer = cells.router.ask(hosted("acme.app.example", "/t/globex", "")).await;
    assert_eq!(answer.text(), "cell-a");
    let agreeing = hosted("acme.app.example", "/", "x-tenant-id: acme\r\n");
    assert_eq!(cells.router.ask(agreeing).await.status(), 200);
    let differing = hosted("acme.app.example", "/", "x-tenant-id: globex\r\n");
    let answer = cells.router.ask(differing).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (400, "tenants_differ"));
    let twice = hosted("test.example", "/", "x-tenant-id: acme\r\nx-tenant-id: acme\r\n");
    assert_eq!(cells.router.ask(twice).await.status(), 400);
}

#[tokio::test]
async fn a_tenant_header_from_a_peer_that_is_not_trusted_is_neither_believed_nor_passed_on() {
    // P39: tenant headers trusted.
    let cells = start(STRANGERS).await;
    let answer = cells.router.ask(get("/", "acme")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (400, "no_tenant"));
    let answer = cells.router.ask(hosted("globex.app.example", "/", "x-tenant-id: acme\r\n")).await;
    assert_eq!(answer.text(), "cell-b");
    let seen = cells.b.only();
    assert_eq!(seen.head.field("x-tenant-id"), None);
    assert_eq!(seen.head.field("cofferdam-tenant"), Some("globex"));
}

#[tokio::test]
async fn an_unknown_tenant_is_404_where_the_file_refuses_it() {
    let plans = "plans: { pro: { sustained: 100/s, burst: 100, max_in_flight: 10 } }\n";
    let known = format!("{plans}tenant: {{ plan_of: {{ acme: pro }}, unknown: refuse }}\n");
    let cells = start(&known).await;
    assert_eq!(cells.router.ask(get("/", "acme")).await.status(), 200);
    let answer = cells.router.ask(get("/", "globex")).await;
    assert_eq!((answer.status(), answer.problem().as_str()), (404, "unknown_tenant"));
    assert_eq!(cells.b.n_connections(), 0);
}

#[tokio::test]
async fn a_malformed_id_is_refused_and_never_normalised() {
    let cells = start("").await;
    let long = "a".repeat(65);
    for id in ["", "Acme", "a b", "{acme}", "acme%20", "acme,globex", "a/b", "\u{e9}", long.as_str()] {
        let answer = cells.router.ask(get("/", id)).await;
        assert_eq!(answer.status(), 400, "{id:?}: {answer:?}");
        assert!(["bad_tenant", "no_tenant"].contains(&answer.problem().as_str()), "{id:?}");
    }
    assert_eq!(cells.a.n_connections() + cells.b.n_connections(), 0);
}

#[tokio::test]
async fn a_tenant_belongs_to_a_request_and_not_to_a_connection() {
    let cells = start("").await;
    let mut client = raw::Client::connect(cells.router.data).await;
    for (tenant, cell) in [("acme", "cell-a"), ("globex", "cell-b"), ("acme", "cell-a")] {
        assert_eq!(client.ask(get("/", tenant)).await.text(), cell);
    }
    // Pipelined, they are answered in order.
    client.send([get("/", "globex"), get("/", "acme")].concat()).await;
    assert_eq!(client.answer().await.text(), "cell-b");
    assert_eq!(client.answer().await.text(), "cell-a");
}

#[tokio::test]
async fn connect_and_trace_are_405_and_options_asterisk_is_answered_here() {
    let cells = start("").await;
    for request in [
        with_fields("TRACE", "/", "acme", ""),
        "CONNECT test.example:443 HTTP/1.1\r\nhost: test.example:443\r\nx-tenant-id: acme\r\n\r\n".to_owned(),
    ] {
        let answer = cells.router.ask(&request).await;
        assert_eq!(answer.status(), 405, "{request}");
        assert!(answer.field("allow").unwrap().contains("GET"));
    }
    let answer = cells.router.ask(with_fields("OPTIONS", "*", "acme", "")).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.field("allow").unwrap().contains("GET"));
    assert_eq!(cells.a.n_connections(), 0);
}

#[tokio::test]
async fn the_paths_bytes_go_on_unchanged() {
    let cells = start("").await;
    for path in ["/a//b/../%2e%2e/%2F?x=|&y=%zz", "//x", "/%41?", "/;a=b/~'!$&()*+,=:@", "/?a=/../"] {
        assert_eq!(cells.router.ask(get(path, "acme")).await.status(), 200, "{path}");
        let seen = cells.a.seen();
        assert_eq!(seen.last().unwrap().head.second_word(), path);
    }
    let absolute = "GET http://other.example:81/x/./y?z HTTP/1.1\r\nhost: lie\r\nx-tenant-id: acme\r\n\r\n";
    assert_eq!(cells.router.ask(absolute).await.status(), 200);
    let seen = cells.a.seen().pop().unwrap().head;
    assert_eq!((seen.second_word(), seen.field("host")), ("/x/./y?z", Some("other.example:81")));
}

#[tokio::test]
async fn a_host_names_its_tenant_in_every_spelling_of_the_host() {
    // Hosts have no case, and a name may be written with the root's dot (RFC 3986 section 3.2.2).
    let cells = start(SOURCES).await;
    for (host, cell) in [
        ("ACME.app.example", "cell-a"),
        ("acme.app.example.", "cell-a"),
        ("Acme.App.Example.:8080", "cell-a"),
        ("gLOBEX.app.example:443", "cell-b"),
    ] {
        let answer = cells.router.ask(hosted(host, "/", "")).await;
        assert_eq!((answer.status(), answer.text().as_str()), (200, cell), "{host}");
    }
    // What is reserved is so in every spelling, and agreement is of tenants and not of letters.
    let reserved = cells.router.ask(hosted("WWW.app.example.", "/t/globex/", "")).await;
    assert_eq!((reserved.status(), reserved.text().as_str()), (200, "cell-b"));
    let agreeing = cells.router.ask(hosted("ACME.app.example.", "/", "x-tenant-id: acme\r\n")).await;
    assert_eq!(agreeing.status(), 200);
    for host in ["acme.app.example..", ".app.example.", "acme..app.example"] {
        assert_eq!(cells.router.ask(hosted(host, "/", "")).await.status(), 400, "{host}");
    }
}

#[tokio::test]
async fn parameters_of_a_segment_hide_neither_a_tenant_nor_a_route() {
    let limited = format!(
        "{SOURCES}  unknown: usual\nplans: {{ usual: {{ sustained: 1000/s, burst: 1000, max_in_flight: 100 }} }}\n\
         routes:\n  - {{ match: {{ path: /admin/secret }}, class: default, limit: {{ sustained: 1/h, burst: 1 }} }}\n\
         cell: {{ classes: {{ default: {{}} }} }}\n"
    );
    let cells = start(&limited).await;
    let tenant = "x-tenant-id: acme\r\n";
    assert_eq!(cells.router.ask(hosted("test.example", "/admin/secret", tenant)).await.status(), 200);
    // As a backend such as Tomcat reads it, it is the same route, and its limit is used up.
    for path in [
        "/admin;x=1/secret",
        "/admin/secret;jsessionid=1",
        "/admin;/secret;/x",
        "/;x/admin/secret",
        "/admin%3bx/secret",
        "/admin;a=%2F/./secret",
        "/%61dmin;x/%2e/secret",
    ] {
        let answer = cells.router.ask(hosted("test.example", path, tenant)).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (429, "route_rate"), "{path}");
    }
    for path in ["/administer;x/secret", "/admin;x/secrets"] {
        assert_eq!(cells.router.ask(hosted("test.example", path, tenant)).await.status(), 200, "{path}");
    }
    // The bytes go on as they came, and a tenant's segment is what stands before its parameters.
    let answer = cells.router.ask(hosted("test.example", "/t/globex;v=2/x", "")).await;
    assert_eq!((answer.status(), answer.text().as_str()), (200, "cell-b"));
    assert_eq!(cells.b.only().head.second_word(), "/t/globex;v=2/x");
    // Some servers resolve `..;x` and some do not: neither reading may be chosen by who asks.
    for path in ["/t/acme/..;/globex", "/x/..;a=b/admin", "/x/.;/y", "/x/%2e%2e;/y", "/x/..%3b/y"] {
        let answer = cells.router.ask(hosted("test.example", path, tenant)).await;
        assert_eq!((answer.status(), answer.problem().as_str()), (400, "bad_request"), "{path}");
    }
}
