//! Faults of a request that its connection sees, and that a reader behind this hop could read in another way: codings
//! other than chunked, targets with a fragment, fields that HTTP/1.1 cannot carry.

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING};

/// A fault of a request's framing. It travels as an extension of the request, and refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A transfer coding stands beside one `chunked`. It would get lost here, and its bytes would go on.
    #[error("transfer-encoding is not chunked alone")]
    Coding,
    /// The target has a fragment, which is for the client alone.
    #[error("request target has a fragment")]
    Fragment,
    /// A field's name is not a token.
    #[error("name of a field is not a token")]
    Name,
    /// A value begins or ends with white space.
    #[error("value of a field begins or ends with white space")]
    Value,
    /// The length is not one number.
    #[error("content-length is not one number")]
    Length,
}

/// Checks the transfer codings of a request of HTTP/1.1.
pub(crate) fn check_codings(fields: &HeaderMap) -> Result<(), FramingError> {
    // Most requests have none: this costs one look.
    if is_chunked_alone(fields).unwrap_or(true) { Ok(()) } else { Err(FramingError::Coding) }
}

/// Whether a message's one transfer coding is chunked; nothing where it has no coding.
pub(crate) fn is_chunked_alone(fields: &HeaderMap) -> Option<bool> {
    let mut values = fields.get_all(TRANSFER_ENCODING).iter();
    let first = values.next().map(HeaderValue::as_bytes)?;
    Some(first.trim_ascii().eq_ignore_ascii_case(b"chunked") && values.next().is_none())
}

/// Checks what HTTP/2 demands of a request's fields and its library does not look for.
pub(crate) fn check_http2(fields: &HeaderMap) -> Result<(), FramingError> {
    for (name, value) in fields {
        if !is_token(name) {
            return Err(FramingError::Name);
        }
        // White space around a value makes a request malformed (RFC 9113 section 8.2.1).
        if matches!(value.as_bytes(), [b' ' | b'\t', ..] | [.., b' ' | b'\t']) {
            return Err(FramingError::Value);
        }
        if *name == CONTENT_LENGTH && content_length(value).is_none() {
            return Err(FramingError::Length);
        }
    }
    Ok(())
}

/// Whether a name is a token. Of the bytes that are none, the library lets the quotation mark alone pass.
fn is_token(name: &HeaderName) -> bool {
    !name.as_str().as_bytes().contains(&b'"')
}

/// The number in a Content-Length. No body is longer than a signed number holds; readers differ on how they fail above it.
pub(crate) fn content_length(value: &HeaderValue) -> Option<u64> {
    let text = value.to_str().ok().filter(|text| !text.is_empty())?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|&length| length <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(name: &str, values: &[&'static str]) -> HeaderMap {
        let name = HeaderName::from_lowercase(name.as_bytes()).unwrap();
        values.iter().map(|value| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn chunked_is_the_one_coding_and_is_said_once() {
        for values in [&[][..], &["chunked"], &["Chunked"]] {
            assert_eq!(check_codings(&map("transfer-encoding", values)), Ok(()), "{values:?}");
        }
        for values in [
            &["x, chunked"][..],
            &["chunked, chunked"],
            &["gzip", "chunked"],
            &["chunked", "chunked"],
            &[", chunked"],
            &["chunked;a=b"],
            &[""],
        ] {
            assert_eq!(
                check_codings(&map("transfer-encoding", values)),
                Err(FramingError::Coding),
                "{values:?}"
            );
        }
    }

    #[test]
    fn fields_of_http2_are_those_that_http1_could_carry() {
        for (name, value, checked) in [
            ("x-a", "b c", Ok(())),
            ("x\"a", "b", Err(FramingError::Name)),
            ("x-a", " b", Err(FramingError::Value)),
            ("x-a", "b\t", Err(FramingError::Value)),
            ("content-length", "", Err(FramingError::Length)),
            ("content-length", "+3", Err(FramingError::Length)),
            ("content-length", "9223372036854775808", Err(FramingError::Length)),
            ("content-length", "3", Ok(())),
        ] {
            assert_eq!(check_http2(&map(name, &[value])), checked, "{name}: {value}");
        }
    }
}
