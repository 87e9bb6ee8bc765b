//! Field names as servers read them that make variables of names. CGI (RFC 3875 section 4.1.18), WSGI and Rack read `_` as `-`,
//! PHP also reads `.` so, and some servers every character that a variable cannot have.

use http::HeaderName;

/// Whether a name has another character than letters, digits and `-`.
pub(crate) fn is_odd(name: &HeaderName) -> bool {
    // Every byte is looked at, whatever those before it are: so the loop takes many at a time.
    name.as_str().bytes().fold(false, |odd, byte| odd | !(byte.is_ascii_alphanumeric() || byte == b'-'))
}

/// The name as servers read it; `None` where that is the name itself.
pub(crate) fn folded(name: &HeaderName) -> Option<HeaderName> {
    if !is_odd(name) {
        return None;
    }
    let fold = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    let folded: Vec<u8> = name.as_str().bytes().map(fold).collect();
    HeaderName::from_bytes(&folded).ok()
}

/// Whether servers read a name, which is in lower case, as `other`, whose only other characters are `-`.
pub(crate) fn reads_as(name: &str, other: &str) -> bool {
    let same = |(byte, other): (u8, u8)| byte == other || other == b'-' && !byte.is_ascii_alphanumeric();
    name.len() == other.len() && name.bytes().zip(other.bytes()).all(same)
}

/// Whether servers read a name so that it begins with `prefix`, whose only other characters are `-`.
pub(crate) fn begins_as(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| reads_as(start, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_as_another_by_every_character_that_no_variable_has() {
        for name in ["keep-alive", "keep_alive", "keep.alive", "keep!alive", "keep|alive"] {
            assert!(reads_as(name, "keep-alive") && begins_as(name, "keep-"), "{name}");
        }
        for name in ["keepxalive", "keep0alive", "keep-aliv", "keep-alive-", "-keep-alive", ""] {
            assert!(!reads_as(name, "keep-alive"), "{name}");
        }
        assert!(!begins_as("keep", "keep-") && !begins_as("keeping", "keep-"));
    }
}
