//! Where a request came from, as backends are told: by nobody whom the router does not trust, and in one word.

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, fleet};
use crate::support::message::Head;
use crate::support::raw::with_fields;
use crate::support::routers::TestRouter;
use crate::support::scripted::Scripted;

/// Nobody on loopback is trusted with what it says of earlier hops.
const STRANGERS: &str = r#"
tenant:
  from:
    - header: { name: x-tenant-id, trusted: [10.0.0.0/8] }
    - host: { pattern: "{tenant}.app.example" }
"#;

/// What says where a request came from, or how, to one server or another.
const FAMILY: [&str; 15] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-prefix",
    "x-forwarded-scheme",
    "x-forwarded-ssl",
    "x-forwarded-by",
    "x-forwarded",
    "x-real-ip",
    "x-client-ip",
    "x-cluster-client-ip",
    "true-client-ip",
    "front-end-https",
];

/// Those that a head has, in its order.
fn family(head: &Head) -> Vec<(&str, &str)> {
    let is_one = |name: &str| name == "forwarded" || FAMILY.contains(&name);
    let fields = head.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut said: Vec<_> = fields.filter(|(name, _)| is_one(name)).collect();
    said.sort_unstable();
    said
}

/// What the cell is told of a request with these fields, by a router whose file has these sections.
async fn told(rest: &str, fields: &str) -> Head {
    let (cell, other) = (Scripted::named("cell-a").await, Scripted::named("cell-b").await);
    let router = TestRouter::start(&fleet(&[cell.address, other.address], &format!("{PINS}{rest}")));
    let request = format!("GET / HTTP/1.1\r\nhost: acme.app.example\r\nx-tenant-id: acme\r\n{fields}\r\n");
    let answer = router.ask(request).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    cell.only().head
}

#[tokio::test]
async fn nothing_of_the_kind_comes_from_a_stranger() {
    let forged: String = FAMILY.iter().map(|name| format!("{name}: 6.6.6.6\r\n")).collect();
    let head = told(STRANGERS, &(forged + "forwarded: for=6.6.6.6;proto=https\r\n")).await;
    let ours = [
        ("forwarded", "for=127.0.0.1;proto=http;host=acme.app.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "acme.app.example"),
        ("x-forwarded-proto", "http"),
    ];
    assert_eq!(family(&head), ours);
}

#[tokio::test]
async fn what_a_trusted_peer_says_in_one_form_is_said_in_both() {
    let head = told("", "x-forwarded-proto: https\r\n").await;
    let ours = [
        ("forwarded", "for=127.0.0.1;proto=https;host=acme.app.example"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "acme.app.example"),
        ("x-forwarded-proto", "https"),
    ];
    assert_eq!(family(&head), ours);
    let head =
        told("", "forwarded: for=192.0.2.7;proto=https;host=shop.example\r\nx-real-ip: 192.0.2.7\r\n").await;
    let both = [
        (
            "forwarded",
            "for=192.0.2.7;proto=https;host=shop.example, for=127.0.0.1;proto=https;host=shop.example",
        ),
        ("x-forwarded-for", "192.0.2.7, 127.0.0.1"),
        ("x-forwarded-host", "shop.example"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "192.0.2.7"),
    ];
    assert_eq!(family(&head), both);
}

#[tokio::test]
async fn an_agent_passes_on_the_one_word_of_its_router() {
    let fleet = TestFleet::start(PINS).await;
    let fields = "x-forwarded-for: 2001:db8::7\r\nx-forwarded-proto: https\r\nx-forwarded-port: 8443\r\n";
    assert_eq!(fleet.router.ask(with_fields("GET", "/", "acme", fields)).await.status(), 200);
    let head = fleet.cells[0].backend.only().head;
    let host = "proto=https;host=\"test.example:8443\"";
    let forwarded = format!("for=\"[2001:db8::7]\";{host}, for=127.0.0.1;{host}, for=127.0.0.1;{host}");
    let said = [
        ("forwarded", forwarded.as_str()),
        ("x-forwarded-for", "2001:db8::7, 127.0.0.1, 127.0.0.1"),
        ("x-forwarded-host", "test.example:8443"),
        ("x-forwarded-port", "8443"),
        ("x-forwarded-proto", "https"),
    ];
    assert_eq!(family(&head), said);
}

#[tokio::test]
async fn a_file_chooses_which_of_them_are_written() {
    let head = told(
        "edge: { forwarded: [x-forwarded-for, x-forwarded-port, x-real-ip] }\n",
        "x-forwarded-proto: https\r\n",
    )
    .await;
    let chosen = [("x-forwarded-for", "127.0.0.1"), ("x-forwarded-port", "443"), ("x-real-ip", "127.0.0.1")];
    assert_eq!(family(&head), chosen);
    let head =
        told("edge: { forwarded: [forwarded] }\n", "x-forwarded-for: 192.0.2.7\r\nx-real-ip: 192.0.2.7\r\n")
            .await;
    let forwarded =
        "for=192.0.2.7;proto=http;host=acme.app.example, for=127.0.0.1;proto=http;host=acme.app.example";
    assert_eq!(family(&head), [("forwarded", forwarded)]);
    let head =
        told("edge: { forwarded: [] }\n", "x-forwarded-for: 192.0.2.7\r\nforwarded: for=192.0.2.7\r\n").await;
    assert_eq!(family(&head), []);
}
