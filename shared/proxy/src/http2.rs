//! One connection that speaks HTTP/2: hyper's server with this project's bounds, and what HTTP/1.1's gives unasked:
//! nothing but a head in answer to HEAD, a bound on fields, an end to silence, a clock on clients that take nothing.
//! A client that expects 100 is not told to go on, which hyper cannot do here: it goes on by itself after its own wait.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, COOKIE, HeaderMap, HeaderValue};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};

use crate::caught;
use crate::client::ClientStream;
use crate::drain::{Phase, Watch};
use crate::fields::strip_hop_by_hop;
use crate::framing;
use crate::grpc;
use crate::problem::Problem;
use crate::service::{ServeLimits, Service};
use crate::streams::{Spawner, Streams, Wait};

/// The most streams that a client may have open at once.
const MAX_STREAMS: u32 = 100;

/// How much a client may send of one stream before it was read.
const STREAM_WINDOW: u32 = 64 * 1024;

/// How much a client may send of all streams together: what each of them may, since uploads that nobody reads would
/// otherwise hold up others that share their connection, and a balancer in front puts many clients on one.
const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;

/// How much of one stream's answer waits for the client to take it; what is more stays with the cell.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// The most bytes of a head that is read at all, counted as RFC 9113 section 6.5.2 counts. The library answers more with a
/// bare 431. What lies between the bound of [`ServeLimits`] and this one is answered in the words of its caller.
const MAX_HEADER_LIST: u32 = 64 * 1024;

/// What a field counts in a head beside its bytes (RFC 9113 section 6.5.2).
const PER_FIELD: usize = 32;

/// Answers the requests of one connection, until the client, its silence or the drain ends it.
pub(crate) async fn converse<S: Service + Clone>(
    stream: ClientStream,
    peer: SocketAddr,
    limits: ServeLimits,
    service: S,
    drain: &mut Watch,
) -> hyper::Result<()> {
    let streams = Arc::new(Streams::default());
    let answers = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(answer(&service, peer, &limits, request).await) }
    });
    let mut connection = pin!(builder(limits, &streams).serve_connection(TokioIo::new(stream), answers));
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = drain.reached(Phase::Draining) => {}
        () = streams.idle(limits.idle) => {}
    }
    // GOAWAY: what has begun is finished. What a client does not take of that is not waited for without an end.
    connection.as_mut().graceful_shutdown();
    streams.touch();
    tokio::select! {
        ended = connection.as_mut() => ended,
        () = drain.reached(Phase::Cut) => Ok(()),
        () = streams.idle(limits.stall) => Ok(()),
    }
}

/// Bounds for one connection. How many resets a client may cause is h2's own affair, and is left as it is.
fn builder(limits: ServeLimits, streams: &Arc<Streams>) -> http2::Builder<Spawner> {
    let mut builder = http2::Builder::new(Spawner::new(Arc::clone(streams), limits.stall));
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_LIST)
        // A client that has gone without a word holds what its requests hold: silence is asked whether it lives.
        .keep_alive_interval(limits.stall)
        .keep_alive_timeout(limits.stall);
    builder
}

async fn answer<S: Service>(
    service: &S,
    peer: SocketAddr,
    limits: &ServeLimits,
    mut request: Request<Incoming>,
) -> Response<StreamBody<S::Body>> {
    join_cookies(request.headers_mut());
    if request.headers().len() > limits.max_fields || list_size(&request) > limits.max_list_bytes {
        return refusal(&request, service.unserved(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    if let Err(fault) = framing::check_http2(request.headers()) {
        request.extensions_mut().insert(fault);
    }
    let is_head = *request.method() == Method::HEAD;
    let mut response = caught::answer(service, peer, request).await;
    *response.version_mut() = Version::HTTP_2;
    if !is_head {
        return response.map(StreamBody::Answer);
    }
    // The length of what a GET would have got.
    let length = response.body().size_hint().exact().filter(|_| !response.body().is_end_stream());
    if let Some(length) = length {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(length.into());
    }
    response.map(|_| StreamBody::Whole(Bytes::new()))
}

/// The bytes of a head as RFC 9113 section 6.5.2 counts them.
fn list_size<B>(request: &Request<B>) -> usize {
    let uri = request.uri();
    let pseudo = [
        request.method().as_str().len() + ":method".len(),
        uri.scheme_str().map_or(0, str::len) + ":scheme".len(),
        uri.authority().map_or(0, |authority| authority.as_str().len()) + ":authority".len(),
        uri.path_and_query().map_or(0, |path| path.as_str().len()) + ":path".len(),
    ];
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    pseudo.into_iter().chain(fields).map(|bytes| bytes + PER_FIELD).sum()
}

fn refusal<B>(request: &Request<Incoming>, problem: Problem) -> Response<StreamBody<B>> {
    if grpc::is_called_by(request) {
        return grpc::refusal(problem).map(|_| StreamBody::Whole(Bytes::new()));
    }
    problem.into_response().map(StreamBody::Whole)
}

/// Cookies may come in crumbs, which are one field outside of HTTP/2 (RFC 9113 section 8.2.3).
fn join_cookies(fields: &mut HeaderMap) {
    let mut crumbs = fields.get_all(COOKIE).iter();
    if let (Some(_), Some(_)) = (crumbs.next(), crumbs.next()) {
        let crumbs: Vec<_> = fields.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        // Values joined by a semicolon and a space are a value.
        if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
            fields.insert(COOKIE, joined);
        }
    }
}

/// An answer's body on a stream.
enum StreamBody<B> {
    /// The service's.
    Answer(B),
    /// One in a piece; empty where nothing but the head is sent.
    Whole(Bytes),
}

impl<B: Body<Data = Bytes> + Unpin> Body for StreamBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let body = match self.get_mut() {
            Self::Answer(body) => body,
            Self::Whole(bytes) if bytes.is_empty() => return Poll::Ready(None),
            Self::Whole(bytes) => return Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        };
        Wait::ForBody.note();
        let frame = ready!(Pin::new(body).poll_frame(cx));
        Wait::ForClient.note();
        Poll::Ready(frame.map(|frame| frame.map(without_connection_fields)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Answer(body) => body.is_end_stream(),
            Self::Whole(bytes) => bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Answer(body) => body.size_hint(),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
        }
    }
}

/// Fields of a connection make an HTTP/2 message malformed, in its trailers as in its head; hyper looks at heads only.
fn without_connection_fields(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            strip_hop_by_hop(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}
