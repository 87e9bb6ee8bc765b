//! Which threads serve the streams of one connection.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::Bytes;
use cofferdam_proxy::drain::{Drain, Phase};
use cofferdam_proxy::listen;
use cofferdam_proxy::serve::{ServeLimits, Service, serve};
use cofferdam_proxy::workers::{RuntimeFlavour, Workers};
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::net::TcpStream;

/// How many streams are open at once.
const N_STREAMS: usize = 50;

/// The threads on which requests were answered. A request blocks its thread until there are `wanted` of them, or for
/// too long.
struct Meeting {
    wanted: usize,
    threads: Mutex<HashSet<ThreadId>>,
    came: Condvar,
}

impl Service for Meeting {
    type Body = Full<Bytes>;

    async fn call(&self, _: SocketAddr, _: Request<Incoming>) -> Response<Full<Bytes>> {
        let mut threads = self.threads.lock().unwrap();
        threads.insert(thread::current().id());
        self.came.notify_all();
        let alone = |threads: &mut HashSet<ThreadId>| threads.len() < self.wanted;
        drop(self.came.wait_timeout_while(threads, Duration::from_secs(20), alone).unwrap());
        Response::default()
    }
}

/// How many threads answered the streams of one connection, where each waited for `wanted`.
async fn n_threads(sharing: RuntimeFlavour, wanted: usize) -> usize {
    let listener = listen::one(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let meeting = Arc::new(Meeting { wanted, threads: Mutex::default(), came: Condvar::new() });
    let drain = Drain::default();
    let serving = |listener| {
        let (meeting, watch) = (Arc::clone(&meeting), drain.watch());
        async move { serve(listener, ServeLimits::default(), meeting, watch).await.unwrap() }
    };
    // The second worker's socket is no client's.
    let listeners = [listener, listen::one(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap()];
    let workers = Workers::start("test", sharing, listeners.map(serving).into()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut requests, connection) = h2::client::handshake(stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let answers = (0..N_STREAMS).map(|_| {
        let request = Request::get("http://a/").body(()).unwrap();
        requests.send_request(request, true).unwrap().0
    });
    for answer in join_all(answers).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    drop(requests);
    connection.await.unwrap().unwrap();
    drain.advance(Phase::Draining);
    tokio::task::spawn_blocking(|| workers.join()).await.unwrap();
    meeting.threads.lock().unwrap().len()
}

#[tokio::test]
async fn one_connections_streams_are_served_on_several_threads_where_these_are_shared() {
    assert_eq!(n_threads(RuntimeFlavour::Shared, 2).await, 2);
}

#[tokio::test]
async fn one_connections_streams_stay_on_their_workers_thread_by_default() {
    assert_eq!(n_threads(RuntimeFlavour::default(), 1).await, 1);
}
