//! The layers for tower: when a call has its place, what a breaker counts, and what a deadline ends and tells.

use std::convert::Infallible;
use std::future::pending;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use cofferdam_bulkhead::{
    BoxError, Breaker, BreakerLayer, BreakerPolicy, BreakerState, Bulkhead, BulkheadLayer, Deadline,
    DeadlineLayer, DeadlinePassed, Denied, Open, judge_http,
};
use http::{HeaderName, Request, Response};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::ms;

const TOLD: HeaderName = HeaderName::from_static("remaining-ms");

/// A body of one frame, and then whatever the second is.
struct Frames(Option<Bytes>, Second);

#[derive(Clone, Copy)]
enum Second {
    End,
    Error,
    Never,
}

impl Frames {
    fn then(second: Second) -> Response<Self> {
        Response::new(Self(Some(Bytes::from_static(b"first")), second))
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.0.take(), self.1) {
            (Some(first), _) => Poll::Ready(Some(Ok(Frame::data(first)))),
            (None, Second::End) => Poll::Ready(None),
            (None, Second::Error) => Poll::Ready(Some(Err(std::io::Error::other("broken off")))),
            (None, Second::Never) => Poll::Pending,
        }
    }
}

fn answering(
    second: Second,
) -> impl Service<Request<()>, Response = Response<Frames>, Error = Infallible, Future: Send> + Clone {
    service_fn(move |_: Request<()>| async move { Ok(Frames::then(second)) })
}

#[tokio::test]
async fn a_service_that_is_ready_and_not_called_holds_no_place() {
    let bulkhead = Bulkhead::new("payment", 1);
    let mut idle = BulkheadLayer::new(bulkhead.clone()).layer(answering(Second::End));
    for _ in 0..3 {
        idle.ready().await.unwrap();
        let mut other = idle.clone();
        other.ready().await.unwrap();
    }
    assert_eq!(bulkhead.snapshot().active, 0);
    let unpolled = idle.ready().await.unwrap().call(Request::new(()));
    assert_eq!(bulkhead.snapshot().active, 0);
    drop(unpolled);
    let answer = idle.ready().await.unwrap().call(Request::new(())).await.unwrap();
    assert_eq!(bulkhead.snapshot().active, 1);
    drop((answer, idle));
    assert_eq!((bulkhead.snapshot().active, bulkhead.snapshot().granted), (0, 1));
}

#[tokio::test]
async fn a_place_is_held_until_the_body_ends_fails_or_is_dropped() {
    let bulkhead = Bulkhead::new("payment", 1);
    let active = || bulkhead.snapshot().active;
    for second in [Second::End, Second::Error] {
        let service = BulkheadLayer::new(bulkhead.clone()).layer(answering(second));
        let mut body = service.oneshot(Request::new(())).await.unwrap().into_body();
        assert_eq!(active(), 1, "the head alone ends nothing");
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(active(), 1);
        assert!(body.frame().await.is_none_or(|frame| frame.is_err()));
        assert_eq!(active(), 0, "though the body is still there");
    }
    let service = BulkheadLayer::new(bulkhead.clone()).layer(answering(Second::Never));
    let mut body = service.oneshot(Request::new(())).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(futures_util::poll!(body.frame()).is_pending());
    assert_eq!(active(), 1);
    drop(body);
    assert_eq!(active(), 0);
}

#[tokio::test]
async fn a_body_whose_end_is_known_is_not_waited_for() {
    let bulkhead = Bulkhead::new("payment", 2);
    let layer = BulkheadLayer::new(bulkhead.clone());
    let empty = layer
        .layer(service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    let _empty = empty.oneshot(Request::new(())).await.unwrap();
    assert_eq!(bulkhead.snapshot().active, 0);
    let full = layer.layer(service_fn(async |_: Request<()>| {
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"whole"))))
    }));
    let mut full = full.oneshot(Request::new(())).await.unwrap().into_body();
    assert_eq!((bulkhead.snapshot().active, full.size_hint().exact()), (1, Some(5)));
    assert!(full.frame().await.unwrap().is_ok());
    assert_eq!(bulkhead.snapshot().active, 0, "nobody polls after the last frame");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_body_holds_its_place_until_it_is_answered_fails_or_goes_away() {
    let bulkhead = Bulkhead::new("payment", 1);
    let service = BulkheadLayer::to_answer(bulkhead.clone()).layer(service_fn(async |n: u32| match n {
        0 => pending().await,
        1 => Err(std::io::Error::other("reset")),
        n => Ok(n),
    }));
    let hung = tokio::spawn(service.clone().oneshot(0));
    sleep(ms(1)).await;
    assert!(Denied::is_cause_of(&*service.clone().oneshot(2).await.unwrap_err()));
    hung.abort();
    assert!(hung.await.is_err());
    assert!(service.clone().oneshot(1).await.unwrap_err().is::<std::io::Error>());
    assert_eq!(service.oneshot(2).await.unwrap(), 2);
    assert_eq!(bulkhead.snapshot().active, 0);
}

/// A service that answers with what its request says: a status, an error, or never.
fn breaker_around(breaker: &Breaker) -> impl Service<Request<u16>, Error = BoxError, Future: Send> + Clone {
    let full = Bulkhead::new("full", 0);
    let breaker = BreakerLayer::new(breaker.clone(), judge_http);
    breaker.layer(service_fn(move |request: Request<u16>| {
        let full = full.clone();
        async move {
            match request.into_body() {
                0 => pending().await,
                1 => Err(BoxError::from("connection reset")),
                2 => Err(full.try_acquire().unwrap_err().into()),
                3 => Err(DeadlinePassed(ms(100)).into()),
                status => Ok(Response::builder().status(status).body(())?),
            }
        }
    }))
}

#[tokio::test(start_paused = true)]
async fn refusals_of_our_own_calls_taken_back_and_4xx_are_no_failures() {
    // P15
    let breaker = Breaker::new(BreakerPolicy::default());
    let service = breaker_around(&breaker);
    for _ in 0..20 {
        assert!(service.clone().oneshot(Request::new(2)).await.is_err());
        assert!(timeout(ms(10), service.clone().oneshot(Request::new(0))).await.is_err());
        for status in [200, 302, 400, 404, 429] {
            assert!(service.clone().oneshot(Request::new(status)).await.is_ok());
        }
    }
    assert_eq!(breaker.counts().state, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn five_failures_leave_the_service_alone_until_one_call_tries_it() {
    // P35
    for failure in [1, 3, 500, 503] {
        let breaker = Breaker::new(BreakerPolicy::default());
        let service = breaker_around(&breaker);
        for _ in 0..5 {
            drop(service.clone().oneshot(Request::new(failure)).await);
        }
        let open = service.clone().oneshot(Request::new(200)).await.err().unwrap();
        assert_eq!(open.downcast_ref(), Some(&Open(ms(30_000))), "{failure}");
        sleep(ms(30_000)).await;
        // P39: one tries it, and not everybody.
        let mut trying = Box::pin(service.clone().oneshot(Request::new(0)));
        assert!(futures_util::poll!(&mut trying).is_pending());
        assert!(service.clone().oneshot(Request::new(200)).await.is_err());
        drop(trying);
        assert!(service.clone().oneshot(Request::new(404)).await.is_ok());
        assert_eq!(breaker.counts().state, BreakerState::Closed, "somebody is there");
    }
}

/// Answers after 100 ms with the header that it was told.
fn slow() -> impl Service<Request<()>, Response = Response<String>, Error = BoxError, Future: Send> + Clone {
    service_fn(async |request: Request<()>| {
        sleep(ms(100)).await;
        let told = request.headers().get(TOLD).map_or("nothing", |value| value.to_str().unwrap());
        Ok::<_, BoxError>(Response::new(told.to_owned()))
    })
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_the_shortest_patience_and_is_told_to_whoever_is_called() {
    // P13
    let layer = DeadlineLayer::new(ms(1000)).header(TOLD);
    let told = async |request: Request<()>| layer.layer(slow()).oneshot(request).await;
    let body = async |request| told(request).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body(Request::new(())).await, "1000");
    let by_header = |ms: &str| Request::builder().header(TOLD, ms).body(()).unwrap();
    assert_eq!(body(by_header("400")).await, "400");
    assert_eq!(body(by_header("5000")).await, "1000");
    assert_eq!(body(by_header("soon")).await, "1000", "what is no number says nothing");
    let by_extension = Request::builder().extension(Deadline::after(ms(300))).body(()).unwrap();
    assert_eq!(body(by_extension).await, "300");
    let start = Instant::now();
    let late = told(by_header("50")).await.unwrap_err();
    assert_eq!(late.downcast_ref(), Some(&DeadlinePassed(ms(50))));
    assert!(start.elapsed() <= ms(51), "{:?}", start.elapsed());
    let too_late = told(by_header("0")).await.unwrap_err();
    assert!(too_late.is::<DeadlinePassed>());
}

#[tokio::test(start_paused = true)]
async fn a_place_is_back_at_the_deadline_of_the_head_or_of_the_body() {
    // P13: a timeout inside the compartment.
    let bulkhead = Bulkhead::new("payment", 1);
    let (deadline, places) = (DeadlineLayer::new(ms(50)), BulkheadLayer::new(bulkhead.clone()));
    assert!(deadline.layer(places.layer(slow())).oneshot(Request::new(())).await.is_err());
    assert_eq!(bulkhead.snapshot().active, 0);

    let stalling = deadline.layer(places.layer(answering(Second::Never)));
    let mut body = stalling.oneshot(Request::new(())).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let broken = body.frame().await.unwrap().unwrap_err();
    assert!(broken.is::<DeadlinePassed>());
    assert_eq!(bulkhead.snapshot().active, 0, "though the body is still there");
    assert!(body.frame().await.is_none());

    let streaming = deadline.head_alone().layer(places.layer(answering(Second::Never)));
    let mut body = streaming.oneshot(Request::new(())).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(timeout(ms(60_000), body.frame()).await.is_err(), "a stream may take its time");
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_quarter_of_its_deadline_and_tells_what_is_left_when_it_begins() {
    let bulkhead = Bulkhead::new("payment", 1).queue(2, ms(60_000));
    let layers = DeadlineLayer::new(ms(1000)).header(TOLD);
    let service = layers.layer(BulkheadLayer::new(bulkhead.clone()).layer(slow()));
    let place = bulkhead.try_acquire().unwrap();
    let start = Instant::now();
    let denied = service.clone().oneshot(Request::new(())).await.err().unwrap();
    assert!(Denied::is_cause_of(&*denied), "refused in the queue, and not late: {denied}");
    assert!(start.elapsed() <= ms(251), "{:?}", start.elapsed());
    let call = tokio::spawn(service.oneshot(Request::new(())));
    sleep(ms(200)).await;
    drop(place);
    let body = call.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes();
    let left: u32 = std::str::from_utf8(&body).unwrap().parse().unwrap();
    assert!((790..=800).contains(&left), "{left}");
}
