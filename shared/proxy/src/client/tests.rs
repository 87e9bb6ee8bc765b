//! A client's socket with its clocks, on a clock that is paused.

use std::future::poll_fn;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;

#[tokio::test(start_paused = true)]
async fn idle_time_counts_from_the_last_request_wherever_the_clock_was_set() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let second = Duration::from_secs(1);
    let (times, turn) =
        (ClientTimes { idle: 60 * second, head: second, stall: second }, Arc::new(Turn::default()));
    let (mut stream, began) = (ClientStream::new(accepted, times, Arc::clone(&turn)), Instant::now());
    for _ in 0..3 {
        assert!(timeout(40 * second, stream.read_u8()).await.is_err(), "nothing comes for a while");
        drop(turn.answering(false));
    }
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    let waited = began.elapsed();
    assert!(waited >= 180 * second && waited < 181 * second, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn what_comes_behind_an_answer_is_a_head_or_the_rest_of_a_body() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let second = Duration::from_secs(1);
    let (times, turn) =
        (ClientTimes { idle: 60 * second, head: second, stall: second }, Arc::new(Turn::default()));
    let mut stream = ClientStream::new(accepted, times, Arc::clone(&turn));
    // The rest of a body that was refused is read as soon as the answer has ended: the connection is idle then.
    drop(turn.answering(true));
    client.write_all(b"b").await.unwrap();
    stream.read_u8().await.unwrap();
    assert!(timeout(50 * second, stream.read_u8()).await.is_err(), "no head has begun");
    // A request without a body is answered, and a part of the next one's head comes meanwhile: it has a head's time.
    let answering = turn.answering(false);
    client.write_all(b"G").await.unwrap();
    stream.read_u8().await.unwrap();
    assert!(timeout(5 * second, stream.read_u8()).await.is_err(), "no time runs before the answer's end");
    drop(answering);
    let began = Instant::now();
    assert_eq!(stream.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!((stream.last, began.elapsed().as_secs()), (Last::HeadTimeout, 1));
}

/// A client and its stream on this side, of which a part of a request was read.
async fn during_a_request() -> (TcpStream, ClientStream, Answering) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(connecting, listener.accept());
    let (turn, times) = (Arc::new(Turn::default()), ClientTimes { idle: HELD, head: HELD, stall: HELD });
    let mut stream = ClientStream::new(accepted.unwrap().0, times, Arc::clone(&turn));
    let (mut client, mut head) = (client.unwrap(), [0; 4]);
    client.write_all(b"head, and a body").await.unwrap();
    stream.read_exact(&mut head).await.unwrap();
    (client, stream, turn.answering(true))
}

async fn flush(stream: &mut ClientStream) -> io::Result<()> {
    poll_fn(|cx| Pin::new(&mut *stream).poll_flush(cx)).await
}

#[tokio::test]
async fn a_client_that_goes_while_nobody_reads_its_body_is_seen_after_a_while() {
    for resets in [false, true] {
        let (client, mut stream, _answering) = during_a_request().await;
        tokio::time::pause();
        flush(&mut stream).await.unwrap();
        tokio::time::advance(HELD).await;
        flush(&mut stream).await.unwrap();
        if resets {
            client.set_zero_linger().unwrap();
        }
        drop(client);
        flush(&mut stream).await.unwrap();
        tokio::time::advance(HELD).await;
        // On loopback, what one side did is there before its call returns.
        assert_eq!(flush(&mut stream).await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_client_is_not_looked_for_while_its_end_would_be_heard() {
    let (client, mut stream, _answering) = during_a_request().await;
    let mut rest = [0; 12];
    stream.read_exact(&mut rest).await.unwrap();
    poll_fn(|cx| {
        let read = Pin::new(&mut stream).poll_read(cx, &mut ReadBuf::new(&mut [0; 1]));
        assert!(read.is_pending());
        Poll::Ready(())
    })
    .await;
    tokio::time::pause();
    for _ in 0..3 {
        flush(&mut stream).await.unwrap();
        tokio::time::advance(HELD).await;
    }
    assert!(stream.deaf_since.is_none());
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_as_its_idle_time_ends_is_read_and_not_closed_on() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for _ in 0..100 {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (idle, turn) = (Duration::from_millis(20), Arc::new(Turn::default()));
        let times = ClientTimes { idle, head: HELD, stall: HELD };
        let mut stream = ClientStream::new(accepted, times, turn);
        let mut client = client.into_std().unwrap();
        let mut poll = async || {
            poll_fn(|cx| Poll::Ready(Pin::new(&mut stream).poll_read(cx, &mut ReadBuf::new(&mut [0; 8]))))
                .await
        };
        assert!(poll().await.is_pending());
        tokio::time::advance(idle).await;
        // In the kernel before the call returns; the runtime has not asked it meanwhile.
        std::io::Write::write_all(&mut client, b"GET").unwrap();
        let polled = poll().await;
        assert!(!matches!(polled, Poll::Ready(Err(_))), "{polled:?}");
        assert_eq!(stream.read_u8().await.unwrap(), b'G');
        let (began, mut rest) = (Instant::now(), Vec::new());
        stream.read_to_end(&mut rest).await.unwrap_err();
        assert!(began.elapsed() >= HELD, "a head has begun, and has a head's time");
    }
}
