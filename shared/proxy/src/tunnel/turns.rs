//! What one turn of a tunnel may do, with ends that spend a task's budget as sockets do.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::ready;

use tokio::io::ReadBuf;
use tokio::task::coop::poll_proceed;

use super::*;

/// How often the busy side has something to read before it falls silent.
const ENOUGH: usize = 1000;

/// What both sides of a tunnel have seen.
struct Seen {
    /// Reads of the side that always has more.
    n_read: AtomicUsize,
    /// How many of them there were when something first came the other way.
    other_way: AtomicUsize,
}

/// A side that always has more to read, and takes what comes.
struct Busy(Arc<Seen>);

/// A side that has one byte to read, and takes what comes.
struct Quiet(Option<u8>);

impl AsyncRead for Busy {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let budget = ready!(poll_proceed(cx));
        if self.0.n_read.fetch_add(1, Ordering::Relaxed) >= ENOUGH {
            return Poll::Pending;
        }
        budget.made_progress();
        buf.put_slice(&[b'x'; 64]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Quiet {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let budget = ready!(poll_proceed(cx));
        let Some(byte) = self.get_mut().0.take() else { return Poll::Pending };
        budget.made_progress();
        buf.put_slice(&[byte]);
        Poll::Ready(Ok(()))
    }
}

fn poll_take(cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
    ready!(poll_proceed(cx)).made_progress();
    Poll::Ready(Ok(bytes.len()))
}

impl AsyncWrite for Busy {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let taken = ready!(poll_take(cx, bytes));
        self.0.other_way.store(self.0.n_read.load(Ordering::Relaxed), Ordering::Relaxed);
        Poll::Ready(taken)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Quiet {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        poll_take(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// How often the busy side was read before the other way had its first turn, and before another task had.
async fn turns(client_is_busy: bool) -> (usize, usize) {
    let seen = Arc::new(Seen { n_read: AtomicUsize::new(0), other_way: AtomicUsize::new(usize::MAX) });
    let (busy, quiet) = (Busy(Arc::clone(&seen)), Quiet(Some(b'a')));
    let idle = Duration::from_secs(1);
    let flows = (Flow::new(Bytes::new()), Flow::new(Bytes::new()));
    let tunnel = match client_is_busy {
        true => tokio::spawn(copy(busy, quiet, flows, idle, |_, _| {})),
        false => tokio::spawn(copy(quiet, busy, flows, idle, |_, _| {})),
    };
    let at_work = Arc::clone(&seen);
    let other_task = tokio::spawn(async move { at_work.n_read.load(Ordering::Relaxed) });
    let other_task = other_task.await.unwrap();
    assert_eq!(tunnel.await.unwrap(), TunnelEnd::Idle);
    (seen.other_way.load(Ordering::Relaxed), other_task)
}

#[tokio::test(start_paused = true)]
async fn a_side_that_always_has_more_starves_neither_the_other_way_nor_other_tasks() {
    for client_is_busy in [true, false] {
        let (other_way, other_task) = turns(client_is_busy).await;
        assert!(other_way <= 16, "{other_way} reads came first, {client_is_busy}");
        assert!(other_task <= 16, "{other_task} reads came first, {client_is_busy}");
    }
}
