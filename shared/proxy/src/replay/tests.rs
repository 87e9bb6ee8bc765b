//! A body that is read by more than one attempt.

use http_body_util::{BodyExt, StreamBody};

use super::*;

type Chunks = StreamBody<TestStream>;

/// A stream of data frames of the given sizes, without a declared length.
struct TestStream(std::vec::IntoIter<usize>);

impl futures_util::Stream for TestStream {
    type Item = Result<Frame<Bytes>, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next().map(|n| Ok(Frame::data(Bytes::from(vec![b'x'; n])))))
    }
}

fn body(sizes: Vec<usize>, max_bytes: u64) -> ReplayBody<Chunks> {
    let stream = StreamBody::new(TestStream(sizes.into_iter()));
    ReplayBody::new(stream, BodyLimits { max_bytes, idle: Duration::from_secs(1) })
}

async fn read(attempt: Attempt<Chunks>) -> Result<usize, BodyError> {
    attempt.collect().await.map(|whole| whole.to_bytes().len())
}

#[tokio::test]
async fn a_small_body_is_replayed_byte_for_byte_even_after_half_an_attempt() {
    let body = body(vec![10, 20, 30], 1000);
    let mut half = body.attempt();
    half.frame().await.unwrap().unwrap();
    drop(half);
    assert!(body.replayable());
    assert_eq!(read(body.attempt()).await.unwrap(), 60);
    assert_eq!(read(body.attempt()).await.unwrap(), 60);
}

#[tokio::test]
async fn an_earlier_attempt_takes_nothing_away_from_a_later_one() {
    let body = body(vec![10, 20, 30], 1000);
    let mut earlier = body.attempt();
    earlier.frame().await.unwrap().unwrap();
    let mut later = body.attempt();
    later.frame().await.unwrap().unwrap();
    assert!(matches!(earlier.frame().await, Some(Err(BodyError::Spent))));
    assert_eq!(read(later).await.unwrap(), 50);
}

#[tokio::test]
async fn a_body_over_the_bound_streams_once_and_is_never_replayed_short() {
    let body = body(vec![REPLAY_BYTES, 1, 1], 1 << 20);
    assert_eq!(read(body.attempt()).await.unwrap(), REPLAY_BYTES + 2);
    assert!(!body.replayable());
    assert!(matches!(read(body.attempt()).await, Err(BodyError::Spent)));
}

#[tokio::test]
async fn a_body_over_its_limit_is_an_error() {
    let body = body(vec![600, 600], 1000);
    assert!(matches!(read(body.attempt()).await, Err(BodyError::TooLarge(1000))));
}

#[tokio::test]
async fn a_body_of_many_small_pieces_is_kept_in_few() {
    let body = body(vec![1; 1000], 1 << 20);
    let mut first = body.attempt();
    for _ in 0..500 {
        first.frame().await.unwrap().unwrap();
    }
    assert_eq!(read(body.attempt()).await.unwrap(), 1000);
    let kept = body.shared.as_ref().unwrap().lock().kept.len();
    assert!(kept <= KEPT_PIECES, "{kept}");
    assert_eq!(read(body.attempt()).await.unwrap(), 1000);
}
