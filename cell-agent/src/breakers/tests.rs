//! What opens which breaker of a cell, and for whom.

use std::path::Path;

use cofferdam_fleet::Fleet;
use cofferdam_model::Alphabet;

use super::*;

fn rules(breaker: &str, of_db: &str) -> CellRules {
    let text = format!(
        "fleet: f\ncells: [{{ id: a, url: 'http://a:1' }}, {{ id: b, url: 'http://b:1' }}]\n\
         routes: [{{ match: {{ path: /x }}, dependency: db }}, {{ match: {{ path: /y }}, dependency: mail }}]\n\
         cell: {{ {breaker} dependencies: {{ db: {{ {of_db} }}, mail: {{}} }} }}\n"
    );
    Fleet::parse(&text, Path::new(".")).unwrap().fleet.cell
}

fn acme() -> TenantId {
    TenantId::parse(b"acme", &Alphabet::default()).unwrap()
}

const DB: Option<DependencyIndex> = Some(DependencyIndex(0));
const MAIL: Option<DependencyIndex> = Some(DependencyIndex(1));

#[tokio::test(start_paused = true)]
async fn a_dependency_that_fails_is_left_alone_and_nothing_else() {
    let breakers = Breakers::new(&rules("breaker: {},", "breaker: { failures: 2 }"), None);
    for _ in 0..2 {
        breakers.pass(DB, &acme()).unwrap().unwrap().failed(false);
    }
    let tripped = breakers.pass(DB, &acme()).unwrap_err();
    assert_eq!((&*tripped.of, tripped.reason), ("dependency db", CellReason::Class));
    assert_eq!(tripped.left, Duration::from_secs(30));
    breakers.pass(MAIL, &acme()).unwrap().unwrap().succeeded();
    breakers.pass(None, &acme()).unwrap().unwrap().succeeded();
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_fails_is_left_alone_by_everybody_and_another_cell_may_serve() {
    let breakers = Breakers::new(&rules("breaker: {},", "breaker: {}"), None);
    // What DB does is not the backend's; a connection that there is not is.
    for (dependency, no_connection) in
        [(DB, false), (DB, true), (MAIL, false), (None, false), (DB, true), (MAIL, true)]
    {
        breakers.pass(dependency, &acme()).unwrap().unwrap().failed(no_connection);
    }
    let tripped = breakers.pass(MAIL, &acme()).unwrap_err();
    assert_eq!((&*tripped.of, tripped.reason), ("backend", CellReason::Cell));
}

fn answer(status: u16, grpc_status: Option<&str>) -> Response<()> {
    let mut response = Response::builder().status(status).body(()).unwrap();
    if let Some(status) = grpc_status {
        response.headers_mut().insert(grpc::STATUS, status.parse().unwrap());
    }
    response
}

fn trailers(status: &str) -> HeaderMap {
    HeaderMap::from_iter([(grpc::STATUS, status.parse().unwrap())])
}

/// Whether the breaker of DB, which one failure opens, does so after `work`.
fn opens(work: impl FnOnce(Box<Passed>)) -> bool {
    let breakers = Breakers::new(&rules("", "breaker: { failures: 1 }"), None);
    work(breakers.pass(DB, &acme()).unwrap().unwrap());
    breakers.pass(DB, &acme()).is_err()
}

#[tokio::test(start_paused = true)]
async fn a_calls_trailers_tell_and_a_status_of_http_by_the_same_rule() {
    let half = Instant::now();
    let bounds = |half| Bounds { half, idle: Instant::now() + Duration::from_secs(300) };
    let by_head = |status, grpc_status| {
        opens(|passed| {
            let judged = passed.judge(&answer(status, grpc_status), grpc_status.is_some(), bounds(half));
            assert!(judged.is_none());
        })
    };
    let by_trailers = |status, half, heard| {
        opens(|passed| {
            let mut judged = passed.judge(&answer(200, None), true, bounds(half)).unwrap();
            if heard {
                judged.heard();
            }
            judged.trailers(&trailers(status));
            judged.ended(End::Complete);
        })
    };
    for (status, is_failure) in [(200, false), (404, false), (429, false), (500, true), (503, true)] {
        assert_eq!(by_head(status, None), is_failure, "{status}");
    }
    let failures = ["2", "4", "13", "14", "15"];
    for status in ["0", "1", "2", "3", "4", "5", "7", "8", "12", "13", "14", "15", "16"] {
        let is_failure = failures.contains(&status);
        assert_eq!(by_head(200, Some(status)), is_failure, "{status} in the head");
        assert_eq!(by_trailers(status, half, false), is_failure, "{status} in the trailers");
        let is_failure = is_failure && status != "4";
        assert_eq!(by_trailers(status, half, true), is_failure, "{status} behind messages");
    }
    let later = half + Duration::from_secs(1);
    assert!(!by_trailers("4", later, false), "a caller that leaves little time has itself to blame");
    for (end, is_failure) in [(End::Failed, true), (End::Complete, true), (End::Dropped, false)] {
        let ends =
            |bounds| opens(|passed| passed.judge(&answer(200, None), true, bounds).unwrap().ended(end));
        assert_eq!(ends(bounds(half)), is_failure, "{end:?} without a status");
        let silent = Bounds { half, idle: half };
        assert_eq!(ends(silent), is_failure && end != End::Failed, "{end:?} after a long silence");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_head_came_has_tried_for_the_others() {
    let breakers = Breakers::new(&rules("", "breaker: { failures: 1, open_for: 1s }"), None);
    breakers.pass(DB, &acme()).unwrap().unwrap().failed(false);
    tokio::time::advance(Duration::from_secs(1)).await;
    let tries = breakers.pass(DB, &acme()).unwrap().unwrap();
    assert!(breakers.pass(DB, &acme()).is_err(), "one may try");
    let bounds = Bounds { half: Instant::now(), idle: Instant::now() + Duration::from_secs(300) };
    let mut stream = tries.judge(&answer(200, None), true, bounds).unwrap();
    assert!(breakers.pass(DB, &acme()).is_ok(), "without a message, which may be hours away");
    stream.trailers(&trailers("14"));
    stream.ended(End::Complete);
    assert!(breakers.pass(DB, &acme()).is_ok(), "it was told already how that went");
}

#[tokio::test(start_paused = true)]
async fn a_reload_leaves_alone_what_it_does_not_change() {
    let breakers = Breakers::new(&rules("breaker: {},", "breaker: { failures: 1 }"), None);
    breakers.pass(DB, &acme()).unwrap().unwrap().failed(false);
    let again = Breakers::new(&rules("", "breaker: { failures: 1 }"), Some(&breakers));
    assert!(again.pass(DB, &acme()).is_err());
    let anew = Breakers::new(&rules("", "breaker: { failures: 2 }"), Some(&again));
    assert!(anew.pass(DB, &acme()).is_ok());
}
