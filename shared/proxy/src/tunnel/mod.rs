//! Tunnels: what a client's connection and an upstream's become once the upstream has changed its protocol (RFC 9110
//! section 7.8). Bytes go both ways with back-pressure, one side's end is passed on while the other direction goes on, and
//! an error on either side ends both. What the bytes mean is nobody's business here.
//!
//! A tunnel is made out of the upstream's 101, rides in the answer to the client, and is run in the task of the client's
//! connection once that answer is written. What the request holds is held until both sides have closed.

mod end;
mod flow;
mod metrics;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep};

pub use self::end::TunnelEnd;
use self::end::Way;
use self::flow::{Broken, Flow};
pub use self::metrics::TunnelMetrics;
use crate::drain::{Phase, Watch};
use crate::payload::Payload;
use crate::upstream::{Switched, UpstreamBody};

/// The longest silence once one side has ended. What the other side still has to say comes soon; a client that stays behind
/// would else hold what its request holds for as long as it likes.
const AFTER_END: Duration = Duration::from_secs(5);

/// The same while bytes wait for a side that takes none.
const HELD_BACK: Duration = Duration::from_secs(30);

/// What holds something for a tunnel, and is told of its end.
type Holder = Box<dyn FnOnce(TunnelEnd) + Send>;

/// The upstream's side of a tunnel, and what is held for it.
pub(crate) struct Tunnel {
    /// Taken by the run alone.
    upstream: Option<Switched>,
    holder: Option<Holder>,
    metrics: TunnelMetrics,
    begun: bool,
}

/// A tunnel on its way to the client's connection, as an extension of the answer.
#[derive(Clone)]
struct Handover(Arc<Mutex<Option<Box<Tunnel>>>>);

/// Whether an upstream's answer changes the protocol. The upstream's client lets no other 101 pass.
pub fn is_switch<B>(answer: &Response<B>) -> bool {
    answer.status() == StatusCode::SWITCHING_PROTOCOLS
}

/// Makes the answer to the client out of an upstream's 101. `holder` is called once, at the tunnel's end, whatever that is.
pub fn answer(
    switch: Response<UpstreamBody>,
    metrics: &TunnelMetrics,
    holder: impl FnOnce(TunnelEnd) + Send + 'static,
) -> Response<Payload> {
    let (mut head, body) = switch.into_parts();
    let (upstream, holder) = (body.into_switched(), Some(Box::new(holder) as Holder));
    let tunnel = Tunnel { upstream, holder, metrics: metrics.clone(), begun: false };
    head.extensions.insert(Handover(Arc::new(Mutex::new(Some(Box::new(tunnel))))));
    Response::from_parts(head, Payload::default())
}

/// Takes the tunnel out of an answer.
pub(crate) fn take<B>(answer: &mut Response<B>) -> Option<Box<Tunnel>> {
    answer.extensions_mut().remove::<Handover>()?.0.lock().take()
}

impl Tunnel {
    /// Copies until the tunnel's end, or the drain's cut; `early` is what the client sent behind its request.
    pub(crate) async fn run(
        mut self: Box<Self>,
        client: impl AsyncRead + AsyncWrite + Unpin,
        early: Bytes,
        drain: &mut Watch,
    ) {
        let Some(mut upstream) = self.upstream.take() else { return };
        self.begun = true;
        self.metrics.begun();
        let (flows, idle) = ((Flow::new(early), Flow::new(upstream.take_early())), upstream.idle());
        let copied = |way, bytes| self.metrics.copied(way, bytes);
        let end = tokio::select! {
            end = copy(client, upstream, flows, idle, copied) => end,
            () = drain.reached(Phase::Cut) => TunnelEnd::Cut,
        };
        self.end(end);
    }

    fn end(&mut self, end: TunnelEnd) {
        if let Some(holder) = self.holder.take() {
            tracing::debug!(end = end.as_str(), "tunnel ended");
            self.metrics.ended(end);
            holder(end);
        }
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // One that runs is dropped with its worker alone.
        self.end(if self.begun { TunnelEnd::Cut } else { TunnelEnd::NotBegun });
    }
}

/// The longest silence as things stand, and how a tunnel ends by it.
fn patience(up: &Flow, down: &Flow, idle: Duration) -> (Duration, TunnelEnd) {
    match (up.is_ended() || down.is_ended(), up.is_held_back() || down.is_held_back()) {
        (false, _) => (idle, TunnelEnd::Idle),
        (true, true) => (idle.min(HELD_BACK), TunnelEnd::HalfClosed),
        (true, false) => (idle.min(AFTER_END), TunnelEnd::HalfClosed),
    }
}

/// Copies both ways until both sides have ended, one has failed, or nothing has moved for `idle`, or for less once one side
/// has ended.
async fn copy(
    mut client: impl AsyncRead + AsyncWrite + Unpin,
    mut upstream: impl AsyncRead + AsyncWrite + Unpin,
    (mut up, mut down): (Flow, Flow),
    idle: Duration,
    mut copied: impl FnMut(Way, u64),
) -> TunnelEnd {
    let mut timer = pin!(sleep(idle));
    let mut last = Instant::now();
    poll_fn(|cx: &mut Context<'_>| {
        let (mut n_up, mut n_down) = (0, 0);
        let was_whole = !up.is_ended() && !down.is_ended();
        let (way_up, way_down) = (&mut up, &mut down);
        let up = way_up.poll(&mut client, &mut upstream, &mut n_up, cx);
        let down = way_down.poll(&mut upstream, &mut client, &mut n_down, cx);
        for (way, bytes) in [(Way::Up, n_up), (Way::Down, n_down)] {
            if bytes > 0 {
                copied(way, bytes);
                last = Instant::now();
            }
        }
        match (up, down) {
            (Poll::Ready(Err(Broken::Source(error))), _) | (_, Poll::Ready(Err(Broken::Sink(error)))) => {
                tracing::debug!(%error, "a tunnel's client is lost");
                return Poll::Ready(TunnelEnd::ClientLost);
            }
            (Poll::Ready(Err(Broken::Sink(error))), _) | (_, Poll::Ready(Err(Broken::Source(error)))) => {
                tracing::debug!(%error, "a tunnel's upstream is lost");
                return Poll::Ready(TunnelEnd::UpstreamLost);
            }
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => return Poll::Ready(TunnelEnd::Closed),
            (Poll::Pending, _) | (_, Poll::Pending) => {}
        }
        if was_whole && (way_up.is_ended() || way_down.is_ended()) {
            last = Instant::now();
        }
        let (patience, why) = patience(way_up, way_down, idle);
        let end = last + patience;
        if timer.deadline() > end {
            timer.as_mut().reset(end);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if end <= Instant::now() {
                return Poll::Ready(why);
            }
            timer.as_mut().reset(end);
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod turns;
