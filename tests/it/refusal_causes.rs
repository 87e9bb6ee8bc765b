//! A cell that refuses says why, and the router passes that on: to the caller, and in its metrics.

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, fleet};
use crate::support::raw::{get, post};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Play, Scripted, answer, ok};

/// A backend that answers until it is asked for `/die`; nobody listens at its address afterwards.
async fn mortal() -> Scripted {
    Scripted::start(|seen| match seen.head.second_word() {
        "/die" => Play::Die,
        _ => Play::Answer(ok("alive")),
    })
    .await
}

#[tokio::test]
async fn a_dead_backend_behind_a_live_agent_is_named_and_not_told_as_a_full_cell() {
    let fleet = TestFleet::before(PINS, [mortal().await, mortal().await]).await;
    let router = &fleet.router;
    assert_eq!(router.ask(post("/die", "acme", b"x")).await.status(), 502);
    assert_eq!(router.ask(post("/", "acme", b"x")).await.text(), "alive", "the other cell serves");
    assert_eq!(router.ask(post("/die", "globex", b"x")).await.status(), 502);
    let refused = router.ask(post("/", "acme", b"x")).await;
    assert_eq!((refused.status(), refused.problem().as_str()), (503, "backend_unreachable"), "{refused:?}");
    assert!(refused.number("retry-after") >= 1);
    assert!(refused.head.field("cofferdam-cause").is_none(), "{refused:?}");
    let metrics = router.metrics().await;
    let unreachable = "reason=\"backend_unreachable\"";
    assert_eq!(metrics.sum("cofferdam_router_refusals_total", &["level=\"cell\"", unreachable]), 1.0);
    let failed = metrics.sum("cofferdam_router_failed_attempts_total", &["fault=\"backend_unreachable\""]);
    assert!(failed >= 2.0, "{failed}");
    assert_eq!(metrics.sum("cofferdam_router_requests_total", &["outcome=\"failed\""]), 3.0);
}

#[tokio::test]
async fn every_cause_that_an_agent_says_has_its_own_problem_and_its_own_reason() {
    for (refused, cause, status, problem, reason, fault) in [
        ("cell", "", 503, "cell_full", "cell", "refused_cell"),
        ("cell", "full", 503, "cell_full", "cell", "refused_cell"),
        ("cell", "word_of_a_newer_agent", 503, "cell_full", "cell", "refused_cell"),
        (
            "cell",
            "backend_unreachable",
            503,
            "backend_unreachable",
            "backend_unreachable",
            "backend_unreachable",
        ),
        ("cell", "breaker_open", 503, "backend_breaker_open", "backend_breaker_open", "backend_breaker_open"),
        ("cell", "draining", 503, "cell_draining", "draining", "draining"),
        ("class", "", 503, "cell_class", "class", "refused_class"),
        ("class", "cap", 503, "cell_cap", "cap", "refused_cap"),
        (
            "class",
            "breaker_open",
            503,
            "dependency_breaker_open",
            "dependency_breaker_open",
            "dependency_breaker_open",
        ),
        ("tenant", "", 429, "cell_tenant", "tenant", "refused_tenant"),
    ] {
        let fields = match cause {
            "" => format!("cofferdam-refused: {refused}\r\nretry-after: 7\r\n"),
            cause => {
                format!("cofferdam-refused: {refused}\r\ncofferdam-cause: {cause}\r\nretry-after: 7\r\n")
            }
        };
        let line = if status == 429 { "429 Too Many Requests" } else { "503 Service Unavailable" };
        let bytes = answer(line, &fields, "refused");
        let cell = || {
            let bytes = bytes.clone();
            Scripted::start(move |_| Play::Answer(bytes.clone()))
        };
        let (home, second) = (cell().await, cell().await);
        let router = TestRouter::start(&fleet(&[home.address, second.address], PINS));
        let answer = router.ask(get("/", "acme")).await;
        let named = (answer.status(), answer.problem());
        assert_eq!(named, (status, problem.to_owned()), "{refused} {cause}");
        assert_eq!(answer.number("retry-after"), 7, "{refused} {cause}");
        let n_tried = if refused == "cell" { 2 } else { 1 };
        assert_eq!(home.seen().len() + second.seen().len(), n_tried, "{refused} {cause}");
        let metrics = router.metrics().await;
        let reason = format!("reason=\"{reason}\"");
        assert_eq!(
            metrics.sum("cofferdam_router_refusals_total", &["level=\"cell\"", &reason]),
            1.0,
            "{cause}"
        );
        let fault = format!("fault=\"{fault}\"");
        let failed = metrics.sum("cofferdam_router_failed_attempts_total", &[&fault]);
        assert_eq!(failed, n_tried as f64, "{refused} {cause}");
    }
}
