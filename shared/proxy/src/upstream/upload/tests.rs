//! A request's body on its way into the outbox: how it is framed, and that nothing is sent that was not declared.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use http::{HeaderMap, HeaderValue};
use http_body::{Frame, SizeHint};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::upstream::address::Stream;

/// A body of these frames, with or without a declared length.
struct Script {
    frames: VecDeque<Frame<Bytes>>,
    length: Option<u64>,
    /// Whether more is to come behind the frames, some time.
    stalls: bool,
}

impl Body for Script {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.frames.pop_front() {
            None if self.stalls => Poll::Pending,
            frame => Poll::Ready(frame.map(Ok)),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Everything that goes out.
fn sent(length: Option<u64>, frames: impl IntoIterator<Item = Frame<Bytes>>) -> Result<Vec<u8>, BodyError> {
    let mut upload = Upload::new(Script { frames: frames.into_iter().collect(), length, stalls: false });
    let (mut out, mut all) = (Outbox::default(), Vec::new());
    let mut cx = Context::from_waker(Waker::noop());
    while !upload.ended {
        match upload.poll_fill(&mut out, &mut cx)? {
            Poll::Ready(()) => {}
            Poll::Pending => unreachable!("the script is always ready"),
        }
        let waiting: Vec<u8> = out.slices().iter().flat_map(|slice| slice.to_vec()).collect();
        out.advance(waiting.len());
        all.extend(waiting);
    }
    Ok(all)
}

fn data(bytes: &'static [u8]) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(bytes))
}

#[test]
fn a_body_of_unknown_length_goes_out_in_chunks_without_an_empty_one() {
    let frames = [data(b"abc"), data(b""), data(&[b'x'; 17])];
    let chunks = b"3\r\nabc\r\n11\r\nxxxxxxxxxxxxxxxxx\r\n0\r\n\r\n";
    assert_eq!(sent(None, frames).unwrap(), chunks);
    assert_eq!(sent(None, []).unwrap(), b"0\r\n\r\n");
}

#[test]
fn large_pieces_keep_their_place_between_small_ones() {
    static LARGE: [u8; 20_000] = [b'x'; 20_000];
    let chunks = [b"3\r\nabc\r\n4e20\r\n".as_slice(), &LARGE, b"\r\n2\r\nde\r\n0\r\n\r\n"].concat();
    assert!(sent(None, [data(b"abc"), data(&LARGE), data(b"de")]).unwrap() == chunks);
    let plain = [b"abc".as_slice(), &LARGE, b"de"].concat();
    assert!(sent(Some(20_005), [data(b"abc"), data(&LARGE), data(b"de")]).unwrap() == plain);
}

#[test]
fn trailers_go_out_without_those_that_frame_or_authenticate() {
    let mut trailers = HeaderMap::new();
    for name in ["x-sum", "transfer-encoding", "host", "authorization", "connection", "keep-alive"] {
        trailers.insert(name, HeaderValue::from_static("a"));
    }
    assert_eq!(sent(None, [Frame::trailers(trailers)]).unwrap(), b"0\r\nx-sum: a\r\n\r\n");
}

#[test]
fn a_body_that_is_not_as_long_as_declared_is_an_error_and_never_the_next_request() {
    assert_eq!(sent(Some(3), [data(b"ab"), data(b"c")]).unwrap(), b"abc");
    assert!(matches!(sent(Some(3), [data(b"ab")]), Err(BodyError::Read(_))));
    assert!(matches!(sent(Some(3), [data(b"abcd")]), Err(BodyError::Read(_))));
}

/// Whether somebody was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection with room for everything, so that only the body holds an upload back.
async fn connection() -> (Connection, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    socket2::SockRef::from(&stream).set_send_buffer_size(1 << 20).unwrap();
    (Connection::new(Stream::Tcp(stream)), listener)
}

#[tokio::test]
async fn a_body_that_is_always_ready_lets_others_have_a_turn_and_goes_on_by_itself() {
    let (mut connection, _listener) = connection().await;
    let frames = std::iter::repeat_with(|| data(&[b'x'; 9000])).take(MAX_TURNS + 1).collect();
    let mut upload = Upload::new(Script { frames, length: None, stalls: false });
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = Context::from_waker(&waker);
    assert!(upload.poll(&mut connection, &mut cx).is_pending());
    assert!(woken.0.load(Ordering::Relaxed));
    assert!(matches!(upload.poll(&mut connection, &mut cx), Poll::Ready(Ok(()))));
}

#[tokio::test]
async fn a_body_that_has_no_more_for_now_is_sent_so_far_and_waited_for_without_a_spin() {
    let (mut connection, _listener) = connection().await;
    let mut upload = Upload::new(Script { frames: [data(b"abc")].into(), length: Some(4), stalls: true });
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(upload.poll(&mut connection, &mut Context::from_waker(&waker)).is_pending());
    assert_eq!(connection.written, 3);
    assert!(!woken.0.load(Ordering::Relaxed));
}
