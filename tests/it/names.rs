//! Field names that servers read as other ones: CGI, WSGI, Rack and PHP take `_`, and some take any other character, for `-`.

use crate::support::agents::TestFleet;
use crate::support::files::PINS;
use crate::support::raw::{self, get, with_fields};
use crate::support::scripted::{Play, Scripted, Seen, answer};

/// Nobody on loopback is trusted with the header.
const STRANGERS: &str = r#"
tenant:
  from:
    - header: { name: x-tenant-id, trusted: [10.0.0.0/8] }
    - host: { pattern: "{tenant}.app.example" }
"#;

/// What a client may forge: other spellings of what the router sets, strips and identifies by.
const LOOK_ALIKES: [&str; 21] = [
    "cofferdam_tenant",
    "Cofferdam_Class",
    "cofferdam.tenant",
    "cofferdam!anything",
    "endpoint_load_metrics",
    "endpoint-load_metrics",
    "x_tenant_id",
    "X-Tenant_Id",
    "x.tenant.id",
    "x_cell",
    "x_forwarded_for",
    "x-forwarded_for",
    "X.Forwarded.Proto",
    "x_forwarded_host",
    "x_forwarded_prefix",
    "x_real_ip",
    "proxy_authorization",
    "keep_alive",
    "content_length",
    "transfer_encoding",
    "grpc_timeout",
];

fn sections(rest: &str) -> String {
    format!("{}{rest}", PINS.replace("placement: {", "placement: { affinity: { header: x-cell },"))
}

fn lines(names: &[&str]) -> String {
    names.iter().map(|name| format!("{name}: forged\r\n")).collect()
}

/// Names that a server behind would take for others.
fn odd(seen: &Seen) -> Vec<String> {
    let odd = |name: &String| name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-');
    let mut odd: Vec<_> = seen.head.fields.iter().map(|(name, _)| name.clone()).filter(odd).collect();
    odd.sort();
    odd
}

#[tokio::test]
async fn no_spelling_of_a_field_of_ours_reaches_a_backend() {
    for rest in ["", STRANGERS] {
        let fleet = TestFleet::start(&sections(rest)).await;
        let fields = lines(&LOOK_ALIKES) + "x_kept: 1\r\nsession.id: 2\r\n";
        let request =
            format!("GET / HTTP/1.1\r\nhost: acme.app.example\r\nx-tenant-id: acme\r\n{fields}\r\n");
        let answer = fleet.router.ask(request).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        let seen = fleet.cells[0].backend.only();
        // What reads as nothing of ours goes on.
        assert_eq!(odd(&seen), ["session.id", "x_kept"], "{rest}");
        assert_eq!(seen.head.field("cofferdam-tenant"), Some("acme"));
    }
}

#[tokio::test]
async fn nor_does_one_through_an_agent_alone() {
    let fleet = TestFleet::start(&sections("")).await;
    let request = format!(
        "GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n{}x_kept: 1\r\n\r\n",
        lines(&LOOK_ALIKES)
    );
    assert_eq!(raw::ask(fleet.cells[0].address, request).await.status(), 200);
    let seen = fleet.cells[0].backend.only();
    assert_eq!(odd(&seen), ["x_kept"]);
    assert_eq!(seen.head.field("cofferdam-tenant"), Some("acme"));
}

#[tokio::test]
async fn a_tenant_header_with_an_underscore_is_guarded_against_its_twin() {
    let rest = "tenant: { from: [header: { name: x_tenant }] }\n";
    let fleet = TestFleet::start(&sections(rest)).await;
    let forged =
        "GET / HTTP/1.1\r\nhost: a\r\nx_tenant: acme\r\nx-tenant: globex\r\nx.tenant: globex\r\n\r\n";
    assert_eq!(fleet.router.ask(forged).await.status(), 200);
    let seen = fleet.cells[0].backend.only();
    assert_eq!(seen.head.field("x_tenant"), Some("acme"));
    assert_eq!((seen.head.field("x-tenant"), seen.head.field("x.tenant")), (None, None));
}

#[tokio::test]
async fn a_file_may_drop_or_refuse_every_name_that_servers_read_as_another() {
    for edge in ["drop", "refuse"] {
        let fleet = TestFleet::start(&sections(&format!("edge: {{ underscores: {edge} }}\n"))).await;
        let router = fleet.router.ask(with_fields("GET", "/", "acme", "x_kept: 1\r\n")).await;
        let alone = "GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\nx.kept: 1\r\n\r\n";
        let agent = raw::ask(fleet.cells[0].address, alone).await;
        if edge == "drop" {
            assert_eq!((router.status(), agent.status()), (200, 200));
            assert!(fleet.cells[0].backend.seen().iter().all(|seen| odd(seen).is_empty()));
            continue;
        }
        for (answer, problem, name) in
            [(router, "bad_request", "x_kept"), (agent, "request_malformed", "x.kept")]
        {
            assert_eq!((answer.status(), answer.problem().as_str()), (400, problem));
            assert!(answer.text().contains(name), "{}", answer.text());
        }
        assert_eq!(fleet.cells[0].backend.seen().len(), 0);
        assert_eq!(fleet.router.ask(get("/", "acme")).await.status(), 200);
    }
}

#[tokio::test]
async fn no_spelling_of_a_field_of_ours_comes_in_an_answer() {
    let fields = "cofferdam_cost: 9\r\ncofferdam.secret: 1\r\nendpoint_load_metrics: TEXT x=1\r\n\
                  ratelimit_remaining: 9\r\nRateLimit_Policy: x\r\nkeep_alive: 5\r\ntransfer_encoding: chunked\r\n\
                  content_length: 9\r\nproxy_authenticate: x\r\nx_kept: 1\r\n";
    let play = || async move { Scripted::start(move |_| Play::Answer(answer("200 OK", fields, "x"))).await };
    let fleet = TestFleet::before(&sections(""), [play().await, play().await]).await;
    let through = fleet.router.ask(get("/", "acme")).await;
    let alone = "GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n\r\n";
    let alone = raw::ask(fleet.cells[0].address, alone).await;
    for (answer, own) in [(through, 0), (alone, 2)] {
        let odd: Vec<_> = answer.head.fields.iter().map(|(name, _)| name.as_str()).collect();
        let odd: Vec<_> = odd.into_iter().filter(|name| name.contains(['_', '.'])).collect();
        // An agent has no word in where a tenant stands: a backend's own fields of limits pass it.
        assert_eq!(odd.len(), 1 + own, "{odd:?}");
        assert!(odd.contains(&"x_kept"));
    }
}
