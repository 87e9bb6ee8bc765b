//! How calls end that do not end by themselves: deadlines, lost backends and agents, clients that go away, a drain.

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::Reason;

use super::backend::Backend;
use super::fleet::{GrpcFleet, call, end, refused, unary};
use crate::http2::client::{Client, finish, reset, rest, with};
use crate::support::files::{PINS, fleet};
use crate::support::processes::{Process, free_port, ready};
use crate::support::routers::TestRouter;
use crate::support::{eventually, within};

#[tokio::test]
async fn the_smaller_of_both_deadlines_is_deadline_exceeded() {
    // P13
    let hasty = "routes: [{ match: { path: / }, class: default, timeout: 300ms }]\n";
    for (rest, timeout) in [("", Some("200m")), (hasty, Some("60S")), (hasty, None)] {
        let mut fleet = GrpcFleet::start(rest).await;
        let head = call("/Hang", "acme");
        let head = match timeout {
            Some(timeout) => with(head, "grpc-timeout", timeout),
            None => head,
        };
        let begun = Instant::now();
        refused(&unary(&mut fleet.client().await, head, "a").await, "4");
        assert!(begun.elapsed() >= Duration::from_millis(200) && begun.elapsed() < Duration::from_secs(10));
        assert_eq!(fleet.backends[0].reset().await, Reason::CANCEL);
        assert_eq!(fleet.backends[1].seen().len(), 0);
        fleet.router.idle().await;
    }
}

#[tokio::test]
async fn a_callers_time_bounds_the_whole_call_and_a_routes_its_head_alone() {
    let hasty = "routes: [{ match: { path: / }, class: default, timeout: 300ms }]\n";
    let mut fleet = GrpcFleet::start(hasty).await;
    let mut client = fleet.client().await;
    // A stream that lives longer than its route's timeout.
    let (answer, mut body) = client.begin(call("/Chat", "acme"), false).await;
    let mut chat = within("a head", answer).await.unwrap().into_body();
    tokio::time::sleep(Duration::from_millis(400)).await;
    body.send_data(Bytes::from_static(b"still here"), true).unwrap();
    let (text, trailers) = rest(&mut chat).await.unwrap();
    assert_eq!(
        (text.as_slice(), trailers.unwrap()["grpc-status"].to_str().unwrap()),
        (&b"still here"[..], "0")
    );
    // And one whose caller waits no longer.
    let (answer, _body) = client.begin(with(call("/Begun", "acme"), "grpc-timeout", "400m"), false).await;
    let answer = finish(answer).await.unwrap();
    assert_eq!((answer.text().as_str(), end(&answer, "grpc-status")), ("begun", Some("4")));
    assert_eq!(fleet.backends[0].reset().await, Reason::CANCEL);
    fleet.router.idle().await;
}

#[tokio::test]
async fn a_call_whose_backend_is_lost_is_unavailable_and_executed_once() {
    let mut fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let (answer, _body) = client.begin(call("/Hang", "acme"), false).await;
    let (begun, _open) = client.begin(call("/Begun", "acme"), false).await;
    let mut begun = within("a head", begun).await.unwrap().into_body();
    assert_eq!(within("data", begun.data()).await.unwrap().unwrap(), "begun");
    eventually("both calls' arrival", async || (fleet.backends[0].seen().len() == 2).then_some(())).await;
    fleet.backends[0].stop().await;
    refused(&finish(answer).await.unwrap(), "14");
    // What has begun is cut: half an answer must not look like one.
    assert_eq!(reset(rest(&mut begun).await), Reason::INTERNAL_ERROR);
    assert_eq!(fleet.backends[1].seen().len(), 0);
    // What comes later was not sent to anybody before: the other cell serves it.
    let answer = unary(&mut client, call("/Unary", "acme"), "a").await;
    assert_eq!((answer.field("x-backend"), end(&answer, "grpc-status")), (Some("second"), Some("0")));
    fleet.router.idle().await;
}

#[tokio::test]
async fn a_call_that_its_backend_refused_unread_is_tried_once_more_and_then_elsewhere() {
    let fleet = GrpcFleet::start("").await;
    let answer = unary(&mut fleet.client().await, call("/Refused", "acme"), "a").await;
    refused(&answer, "14");
    assert_eq!([fleet.backends[0].seen().len(), fleet.backends[1].seen().len()], [2, 2]);
    fleet.router.idle().await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_call_at_the_backend() {
    for path in ["/Hang", "/Begun"] {
        let mut fleet = GrpcFleet::start("").await;
        let mut client = fleet.client().await;
        let (answer, mut body) = client.begin(call(path, "acme"), false).await;
        eventually("the call's arrival", async || (fleet.backends[0].seen().len() == 1).then_some(())).await;
        let answer = if path == "/Begun" { Some(within("a head", answer).await.unwrap()) } else { None };
        body.send_reset(Reason::CANCEL);
        assert_eq!(fleet.backends[0].reset().await, Reason::CANCEL, "{path}");
        fleet.router.idle().await;
        drop(answer);
    }
}

#[tokio::test]
async fn a_call_outlives_the_drain_of_its_agent_and_of_its_router() {
    // P31
    let mut fleet = GrpcFleet::start("").await;
    let mut client = fleet.client().await;
    let (answer, mut body) = client.begin(call("/Chat", "acme"), false).await;
    let mut chat = within("a head", answer).await.unwrap().into_body();
    let agent = tokio::spawn(fleet.agents.remove(0).shutdown());
    eventually("the other cell's turn", async || {
        let answer = unary(&mut client, call("/Unary", "acme"), "a").await;
        assert_eq!(end(&answer, "grpc-status"), Some("0"));
        (answer.field("x-backend") == Some("second")).then_some(())
    })
    .await;
    let router = tokio::spawn(fleet.router.router.shutdown());
    eventually("nobody listens any more", async || {
        tokio::net::TcpStream::connect(fleet.router.data).await.err().map(drop)
    })
    .await;
    body.send_data(Bytes::from_static(b"to the end"), true).unwrap();
    let (text, trailers) = rest(&mut chat).await.unwrap();
    assert_eq!(
        (text.as_slice(), trailers.unwrap()["grpc-status"].to_str().unwrap()),
        (&b"to the end"[..], "0")
    );
    client.ended().await.unwrap();
    within("the router to leave", router).await.unwrap();
    within("the agent to leave", agent).await.unwrap();
}

#[tokio::test]
async fn a_call_that_was_never_sent_to_a_killed_agent_goes_to_the_other_cell() {
    let backends = [Backend::start("home").await, Backend::start("second").await];
    let folder = tempfile::tempdir().unwrap();
    // A port can be taken between its choice and its use; then everything is chosen anew.
    let (mut agents, text) = eventually("two agents", async || {
        let (listens, probes) = ([free_port(), free_port()], [free_port(), free_port()]);
        let text = fleet(&listens, PINS);
        let file = folder.path().join("fleet.yaml");
        std::fs::write(&file, &text).unwrap();
        let mut agents = Vec::new();
        for (index, id) in ["cell-a", "cell-b"].into_iter().enumerate() {
            let [listen, probe] = [listens[index], probes[index]].map(|address| address.to_string());
            let backend = format!("http://{}", backends[index].address);
            let arguments = ["agent", "--fleet", file.to_str().unwrap(), "--cell", id, "--listen", &listen];
            let more = ["--probe-listen", &probe, "--backend", &backend, "--workers", "1"];
            let mut agent = Process::start(folder.path(), id, &[&arguments[..], &more].concat());
            ready(&mut agent, probes[index]).await?;
            agents.push(agent);
        }
        Some((agents, text))
    })
    .await;
    let router = TestRouter::start(&text);
    let mut client = Client::connect(router.data).await;
    assert_eq!(unary(&mut client, call("/Unary", "acme"), "a").await.field("x-backend"), Some("home"));
    let (lost, _body) = client.begin(call("/Hang", "acme"), false).await;
    eventually("the call's arrival", async || (backends[0].seen().len() == 2).then_some(())).await;
    drop(agents.remove(0));
    refused(&finish(lost).await.unwrap(), "14");
    let answer = unary(&mut client, call("/Unary", "acme"), "again").await;
    assert_eq!((answer.field("x-backend"), answer.text().as_str()), (Some("second"), "again"));
    assert_eq!(backends[1].seen().len(), 1, "what may have been executed was not executed twice");
    router.idle().await;
}
