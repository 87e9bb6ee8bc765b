//! Early Hints (RFC 8297) on their way from an upstream to a client of HTTP/1.1. The server can send none, so the client's
//! stream writes them in front of the answer. Both sides find each other by the task, which is the connection's.

use std::sync::Arc;
use std::task::Context;

use bytes::{BufMut, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName};
use http::{StatusCode, response};
use parking_lot::Mutex;

use crate::fields::{remove_where, strip_hop_by_hop};
use crate::lines::put_field;

tokio::task_local! {
    /// What the connection whose task this is answers next.
    static NEXT: Arc<NextAnswer>;
}

/// The most bytes of interim answers that wait for a client.
const MAX_WAITING: usize = 16 * 1024;

/// What is known of the answer that a connection of HTTP/1.1 gives next.
#[derive(Debug, Default)]
pub(crate) struct NextAnswer(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Interim answers that wait for their place in front of it.
    interim: BytesMut,
    /// The client understands them. HTTP/1.0 has none (RFC 9110 section 15.2).
    takes_interim: bool,
    /// The server has it, and writes it next.
    is_due: bool,
}

impl NextAnswer {
    /// A request has come, whose client understands interim answers or not.
    pub(crate) fn begin(&self, takes_interim: bool) {
        *self.0.lock() = State { interim: BytesMut::new(), takes_interim, is_due: false };
    }

    /// The server gets the answer.
    pub(crate) fn is_due_now(&self) {
        self.0.lock().is_due = true;
    }

    /// The server has written all that it had: what may go out before the answer.
    pub(crate) fn flushed(&self) -> BytesMut {
        let mut state = self.0.lock();
        if state.is_due { BytesMut::new() } else { std::mem::take(&mut state.interim) }
    }

    /// The server writes: what goes out before, if these bytes begin an answer, and whether it is the one that was due. Where they
    /// do not, its head lies behind them, and nothing finds the place in front of it any more.
    pub(crate) fn written(&self, begins: bool) -> (BytesMut, bool) {
        let mut state = self.0.lock();
        let was_due = std::mem::take(&mut state.is_due);
        let interim = if begins || was_due { std::mem::take(&mut state.interim) } else { BytesMut::new() };
        (if begins { interim } else { BytesMut::new() }, begins && was_due)
    }

    /// Puts Early Hints in front of the answer; false where that cannot be.
    fn hint(&self, mut fields: HeaderMap, withheld: fn(&HeaderName) -> bool) -> bool {
        strip_hop_by_hop(&mut fields);
        remove_where(&mut fields, |name| withheld(name) || *name == CONTENT_LENGTH);
        let mut lines = BytesMut::new();
        put_answer_head(StatusCode::EARLY_HINTS, &fields, &mut lines);
        let mut state = self.0.lock();
        let passes = state.takes_interim && !state.is_due && state.interim.len() + lines.len() <= MAX_WAITING;
        if passes {
            state.interim.unsplit(lines);
        }
        passes
    }
}

/// Runs a connection of HTTP/1.1, so that what its requests' upstreams hint at finds it.
pub(crate) fn with_interim<F: Future>(
    next: Arc<NextAnswer>,
    connection: F,
) -> impl Future<Output = F::Output> {
    NEXT.scope(next, connection)
}

/// Passes an upstream's interim answer on to the client of the request, if it is one of Early Hints and the client can take
/// it. `withheld` are the fields that stay here.
pub(crate) fn pass_on(head: response::Parts, withheld: fn(&HeaderName) -> bool, cx: &Context<'_>) {
    if head.status != StatusCode::EARLY_HINTS {
        return;
    }
    // No stream of HTTP/2 has such a task.
    if NEXT.try_with(|next| next.hint(head.headers, withheld)) == Ok(true) {
        // The server flushes in its next turn at the latest.
        cx.waker().wake_by_ref();
    }
}

/// Writes the head of an answer of HTTP/1.1.
pub(crate) fn put_answer_head(status: StatusCode, fields: &HeaderMap, out: &mut BytesMut) {
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(status.as_str().as_bytes());
    out.put_slice(b" ");
    out.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.put_slice(b"\r\n");
    for (name, value) in fields {
        put_field(name, value, out);
    }
    out.put_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::LINK;

    use super::*;

    fn hint(next: &NextAnswer) -> bool {
        let fields = [(LINK, HeaderValue::from_static("</a>"))].into_iter().collect();
        next.hint(fields, |_| false)
    }

    const HINT: &[u8] = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n";

    #[test]
    fn a_hint_goes_out_before_its_answer_or_not_at_all() {
        let next = NextAnswer::default();
        assert!(!hint(&next), "nobody has asked");
        next.begin(false);
        assert!(!hint(&next), "the client speaks HTTP/1.0");
        next.begin(true);
        assert!(hint(&next));
        assert_eq!(next.flushed(), HINT);
        assert!(hint(&next));
        next.is_due_now();
        assert!(!hint(&next), "the answer is there");
        assert_eq!((next.flushed(), next.written(true)), (BytesMut::new(), (HINT.into(), true)));
        assert_eq!(next.written(true), (BytesMut::new(), false));
    }

    #[test]
    fn a_hint_whose_answer_lies_behind_another_ones_rest_is_dropped() {
        let next = NextAnswer::default();
        next.begin(true);
        hint(&next);
        assert_eq!(next.written(false), (BytesMut::new(), false));
        next.is_due_now();
        assert_eq!(next.written(false), (BytesMut::new(), false));
        assert_eq!(next.flushed(), b""[..]);
    }

    #[test]
    fn hints_that_nobody_takes_have_a_bound() {
        let next = NextAnswer::default();
        next.begin(true);
        let n = (0..10_000).filter(|_| hint(&next)).count();
        assert_eq!(n, MAX_WAITING / HINT.len());
    }
}
