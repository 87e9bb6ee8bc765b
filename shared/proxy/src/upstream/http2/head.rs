//! A request's head as HTTP/2 wants it: its target in pseudo-fields, what this hop adds as fields, and nothing of a
//! connection.

use http::header::{CONTENT_LENGTH, HOST, TE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Uri, Version};

use crate::fields::{remove_where, strip_hop_by_hop};
use crate::upstream::head::Head;

/// The head of a request whose body has this length, if that is known; `None` where Host cannot be an authority.
pub(super) fn request(head: Head<'_>, length: Option<u64>) -> Option<Request<()>> {
    let mut fields = head.fields.clone();
    remove_where(&mut fields, head.withheld);
    let host = fields.remove(HOST)?;
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTP);
    uri.authority = Some(Authority::try_from(host.as_bytes()).ok()?);
    uri.path_and_query = Some(with_path(head.target)?);
    let declares = fields.remove(CONTENT_LENGTH).is_some();
    for (name, value) in head.lines.fields() {
        fields.append(name, value);
    }
    // What is said of the next connection holds for HTTP/1.1; of that, trailers alone have a word here.
    if strip_hop_by_hop(&mut fields) {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    if let Some(length) = length.filter(|length| *length > 0 || declares) {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let mut request = Request::new(());
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = Uri::from_parts(uri).ok()?;
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = fields;
    Some(request)
}

/// A query alone, as in `http://host?a`, has the path `/`.
fn with_path(target: &PathAndQuery) -> Option<PathAndQuery> {
    if target.as_str().starts_with(['/', '*']) {
        return Some(target.clone());
    }
    // It writes itself with one.
    PathAndQuery::try_from(target.to_string()).ok()
}

#[cfg(test)]
mod tests {
    use http::header::TRANSFER_ENCODING;
    use http::{HeaderMap, Method};

    use super::*;
    use crate::lines::FieldLines;

    #[test]
    fn a_head_has_pseudo_fields_what_is_ours_and_nothing_of_a_connection() {
        let fields: HeaderMap = [
            (HOST, "a.example:80"),
            (TRANSFER_ENCODING, "chunked"),
            (CONTENT_LENGTH, "3"),
            ("x-kept".parse().unwrap(), "1"),
            ("inner".parse().unwrap(), "1"),
        ]
        .map(|(name, value)| (name, HeaderValue::from_static(value)))
        .into_iter()
        .collect();
        let mut lines = FieldLines::default();
        crate::fields::take_trailers(&mut lines);
        lines.push(&"x-ours".parse().unwrap(), &HeaderValue::from_static("2: b"));
        let (method, target) = (Method::POST, PathAndQuery::from_static("?q"));
        let head = Head {
            method: &method,
            target: &target,
            fields: &fields,
            withheld: |name| name == "inner",
            lines: &lines,
            upgrade: false,
        };
        let request = request(head, None).unwrap();
        assert_eq!(request.uri().to_string(), "http://a.example:80/?q");
        let mut seen: Vec<_> = request.headers().iter().map(|(name, _)| name.as_str()).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["te", "x-kept", "x-ours"]);
        assert_eq!(
            (&request.headers()["te"], &request.headers()["x-ours"]),
            (&"trailers".parse().unwrap(), &"2: b".parse().unwrap())
        );
        let length = |length| super::request(head, length).unwrap().headers().get(CONTENT_LENGTH).cloned();
        assert_eq!((length(Some(7)), length(Some(0))), (Some(7.into()), Some(0.into())));
    }
}
