//! Ours beside hyper's client, told the same bytes: what ours takes hyper takes too, and sees the same in it. Where
//! hyper takes what ours refuses, the reason is a row of a table here.

use std::cell::RefCell;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, TRANSFER_ENCODING};
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::net::TcpStream;

use crate::grammar::{Said, said};
use crate::script::{Script, get, limits};

/// What a client makes of an answer.
#[derive(Debug)]
enum Outcome {
    /// It is none.
    Refused(String),
    Seen(Seen),
}

/// What a client sees in an answer.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    fields: Vec<(String, Bytes)>,
    data: Vec<u8>,
    trailers: Vec<(String, Bytes)>,
    /// Why the body broke off.
    broken: Option<String>,
}

/// Fields in one order, whatever order a map keeps them in; values of one name keep theirs.
fn listed(fields: &HeaderMap) -> Vec<(String, Bytes)> {
    let list =
        fields.iter().map(|(name, value)| (name.to_string(), Bytes::copy_from_slice(value.as_bytes())));
    let mut list: Vec<_> = list.collect();
    list.sort_by(|one, other| one.0.cmp(&other.0));
    list
}

async fn see<B: Body<Data = Bytes, Error: std::fmt::Display> + Unpin>(response: Response<B>) -> Outcome {
    let (parts, mut body) = response.into_parts();
    let mut fields = parts.headers;
    if fields.contains_key(TRANSFER_ENCODING) {
        // Ours drops a length beside chunked.
        fields.remove(CONTENT_LENGTH);
    }
    let mut seen = Seen {
        status: parts.status.as_u16(),
        fields: listed(&fields),
        data: Vec::new(),
        trailers: Vec::new(),
        broken: None,
    };
    while let Some(frame) = body.frame().await {
        match frame.map(hyper::body::Frame::into_data) {
            Ok(Ok(data)) => seen.data.extend_from_slice(&data),
            Ok(Err(frame)) => {
                let mut trailers = frame.into_trailers().unwrap_or_default();
                // Ours drops those that frame or route; these are the ones that the grammar has.
                trailers.remove(CONTENT_LENGTH);
                trailers.remove("host");
                seen.trailers = listed(&trailers);
            }
            Err(error) => {
                seen.broken = Some(error.to_string());
                break;
            }
        }
    }
    Outcome::Seen(seen)
}

/// Why, down to the first cause.
fn root(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), root)
}

async fn ours(upstream: &cofferdam_proxy::upstream::Upstream) -> Outcome {
    match get(upstream).await {
        Ok(response) => see(response).await,
        Err(fault) => Outcome::Refused(root(&fault)),
    }
}

async fn hypers(address: &str) -> Outcome {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = Request::get("/a").header("host", "cell").body(Empty::<Bytes>::new()).unwrap();
    let outcome = match sender.send_request(request).await {
        Ok(response) => see(response).await,
        Err(error) => Outcome::Refused(root(&error)),
    };
    connection.abort();
    outcome
}

/// What ours makes of it, and what hyper does.
async fn both(said: &Said) -> (Outcome, Outcome) {
    let (script, upstream) = Script::new(limits()).await;
    let peer = async || {
        let mut peer = script.accept().await;
        peer.request().await;
        // A client that refuses hangs up.
        drop(peer.say_pieces(said.pieces()).await);
    };
    let (ours, ()) = tokio::join!(ours(&upstream), peer());
    let authority = upstream.address().to_string();
    let (hypers, ()) = tokio::join!(hypers(&authority), peer());
    (ours, hypers)
}

/// What ours refuses and hyper takes: what ours says, why it is refused, and an example.
const STRICTER: [(&str, &str, &str); 16] = [
    (
        "head does not parse: invalid new line",
        "an empty line before an answer is what is left of another",
        "\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    ),
    ("status 999 is not one", "statuses end at 599", "HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n"),
    (
        "content-length is not one number",
        "repeated: nobody needs it",
        "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 3\r\n\r\nabc",
    ),
    (
        "content-length is not one number",
        "a list: nobody needs it",
        "HTTP/1.1 200 OK\r\ncontent-length: 3, 3\r\n\r\nabc",
    ),
    (
        "content-length is not one number",
        "wrong, where the answer has no body",
        "HTTP/1.1 304 Not Modified\r\ncontent-length: x\r\n\r\n",
    ),
    (
        "content-length is not one number",
        "wrong, beside chunked",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "transfer-encoding is not chunked alone",
        "a coding that nobody here undoes, up to the end of the connection",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc",
    ),
    (
        "transfer-encoding is not chunked alone",
        "two codings",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    (
        "transfer-encoding is not chunked alone",
        "in HTTP/1.0, where the answer has no body",
        "HTTP/1.0 304 Not Modified\r\ntransfer-encoding: chunked\r\n\r\n",
    ),
    (
        "interim answer 101 is not expected",
        "nobody asked for another protocol",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    ),
    ("interim answer 100 is not expected", "more than sixteen of them", INTERIM),
    ("head exceeds 65536 bytes", "hyper takes six times as much", LARGE),
    (
        "upstream body is malformed",
        "space behind a chunk's size",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
    ),
    (
        "upstream body is malformed",
        "more digits than a size can have",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n00000000000000003\r\nabc\r\n0\r\n\r\n",
    ),
    (
        "upstream body is malformed",
        "a control byte in an extension",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3;\x01\r\nabc\r\n0\r\n\r\n",
    ),
    ("upstream body is malformed", "more trailers than ours keeps", TRAILERS),
];

/// Stand for examples that are too long to be written down.
const INTERIM: &str = "interim";
const LARGE: &str = "large";
const TRAILERS: &str = "trailers";

fn example(example: &str) -> String {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    match example {
        INTERIM => format!("{}{answer}", "HTTP/1.1 100 Continue\r\n\r\n".repeat(17)),
        LARGE => format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "a".repeat(64 * 1024)),
        TRAILERS => {
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n{}\r\n", "a: b\r\n".repeat(33))
        }
        other => other.to_owned(),
    }
}

/// Whether the table has what ours said; a status is any status.
fn is_listed(said: &str) -> bool {
    let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
    STRICTER.iter().any(|(listed, ..)| plain(listed) == plain(said))
}

#[tokio::test]
async fn each_row_of_the_table_is_refused_by_ours_and_taken_by_hyper() {
    for (reason, why, bytes) in STRICTER {
        let (ours, hypers) = both(&Said::whole(example(bytes).into_bytes())).await;
        let refused = match ours {
            Outcome::Refused(said) => said,
            Outcome::Seen(seen) => seen.broken.unwrap_or_default(),
        };
        assert_eq!(refused, reason, "{why}");
        assert!(matches!(&hypers, Outcome::Seen(seen) if seen.broken.is_none()), "{why}: {hypers:?}");
    }
}

/// How many cases came to what.
#[derive(Debug, Default)]
struct Tally {
    whole: u32,
    broken: u32,
    refused: u32,
    stricter: u32,
}

#[test]
fn what_ours_takes_hyper_takes_and_sees_the_same() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let config = ProptestConfig { cases: 2500, failure_persistence: None, ..ProptestConfig::default() };
    let tally = RefCell::new(Tally::default());
    let outcome = TestRunner::new(config).run(&said(), |said| {
        let (ours, hypers) = runtime.block_on(both(&said));
        let count = compare(ours, hypers)?;
        *count(&mut tally.borrow_mut()) += 1;
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    // Answers of every kind were compared, none of them rarely.
    let Tally { whole, broken, refused, stricter } = tally.into_inner();
    let kinds = [whole, broken, refused, stricter];
    assert!(kinds.iter().all(|&n| n > 60), "{kinds:?}");
}

/// What a case counts as, or why it may not be.
fn compare(ours: Outcome, hypers: Outcome) -> Result<fn(&mut Tally) -> &mut u32, TestCaseError> {
    match (ours, hypers) {
        (Outcome::Refused(_), Outcome::Refused(_)) => Ok(|tally| &mut tally.refused),
        (Outcome::Refused(reason), Outcome::Seen(seen)) => {
            // A head that hyper takes, and then finds no body for, is refused in the end as well.
            prop_assert!(is_listed(&reason) || seen.broken.is_some(), "{reason:?} is no reason: {seen:?}");
            Ok(|tally| &mut tally.stricter)
        }
        (Outcome::Seen(seen), Outcome::Refused(reason)) => {
            Err(TestCaseError::fail(format!("ours takes what hyper does not: {reason}: {seen:?}")))
        }
        (Outcome::Seen(ours), Outcome::Seen(hypers)) => {
            prop_assert_eq!((ours.status, &ours.fields), (hypers.status, &hypers.fields));
            match (&ours.broken, &hypers.broken) {
                (None, _) => {
                    prop_assert_eq!(ours, hypers);
                    Ok(|tally| &mut tally.whole)
                }
                (Some(reason), None) => {
                    prop_assert!(is_listed(reason), "{reason:?} is no reason: {hypers:?}");
                    Ok(|tally| &mut tally.stricter)
                }
                (Some(_), Some(_)) => {
                    let (one, other) = (&ours.data, &hypers.data);
                    prop_assert!(one.starts_with(other) || other.starts_with(one), "{one:?} {other:?}");
                    Ok(|tally| &mut tally.broken)
                }
            }
        }
    }
}
