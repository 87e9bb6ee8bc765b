//! The chunked coding as bytes: what is taken, and what is refused.

use super::*;

/// Everything that a body gave, or that it is malformed; `None` where it waits for more.
type Outcome = Result<Option<(Vec<u8>, Vec<(String, String)>)>, Malformed>;

/// Reads pieces in turn. What is left behind the end stays unread.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Outcome {
    let (mut decoder, mut buffer, mut data) = (Decoder::default(), BytesMut::new(), Vec::new());
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.step(&mut buffer)? {
                Step::Data(bytes) => data.extend_from_slice(&bytes),
                Step::More => break,
                Step::End(trailers) => {
                    let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
                    let fields = trailers.iter().flatten();
                    let fields = fields.map(|(name, value)| (name.to_string(), text(value))).collect();
                    return Ok(Some((data, fields)));
                }
            }
        }
    }
    Ok(None)
}

fn body(data: &[u8]) -> Outcome {
    Ok(Some((data.to_vec(), Vec::new())))
}

#[test]
fn sizes_extensions_and_ends_are_read_as_written() {
    let table: [(&str, &[u8], Outcome); 12] = [
        ("empty", b"0\r\n\r\n", body(b"")),
        ("two chunks", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", body(b"abcde")),
        (
            "upper and lower case",
            b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n",
            body(b"01234567890123456789"),
        ),
        ("leading zeros", b"0000000000000003\r\nabc\r\n000\r\n\r\n", body(b"abc")),
        ("extension", b"3;name=value\r\nabc\r\n0;last\r\n\r\n", body(b"abc")),
        ("quoted extension", b"3;a=\"\xe9;\"\r\nabc\r\n0\r\n\r\n", body(b"abc")),
        ("space before an extension", b"3 \t;a\r\nabc\r\n0\r\n\r\n", body(b"abc")),
        ("line ends in the data", b"4\r\n\r\n\r\n\r\n0\r\n\r\n", body(b"\r\n\r\n")),
        ("bytes behind the end", b"0\r\n\r\nHTTP/1.1 200 OK", body(b"")),
        ("nothing yet", b"", Ok(None)),
        ("no last chunk yet", b"3\r\nabc\r\n", Ok(None)),
        ("no last line yet", b"0\r\n", Ok(None)),
    ];
    for (what, bytes, outcome) in table {
        assert_eq!(read([bytes]), outcome, "{what}");
    }
}

#[test]
fn what_two_readers_could_read_differently_is_refused() {
    let table: [(&str, &[u8]); 19] = [
        ("no size", b"\r\nabc"),
        ("only an extension", b";a\r\nabc"),
        ("not hexadecimal", b"g\r\nabc"),
        ("a sign", b"+3\r\nabc"),
        ("a minus", b"-3\r\nabc"),
        ("0x", b"0x3\r\nabc"),
        ("an underscore", b"1_0\r\nabc"),
        ("space before the size", b" 3\r\nabc"),
        ("space behind the size", b"3 \r\nabc"),
        ("two sizes", b"3 3\r\nabc"),
        ("17 digits", b"00000000000000003\r\nabc"),
        ("a size that overflows", b"10000000000000000\r\nabc"),
        ("a size line with a bare LF", b"3\nabc\r\n0\r\n\r\n"),
        ("a bare CR in an extension", b"3;a\rb\r\nabc"),
        ("a control byte in an extension", b"3;a\x01\r\nabc"),
        ("no CR LF behind the data", b"3\r\nabcd\r\n0\r\n\r\n"),
        ("a bare LF behind the data", b"3\r\nabc\n0\r\n\r\n"),
        ("a bare CR behind the data", b"3\r\nabc\r0\r\n\r\n"),
        ("a bare LF at the end", b"0\r\n\n"),
    ];
    for (what, bytes) in table {
        assert_eq!(read([bytes]), Err(Malformed), "{what}");
    }
}

#[test]
fn a_wrong_byte_behind_the_data_is_refused_before_the_next_one_comes() {
    assert_eq!(read([b"3\r\nabcx".as_slice()]), Err(Malformed));
}

#[test]
fn trailers_are_read_and_those_that_frame_or_authenticate_are_dropped() {
    let bytes =
        b"0\r\ngrpc-status: 0\r\ncontent-length: 5\r\nX-Sum:  a \r\nset-cookie: c\r\nauthorization: d\r\n\
        keep-alive: 5\r\nproxy-connection: close\r\n\r\n";
    let trailers = vec![("grpc-status".to_owned(), "0".to_owned()), ("x-sum".to_owned(), "a".to_owned())];
    assert_eq!(read([bytes.as_slice()]), Ok(Some((Vec::new(), trailers))));
    for lines in
        ["a\r\n\r\n", "a : b\r\n\r\n", "a: b\r\n c\r\n\r\n", "a: b\n\r\n", "a: b\r\n\n", "a: b\0\r\n\r\n"]
    {
        assert_eq!(read([format!("0\r\n{lines}").as_bytes()]), Err(Malformed), "{lines:?}");
    }
}

#[test]
fn lines_extensions_and_trailers_are_bounded_however_they_come() {
    let extension = |size: usize| format!("3;{}\r\nabc\r\n", "x".repeat(size)).into_bytes();
    let endless = extension(MAX_LINE);
    assert_eq!(read([endless.as_slice()]), Err(Malformed));
    assert_eq!(read([&endless[..MAX_LINE]]), Err(Malformed));
    assert_eq!(read(vec![extension(1000).as_slice(); 16]), Ok(None));
    assert_eq!(read(vec![extension(1000).as_slice(); 17]), Err(Malformed));
    let trailer = format!("0\r\na: {}\r\n\r\n", "x".repeat(MAX_TRAILERS));
    assert_eq!(read([trailer.as_bytes()]), Err(Malformed));
    assert_eq!(read([&trailer.as_bytes()[..MAX_TRAILERS + 3]]), Err(Malformed));
    let fields = |n: usize| format!("0\r\n{}\r\n", "a: b\r\n".repeat(n));
    assert!(read([fields(MAX_FIELDS).as_bytes()]).is_ok());
    assert_eq!(read([fields(MAX_FIELDS + 1).as_bytes()]), Err(Malformed));
}
