//! Heads as bytes: what is taken, what is refused and why, and what a request's head looks like.

use http::uri::PathAndQuery;

use super::*;

const LIMITS: HeadLimits = HeadLimits::OUTSIDE;
use crate::lines::FieldLines;

fn read_whole(bytes: &[u8], method: Method) -> Result<Option<AnswerHead>, AnswerError> {
    read(&mut BytesMut::from(bytes), &method, LIMITS)
}

fn get(bytes: &[u8]) -> Result<AnswerHead, AnswerError> {
    read_whole(bytes, Method::GET).map(|head| head.expect("the head is whole"))
}

/// An answer with these lines.
fn answer(lines: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n{lines}\r\n").into_bytes()
}

fn parser(error: httparse::Error) -> AnswerError {
    AnswerError::Head(error)
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    use httparse::Error::{HeaderName, HeaderValue, NewLine, Status, TooManyHeaders, Version};
    let table: [(&str, Vec<u8>, AnswerError); 27] = [
        ("folded", answer("a: b\r\n c\r\n"), parser(HeaderName)),
        ("folded by a tab", answer("a: b\r\n\tc\r\n"), parser(HeaderName)),
        ("space before the colon", answer("content-length : 3\r\n"), parser(HeaderName)),
        ("space in a name", answer("a b: c\r\n"), parser(HeaderName)),
        ("no colon", answer("abc\r\n"), parser(HeaderName)),
        ("empty name", answer(": a\r\n"), parser(HeaderName)),
        ("bare CR", answer("a: b\rc: d\r\n"), parser(HeaderValue)),
        ("NUL in a value", answer("a: b\0c\r\n"), parser(HeaderValue)),
        ("NUL in a name", answer("a\0b: c\r\n"), parser(HeaderName)),
        ("an empty line first", [b"\r\n", answer("").as_slice()].concat(), parser(NewLine)),
        ("not HTTP", b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), parser(Version)),
        ("HTTP/2", b"HTTP/2.0 200 OK\r\n\r\n".to_vec(), parser(Version)),
        ("a status of letters", b"HTTP/1.1 2x0 OK\r\n\r\n".to_vec(), parser(Status)),
        ("a status of four digits", b"HTTP/1.1 2000 OK\r\n\r\n".to_vec(), parser(Status)),
        ("a status too small", b"HTTP/1.1 099 Low\r\n\r\n".to_vec(), AnswerError::Status(99)),
        ("a status too large", b"HTTP/1.1 600 High\r\n\r\n".to_vec(), AnswerError::Status(600)),
        ("101 fields", answer(&"a: b\r\n".repeat(101)), parser(TooManyHeaders)),
        ("differing lengths", answer("content-length: 3\r\ncontent-length: 4\r\n"), AnswerError::Length),
        ("repeated length", answer("content-length: 3\r\ncontent-length: 3\r\n"), AnswerError::Length),
        ("listed length", answer("content-length: 3, 3\r\n"), AnswerError::Length),
        ("signed length", answer("content-length: +3\r\n"), AnswerError::Length),
        ("empty length", answer("content-length:\r\n"), AnswerError::Length),
        ("enormous length", answer("content-length: 9223372036854775808\r\n"), AnswerError::Length),
        ("another coding", answer("transfer-encoding: gzip\r\n"), AnswerError::Encoding),
        ("a coding before chunked", answer("transfer-encoding: gzip, chunked\r\n"), AnswerError::Encoding),
        (
            "chunked twice",
            answer("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"),
            AnswerError::Encoding,
        ),
        (
            "chunked in HTTP/1.0",
            b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
            AnswerError::Encoding,
        ),
    ];
    for (what, bytes, error) in table {
        assert_eq!(get(&bytes).err(), Some(error), "{what}");
    }
}

#[test]
fn the_end_of_the_body_and_the_life_of_the_connection_follow_the_head() {
    use BodyKind::{Chunked, Close, Length};
    let table: [(&str, &[u8], Method, BodyKind, bool); 14] = [
        ("length", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", Method::GET, Length(3), true),
        (
            "padded length",
            b"HTTP/1.1 200 OK\r\ncontent-length: \t 007 \r\n\r\n",
            Method::GET,
            Length(7),
            true,
        ),
        ("no reason", b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", Method::GET, Length(0), true),
        ("lines that end with LF", b"HTTP/1.1 200 OK\ncontent-length: 3\n\n", Method::GET, Length(3), true),
        ("chunked", b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", Method::GET, Chunked, true),
        (
            "both",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n",
            Method::GET,
            Chunked,
            false,
        ),
        ("neither", b"HTTP/1.1 200 OK\r\n\r\n", Method::GET, Close, false),
        (
            "close",
            b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\ncontent-length: 3\r\n\r\n",
            Method::GET,
            Length(3),
            false,
        ),
        (
            "keep-alive beside close",
            b"HTTP/1.1 200 OK\r\nconnection: keep-alive\r\nconnection: close\r\ncontent-length: 3\r\n\r\n",
            Method::GET,
            Length(3),
            false,
        ),
        (
            "HTTP/1.0",
            b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 3\r\n\r\n",
            Method::GET,
            Length(3),
            false,
        ),
        ("HEAD", b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n", Method::HEAD, Length(0), true),
        ("HEAD without a length", b"HTTP/1.1 200 OK\r\n\r\n", Method::HEAD, Length(0), true),
        ("204", b"HTTP/1.1 204 No Content\r\n\r\n", Method::GET, Length(0), true),
        ("304", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 3\r\n\r\n", Method::GET, Length(0), true),
    ];
    for (what, bytes, method, kind, keep_alive) in table {
        let head = read_whole(bytes, method).unwrap().unwrap();
        assert_eq!((head.kind, head.keep_alive), (kind, keep_alive), "{what}");
    }
}

#[test]
fn a_length_beside_chunked_is_dropped() {
    let head = get(&answer("content-length: 3\r\ntransfer-encoding: chunked\r\n")).unwrap();
    assert!(!head.parts.headers.contains_key(CONTENT_LENGTH));
}

#[test]
fn fields_keep_their_bytes_and_their_order() {
    let fields = answer("set-cookie: a\r\nX-Odd!#: \u{ff}\r\nset-cookie: b\r\nempty:\r\nblank: \t \r\n");
    let head = get(&fields).unwrap();
    let headers = &head.parts.headers;
    assert_eq!(headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(headers["x-odd!#"].as_bytes(), "\u{ff}".as_bytes());
    assert_eq!((headers["empty"].as_bytes(), headers["blank"].as_bytes()), (&b""[..], &b""[..]));
}

#[test]
fn a_head_waits_for_its_last_byte_and_takes_none_of_the_body() {
    let whole = answer("content-length: 3\r\na: b\r\n");
    for cut in 0..whole.len() {
        assert!(read_whole(&whole[..cut], Method::GET).unwrap().is_none(), "{cut}");
    }
    let mut buffer = BytesMut::from([whole.as_slice(), b"abc"].concat().as_slice());
    read(&mut buffer, &Method::GET, LIMITS).unwrap().unwrap();
    assert_eq!(buffer, &b"abc"[..]);
}

#[test]
fn a_head_is_bounded_however_it_comes() {
    let endless = [b"HTTP/1.1 200 OK\r\na: ".as_slice(), &vec![b'x'; LIMITS.bytes]].concat();
    assert!(read_whole(&endless[..LIMITS.bytes - 1], Method::GET).unwrap().is_none());
    let refused = Some(AnswerError::TooLarge(LIMITS.bytes));
    assert_eq!(read_whole(&endless[..LIMITS.bytes], Method::GET).err(), refused);
    let whole = [endless.as_slice(), b"\r\n\r\n"].concat();
    assert_eq!(read_whole(&whole, Method::GET).err(), refused);
    let most = answer(&"a: b\r\n".repeat(LIMITS.fields));
    assert_eq!(get(&most).unwrap().parts.headers.len(), LIMITS.fields);
}

#[test]
fn a_request_is_framed_by_what_will_be_sent_not_by_its_fields() {
    let table = [
        (&[][..], Some(0), "POST /a?b HTTP/1.1\r\nhost: c\r\n\r\n"),
        (&[("content-length", "9")], Some(0), "POST /a?b HTTP/1.1\r\nhost: c\r\ncontent-length: 0\r\n\r\n"),
        (&[("content-length", "9")], Some(7), "POST /a?b HTTP/1.1\r\nhost: c\r\ncontent-length: 7\r\n\r\n"),
        (&[], Some(7), "POST /a?b HTTP/1.1\r\nhost: c\r\ncontent-length: 7\r\n\r\n"),
        (
            &[("content-length", "9"), ("transfer-encoding", "gzip")],
            None,
            "POST /a?b HTTP/1.1\r\nhost: c\r\ntransfer-encoding: chunked\r\n\r\n",
        ),
    ];
    for (framing, length, written) in table {
        let mut fields = HeaderMap::new();
        for &(name, value) in [("host", "c"), ("inner", "1")].iter().chain(framing) {
            fields.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let target = PathAndQuery::from_static("/a?b");
        let mut out = BytesMut::new();
        write(
            Head {
                method: &Method::POST,
                target: &target,
                fields: &fields,
                withheld: |name| name == "inner",
                lines: &FieldLines::default(),
                upgrade: false,
            },
            length,
            &mut out,
        );
        assert_eq!(String::from_utf8_lossy(&out), written);
    }
}

#[test]
fn a_head_is_parsed_again_only_once_its_end_may_have_come() {
    for whole in ["HTTP/1.1 200 OK\r\na: b\r\n\r\n", "HTTP/1.1 200 OK\na: b\n\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let bytes = whole.as_bytes();
        for seen in 1..bytes.len() {
            assert!(may_be_whole(bytes, seen, LIMITS), "{whole:?} from {seen}");
            let wasted = (seen + 1..bytes.len()).any(|now| may_be_whole(&bytes[..now], seen, LIMITS));
            assert!(!wasted, "{whole:?} from {seen}");
        }
    }
    assert!(may_be_whole(b"SSH", 0, LIMITS), "what is no answer at all is refused at once");
}

#[test]
fn a_target_goes_out_byte_for_byte_and_a_query_alone_gets_its_path() {
    for (target, line) in [
        ("//a/../%2e%2e/%2F?x=|", "GET //a/../%2e%2e/%2F?x=| HTTP/1.1\r\n\r\n"),
        ("?a=b", "GET /?a=b HTTP/1.1\r\n\r\n"),
        ("*", "GET * HTTP/1.1\r\n\r\n"),
    ] {
        let (target, fields, mut out) =
            (PathAndQuery::from_static(target), HeaderMap::new(), BytesMut::new());
        write(
            Head {
                method: &Method::GET,
                target: &target,
                fields: &fields,
                withheld: |name| name == "inner",
                lines: &FieldLines::default(),
                upgrade: false,
            },
            Some(0),
            &mut out,
        );
        assert_eq!(String::from_utf8_lossy(&out), line);
    }
}
