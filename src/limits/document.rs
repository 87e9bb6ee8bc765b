//! An OpenAPI document as text, with the places of its operations: words are added there, and everything else stays as it
//! was written. It knows no plan and no route.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, bail, ensure};
use cofferdam_fleet::Value;
use http::Method;
use serde_saphyr::{DuplicateKeyPolicy, Location, MergeKeyPolicy, Spanned};

const LIMIT: &str = "x-ratelimit-limit";
const BURST: &str = "x-ratelimit-burst";

/// The methods of operations that a router serves.
const METHODS: [(&str, Method); 7] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
];

/// A document, read.
pub(super) struct Document<'t> {
    text: &'t str,
    root: Spanned<Value>,
}

/// One operation.
pub(super) struct Operation<'d> {
    pub(super) method: Method,
    /// Below the document's first server.
    pub(super) path: String,
    place: &'d Spanned<Value>,
}

/// What is said at an operation.
pub(super) struct Limits {
    pub(super) limit: String,
    pub(super) burst: u64,
}

impl<'t> Document<'t> {
    pub(super) fn read(text: &'t str) -> anyhow::Result<Self> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            merge_keys: MergeKeyPolicy::AsOrdinary,
            with_snippet: false,
        };
        let root: Spanned<Value> = serde_saphyr::from_str_with_options(text, options)?;
        Ok(Self { text, root })
    }

    /// The text, with what `limits` says at each operation.
    pub(super) fn with_limits(
        &self,
        limits: impl Fn(&Operation<'_>) -> Option<Limits>,
    ) -> anyhow::Result<String> {
        let mut edits = BTreeMap::new();
        for operation in self.operations()? {
            let said = limits(&operation);
            let Operation { method, path, place } = &operation;
            self.edit(place, said, &mut edits).with_context(|| format!("{method} {path}"))?;
        }
        let mut text = self.text.to_owned();
        for (start, (end, new)) in edits.into_iter().rev() {
            text.replace_range(start..end, &new);
        }
        Ok(text)
    }

    fn operations(&self) -> anyhow::Result<Vec<Operation<'_>>> {
        let paths = get(&self.root.value, "paths").context("the document has no `paths`")?;
        let base = self.base();
        let mut operations = Vec::new();
        for (template, item) in entries(&paths.value).iter().filter(|(key, _)| key.value.starts_with('/')) {
            for (name, method) in &METHODS {
                let Some(place) = get(&item.value, name) else { continue };
                let path = format!("{base}{}", template.value);
                operations.push(Operation { method: method.clone(), path, place });
            }
        }
        Ok(operations)
    }

    /// The path of the first server, without the slash at its end.
    fn base(&self) -> &str {
        let server = match get(&self.root.value, "servers").map(|servers| &servers.value) {
            Some(Value::List(servers)) => servers.first().and_then(|server| get(&server.value, "url")),
            _ => get(&self.root.value, "basePath"),
        };
        let Some(Spanned { value: Value::Text(url), .. }) = server else { return "" };
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("", |at| &rest[at..]),
            None => url.as_str(),
        };
        path.trim_end_matches('/')
    }

    fn edit(
        &self,
        place: &Spanned<Value>,
        said: Option<Limits>,
        edits: &mut BTreeMap<usize, (usize, String)>,
    ) -> anyhow::Result<()> {
        let Value::Map(entries) = &place.value else { bail!("the operation is no map") };
        ensure!(
            place.referenced == place.defined,
            "the operation is an alias, which has no limits of its own"
        );
        let (limit, burst) = said.map_or((None, None), |Limits { limit, burst }| {
            (Some(format!("\"{limit}\"")), Some(burst.to_string()))
        });
        let mut added = Vec::new();
        for (name, value) in [(LIMIT, limit), (BURST, burst)] {
            match (entries.iter().find(|(key, _)| key.value == name), value) {
                (Some((_, old)), value) => {
                    let Range { start, end } = self.range(&old.defined)?;
                    edits.insert(start, (end, value.unwrap_or_else(|| "null".to_owned())));
                }
                (None, Some(value)) => added.push((name, value)),
                (None, None) => {}
            }
        }
        if !added.is_empty() {
            let (at, text) = self.insertion(place, entries.first().map(|(key, _)| key), &added)?;
            edits.insert(at, (at, text));
        }
        Ok(())
    }

    /// Where `added` goes, before the first key, and how it is written there.
    fn insertion(
        &self,
        place: &Spanned<Value>,
        first: Option<&Spanned<String>>,
        added: &[(&str, String)],
    ) -> anyhow::Result<(usize, String)> {
        let written = added.iter().map(|(name, value)| format!("\"{name}\": {value}"));
        let Some(first) = first else {
            return Ok((self.range(&place.defined)?.start + 1, written.collect::<Vec<_>>().join(", ")));
        };
        let at = self.range(&first.defined)?.start;
        let before = &self.text[..at];
        if let Some(rest) = before.trim_end().strip_suffix('{') {
            // In braces: what stands between the brace and the key stands behind each of ours.
            let space = &before[rest.len() + 1..];
            let space = if space.is_empty() { " " } else { space };
            return Ok((at, written.map(|line| format!("{line},{space}")).collect()));
        }
        let indent = &before[before.rfind('\n').map_or(0, |line_break| line_break + 1)..];
        ensure!(indent.bytes().all(|byte| byte == b' '), "the operation does not begin on a line of its own");
        let line_break = if self.text.contains("\r\n") { "\r\n" } else { "\n" };
        let written = added.iter().map(|(name, value)| format!("{name}: {value}{line_break}{indent}"));
        Ok((at, written.collect()))
    }

    fn range(&self, location: &Location) -> anyhow::Result<Range<usize>> {
        let span = location.span();
        let offset = |offset: Option<u64>| offset.and_then(|offset| usize::try_from(offset).ok());
        let start = offset(span.byte_offset()).context("the document's places are not known")?;
        let end = start + offset(span.byte_len()).unwrap_or(0);
        ensure!(self.text.get(start..end).is_some(), "the document's places are not known");
        Ok(start..end)
    }
}

fn entries(value: &Value) -> &[(Spanned<String>, Spanned<Value>)] {
    match value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

fn get<'v>(value: &'v Value, name: &str) -> Option<&'v Spanned<Value>> {
    entries(value).iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document with the path of each operation as its limit.
    fn limited(text: &str) -> anyhow::Result<String> {
        let say = |operation: &Operation<'_>| {
            let limit = format!("{} {}", operation.method, operation.path);
            (operation.method != Method::HEAD).then_some(Limits { limit, burst: 7 })
        };
        Document::read(text)?.with_limits(say)
    }

    #[test]
    fn words_are_added_to_yaml_and_everything_else_stays() {
        let text = "# A comment\nopenapi: 3.1.0\nservers: [{ url: 'https://api.example/base/' }]\npaths:\n  \
                    /v1/things/{id}:\n    parameters: []\n    get:\n      # Another\n      summary: One\n    \
                    post: { summary: Two }\n    put: {}\n    head:\n      summary: Three\n";
        let limited = limited(text).unwrap();
        let get = "    get:\n      # Another\n      x-ratelimit-limit: \"GET /base/v1/things/{id}\"\n      \
                   x-ratelimit-burst: 7\n      summary: One\n";
        assert!(limited.contains(get), "{limited}");
        let post = "post: { \"x-ratelimit-limit\": \"POST /base/v1/things/{id}\", \"x-ratelimit-burst\": 7, summary: Two }";
        assert!(limited.contains(post), "{limited}");
        assert!(limited.contains(
            "put: {\"x-ratelimit-limit\": \"PUT /base/v1/things/{id}\", \"x-ratelimit-burst\": 7}"
        ));
        assert!(limited.contains("    head:\n      summary: Three\n"), "what has no limit gets no words");
        assert!(limited.starts_with("# A comment\n"));
    }

    #[test]
    fn words_are_added_to_json_and_it_stays_json() {
        let text = "{\n  \"swagger\": \"2.0\",\n  \"basePath\": \"/b\",\n  \"paths\": {\n    \"/x\": {\n      \
                    \"get\": {\n        \"operationId\": \"x\"\n      },\n      \"delete\": {}\n    }\n  }\n}\n";
        let limited = limited(text).unwrap();
        let read: serde_json::Value = serde_json::from_str(&limited).unwrap();
        let operation = |method: &str| read["paths"]["/x"][method].clone();
        assert_eq!(
            operation("get"),
            serde_json::json!({"operationId": "x", "x-ratelimit-limit": "GET /b/x", "x-ratelimit-burst": 7})
        );
        assert_eq!(operation("delete")["x-ratelimit-limit"], "DELETE /b/x");
        assert!(limited.contains("\"x-ratelimit-burst\": 7,\n        \"operationId\""), "{limited}");
    }

    #[test]
    fn words_that_are_there_are_replaced() {
        let text = "paths:\n  /x:\n    get:\n      x-ratelimit-burst: 1234\n      summary: a\n    head:\n      \
                    x-ratelimit-limit: 5/s\n";
        let once = limited(text).unwrap();
        let expected = "paths:\n  /x:\n    get:\n      x-ratelimit-limit: \"GET /x\"\n      x-ratelimit-burst: 7\n      \
                        summary: a\n    head:\n      x-ratelimit-limit: null\n";
        assert_eq!(once, expected);
        assert_eq!(limited(&once).unwrap(), once, "a second time changes nothing");
    }

    #[test]
    fn what_is_no_document_is_told() {
        for (text, why) in [
            ("openapi: 3.1.0\n", "the document has no `paths`"),
            ("paths:\n  /x:\n    get: text\n", "GET /x"),
            ("paths:\n  /x:\n    get: &a { summary: a }\n    put: *a\n", "PUT /x"),
            ("paths: {", ""),
        ] {
            let error = limited(text).unwrap_err();
            assert!(format!("{error:#}").contains(why), "{error:#}");
        }
    }
}
