//! Names that change, fail to resolve and resolve slowly, by a resolver of the tests' own.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicUsize;

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::upstream::{Address, ConnectFault, Upstream, UpstreamLimits};

const IN_TIME: Duration = Duration::from_secs(20);

/// Answers what it is set to; `None` is no answer ever.
#[derive(Debug, Clone, Default)]
struct Script(Arc<Scripted>);

#[derive(Debug, Default)]
struct Scripted {
    answer: Mutex<Option<Result<Vec<IpAddr>, String>>>,
    n_asked: AtomicUsize,
}

impl Lookup for Script {
    fn lookup(&self, _: Arc<str>) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        self.0.n_asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.answer.lock().clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer.map_err(io::Error::other),
                None => std::future::pending().await,
            }
        })
    }
}

impl Script {
    fn says(&self, last: &[u8]) {
        let ip = |last: &u8| IpAddr::from(Ipv4Addr::new(127, 0, 0, *last));
        *self.0.answer.lock() = Some(Ok(last.iter().map(ip).collect()));
    }

    fn n_asked(&self) -> usize {
        self.0.n_asked.load(Ordering::SeqCst)
    }

    /// Waits until what it says now was learned.
    async fn is_heard(&self) {
        let before = self.n_asked();
        eventually(|| self.n_asked() >= before + 2).await;
    }
}

async fn eventually(mut so: impl FnMut() -> bool) {
    let wait = async {
        while !so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(IN_TIME, wait).await.expect("it never came to be");
}

const QUICK: Pace = Pace { every: Duration::from_millis(4), least: Duration::from_millis(2) };

/// An upstream by a name, with connections that are kept for ever.
fn upstream(script: &Script, pace: Pace, port: u16) -> Upstream {
    let names = Names::new(script.clone(), pace);
    let limits =
        UpstreamLimits { connect: IN_TIME, idle: Duration::from_hours(1), ..UpstreamLimits::default() };
    Upstream::to(Address::Tcp(names.endpoint(&format!("cell.test:{port}"))), limits)
}

/// Listeners at one port of 127.0.0.2 and 127.0.0.3.
async fn two_hosts() -> (TcpListener, TcpListener, u16) {
    for _ in 0..20 {
        let first = TcpListener::bind("127.0.0.2:0").await.unwrap();
        let port = first.local_addr().unwrap().port();
        if let Ok(second) = TcpListener::bind(("127.0.0.3", port)).await {
            return (first, second, port);
        }
    }
    panic!("no port is free at both");
}

async fn accepted(listener: &TcpListener) -> TcpStream {
    timeout(IN_TIME, listener.accept()).await.expect("a connection").unwrap().0
}

/// Waits until the other side closes.
async fn is_closed(mut stream: TcpStream) {
    let read = timeout(IN_TIME, stream.read(&mut [0])).await.expect("an end");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn connections_to_an_address_that_a_name_has_left_close_and_new_ones_go_where_it_leads() {
    let (first, second, port) = two_hosts().await;
    let script = Script::default();
    script.says(&[2]);
    let upstream = upstream(&script, QUICK, port);
    let (idle, in_use) = (upstream.connect().await.unwrap(), upstream.connect().await.unwrap());
    let (at_first, also) = (accepted(&first).await, accepted(&first).await);
    assert!(idle.keep());
    script.says(&[3]);
    script.is_heard().await;
    assert!(upstream.reuse(Instant::now()).is_none(), "it leads where the name did");
    is_closed(at_first).await;
    let _new = upstream.lease().await.unwrap();
    accepted(&second).await;
    // One that was in use goes on, and is not kept.
    in_use.keep();
    is_closed(also).await;
}

#[tokio::test]
async fn an_idle_connection_closes_by_itself_once_its_address_was_left() {
    let (first, _second, port) = two_hosts().await;
    let script = Script::default();
    script.says(&[2, 3]);
    let upstream = upstream(&script, QUICK, port);
    assert!(upstream.connect().await.unwrap().keep());
    let at_first = accepted(&first).await;
    script.says(&[3, 2]);
    script.is_heard().await;
    assert!(upstream.reuse(Instant::now()).unwrap().keep(), "it is still one of the name's");
    script.says(&[3]);
    // Nobody asks for it.
    is_closed(at_first).await;
}

#[tokio::test]
async fn the_last_good_answer_stays_while_the_resolver_fails_says_nothing_or_hangs() {
    let (first, _second, port) = two_hosts().await;
    let script = Script::default();
    script.says(&[2]);
    let upstream = upstream(&script, QUICK, port);
    for answer in [Some(Err("SERVFAIL".to_owned())), Some(Ok(Vec::new()))] {
        drop(upstream.connect().await.unwrap());
        accepted(&first).await;
        *script.0.answer.lock() = answer;
        script.is_heard().await;
        drop(upstream.connect().await.unwrap());
        accepted(&first).await;
        script.says(&[2]);
        script.is_heard().await;
    }
    *script.0.answer.lock() = None;
    let before = script.n_asked();
    eventually(|| script.n_asked() > before).await;
    drop(upstream.connect().await.unwrap());
    accepted(&first).await;
    assert_eq!(script.n_asked(), before + 1, "one lookup is under way at a time");
}

#[tokio::test]
async fn a_connect_that_failed_asks_anew_at_once() {
    let (_first, second, port) = two_hosts().await;
    let script = Script::default();
    // Nobody listens there.
    script.says(&[4]);
    let upstream = upstream(&script, Pace { every: Duration::from_hours(1), least: QUICK.least }, port);
    assert!(matches!(upstream.connect().await, Err(ConnectFault::Io(_))));
    script.says(&[3]);
    let connected = async {
        while upstream.connect().await.is_err() {
            sleep(QUICK.least).await;
        }
    };
    timeout(IN_TIME, connected).await.expect("a connection long before the hour");
    accepted(&second).await;
    let n_asked = script.n_asked();
    assert!(upstream.connect().await.is_ok());
    sleep(Duration::from_millis(20)).await;
    assert_eq!(script.n_asked(), n_asked, "nothing failed since");
}

#[tokio::test]
async fn a_name_that_never_resolved_is_no_connection_and_says_why() {
    let script = Script::default();
    *script.0.answer.lock() = Some(Err("no such host".to_owned()));
    let upstream = upstream(&script, QUICK, 80);
    let Err(ConnectFault::Io(error)) = upstream.connect().await else { panic!("there is no such host") };
    assert_eq!(error.to_string(), "no such host");
}

#[tokio::test]
async fn a_literal_needs_no_resolver() {
    let script = Script::default();
    let names = Names::new(script.clone(), QUICK);
    for authority in ["127.0.0.1:80", "[::1]:80", "host", ":80", "host:port"] {
        assert!(!names.endpoint(authority).is_named(), "{authority}");
    }
    assert_eq!(script.n_asked(), 0);
    assert!(Arc::ptr_eq(&names.endpoint("a.test:1"), &names.endpoint("a.test:1")) || script.n_asked() < 3);
}

#[tokio::test]
async fn a_name_is_resolved_for_as_long_as_somebody_uses_it() {
    let script = Script::default();
    script.says(&[2]);
    let names = Names::new(script.clone(), QUICK);
    let both = VecDeque::from([names.endpoint("a.test:1"), names.endpoint("a.test:2")]);
    assert_eq!(names.0.hosts.lock().len(), 1, "two ports of one host have one name");
    script.is_heard().await;
    let host = Arc::downgrade(match &both[0].host {
        Place::Named(host) => host,
        other => panic!("{other:?}"),
    });
    drop(both);
    eventually(|| host.strong_count() == 0).await;
    let _other = names.endpoint("b.test:1");
    assert_eq!((names.0.hosts.lock().len(), names.0.endpoints.lock().len()), (1, 1));
}

#[tokio::test]
async fn idle_connections_close_where_an_endpoint_is_believed_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::tcp(&listener.local_addr().unwrap().to_string());
    let limits = UpstreamLimits { idle: Duration::from_hours(1), ..UpstreamLimits::default() };
    let upstream = Upstream::to(address.clone(), limits);
    let (idle, in_use) = (upstream.connect().await.unwrap(), upstream.connect().await.unwrap());
    let (one, other) = (accepted(&listener).await, accepted(&listener).await);
    idle.keep();
    address.close_idle();
    is_closed(one).await;
    in_use.keep();
    is_closed(other).await;
    assert!(upstream.reuse(Instant::now()).is_none());
    assert!(upstream.connect().await.unwrap().keep() && upstream.reuse(Instant::now()).is_some());
}
