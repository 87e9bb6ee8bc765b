//! Schemes of authentication that log in a connection and not a request (RFC 4559 section 6): Negotiate and NTLM. A connection
//! that one request may have logged in must serve no other, which may be another user's.

use http::HeaderValue;

const SCHEMES: [&[u8]; 2] = [b"negotiate", b"ntlm"];

/// Whether credentials are of such a scheme.
pub(super) fn is_one(credentials: &HeaderValue) -> bool {
    begins(credentials.as_bytes())
}

/// Whether one of the challenges in a field is of such a scheme.
pub(super) fn is_offered(challenges: &HeaderValue) -> bool {
    let (mut in_quotes, mut is_escaped) = (false, false);
    let mut parts = challenges.as_bytes().split(move |&byte| {
        in_quotes ^= byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && in_quotes && !is_escaped;
        byte == b',' && !in_quotes
    });
    parts.any(begins)
}

/// Whether the first word is such a scheme. Schemes have no case.
fn begins(text: &[u8]) -> bool {
    let word = text.trim_ascii_start().split(u8::is_ascii_whitespace).next().unwrap_or_default();
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_the_first_word_of_credentials_and_of_a_challenge() {
        for (value, one, offered) in [
            ("Negotiate YII=", true, true),
            ("ntlm", true, true),
            (" NTLM x", true, true),
            ("Bearer Negotiate", false, false),
            ("NegotiateX y", false, false),
            ("Basic realm=\"a\", Negotiate", false, true),
            ("Basic realm=\"a, NTLM\"", false, false),
            ("Basic realm=\"a\\\", NTLM\"", false, false),
            ("Basic realm=\"\\\"\", NTLM", false, true),
            ("Digest qop=\"auth\",ntlm x", false, true),
            ("", false, false),
        ] {
            let field = HeaderValue::from_str(value).unwrap();
            assert_eq!((is_one(&field), is_offered(&field)), (one, offered), "{value}");
        }
    }
}
