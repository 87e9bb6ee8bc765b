//! `tenant.from`: the doors by which a tenant comes in. What a request holds is read by the router, not here.

use std::collections::HashSet;
use std::fmt;

use cofferdam_model::headers;
use http::{HeaderName, header};

use crate::node::{Fields, Node};
use crate::scalars::{Scalar, scalar};
use crate::{Trusted, patterns};

/// What a pattern has in the tenant's place.
const TENANT: &str = "{tenant}";

/// One place where a request may say whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Which place.
    pub kind: SourceKind,
    /// Where this source is present beside an earlier one that decides and names another tenant, the request is
    /// refused. Never so of the first source, which has none before it.
    pub must_agree: bool,
}

/// The places where a request may say whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SourceKind {
    /// A header's only value, believed from these addresses alone.
    Header {
        /// The header.
        name: HeaderName,
        /// The peers that may set it; loopback by default.
        trusted: Trusted,
    },
    /// The first label of the host.
    Host(HostPattern),
    /// The segment of the path that follows a prefix.
    Path(PathPattern),
}

/// `{tenant}.app.example`: one label in front of a suffix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// What follows the tenant, with its leading dot, in lower case: `.app.example`.
    pub suffix: Box<str>,
    /// Labels in lower case that are never a tenant, such as `www`.
    pub reserved: HashSet<Box<str>>,
}

/// `/t/{tenant}`: one segment behind a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    /// What precedes the tenant, with both its slashes: `/t/`.
    pub prefix: Box<str>,
}

scalar! {
    bool, read_bool, "true or false";
}

impl Default for Source {
    fn default() -> Self {
        let name = HeaderName::from_static("x-tenant-id");
        Self { kind: SourceKind::Header { name, trusted: Trusted::loopback() }, must_agree: false }
    }
}

impl Source {
    /// Reads the list of sources. Each is a map with one key that says which kind it is.
    pub(crate) fn read_all(node: &Node<'_>) -> Vec<Self> {
        let items = node.filled_list("a list of sources such as header: { name: x-tenant-id }");
        let mut sources: Vec<Self> = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let Some(source) = Self::read(item, at == 0) else { continue };
            let place = source.kind.to_string();
            if sources.iter().any(|earlier| earlier.kind.to_string() == place) {
                item.mark.refuse(format_args!("{place} is a source already"));
            }
            sources.push(source);
        }
        sources
    }

    fn read(node: &Node<'_>, is_first: bool) -> Option<Self> {
        let kinds = node.fields(&["header", "host", "path"]);
        let Some((key, value)) = kinds.only() else {
            node.mark.refuse("a source is exactly one of header, host and path");
            return None;
        };
        let (kind, fields) = match key {
            "header" => {
                let fields = value.fields(&["name", "trusted", "must_agree"]);
                (read_header(&fields), fields)
            }
            "host" => {
                let fields = value.fields(&["pattern", "reserved", "must_agree"]);
                (read_host(&fields).map(SourceKind::Host), fields)
            }
            _ => {
                let fields = value.fields(&["pattern", "must_agree"]);
                (read_path(&fields).map(SourceKind::Path), fields)
            }
        };
        let must_agree = fields.scalar("must_agree").unwrap_or_default();
        if must_agree && is_first {
            let mark = fields.mark_of("must_agree");
            mark.refuse("the first source has none before it to agree with: set this on a later one");
        }
        Some(Self { kind: kind?, must_agree })
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header { name, .. } => write!(f, "header {name}"),
            Self::Host(pattern) => write!(f, "host {TENANT}{}", pattern.suffix),
            Self::Path(pattern) => write!(f, "path {}{TENANT}", pattern.prefix),
        }
    }
}

fn read_header(fields: &Fields<'_>) -> Option<SourceKind> {
    let name = fields.required("name", "a header such as x-tenant-id");
    let name = name.and_then(|node| node.read("a header such as x-tenant-id", header_name));
    let trusted = fields.get("trusted").map_or_else(Trusted::loopback, Trusted::read);
    Some(SourceKind::Header { name: name?, trusted })
}

/// A header that the router deletes or that says something else can never name a tenant.
fn header_name(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName = text.parse().map_err(|_| format!("{text:?} is not a header's name"))?;
    let taken =
        [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::TE];
    if headers::is_internal(&name) || taken.iter().any(|taken| headers::reads_as(&name, taken.as_str())) {
        return Err(format!("header {name} has another use: it can never name a tenant"));
    }
    Ok(name)
}

fn read_host(fields: &Fields<'_>) -> Option<HostPattern> {
    const WANTED: &str = "a host such as {tenant}.app.example";
    let suffix = fields.required("pattern", WANTED);
    let suffix = suffix
        .and_then(|node| node.read(WANTED, |text| host_suffix(text).ok_or_else(|| wrong_host(text, WANTED))));
    let reserved =
        fields.get("reserved").map_or_else(Vec::new, |node| node.list("a list of labels such as www"));
    let label = |node: &Node<'_>| {
        node.read("a label such as www", |text| match is_label(text) {
            true => Ok(text.to_ascii_lowercase().into()),
            false => Err(wrong(text, "a label such as www")),
        })
    };
    let reserved = reserved.iter().filter_map(label).collect();
    Some(HostPattern { suffix: suffix?, reserved })
}

fn wrong(text: &str, wanted: &str) -> String {
    format!("{text:?} is not {wanted}")
}

/// Says what of a pattern is no part of a host, where that is known.
fn wrong_host(text: &str, wanted: &str) -> String {
    let has = |what: &str, rest: &str| {
        format!("{text:?} has {what}: expected {rest}, since a host alone is compared")
    };
    if let Some((_, rest)) = text.split_once("://") {
        return has("a scheme", rest.split(['/', ':']).next().unwrap_or_default());
    }
    match (text.split_once('/'), text.rsplit_once(':'), text.strip_prefix("*.")) {
        (Some((host, _)), ..) => has("a path", host),
        (_, Some((host, _)), _) => has("a port", host),
        (.., Some(rest)) => format!("{text:?} does not say where the tenant is: expected {TENANT}.{rest}"),
        _ => wrong(text, wanted),
    }
}

/// The tenant is exactly the first label, and what follows is a plain name.
fn host_suffix(text: &str) -> Option<Box<str>> {
    let suffix = text.strip_prefix(TENANT)?;
    let plain = suffix.strip_prefix('.')?.split('.').all(is_label);
    (plain && suffix.len() <= 253).then(|| suffix.to_ascii_lowercase().into())
}

fn is_label(text: &str) -> bool {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    plain && !text.is_empty() && text.len() <= 63
}

fn read_path(fields: &Fields<'_>) -> Option<PathPattern> {
    const WANTED: &str = "a path such as /t/{tenant}";
    let node = fields.required("pattern", WANTED)?;
    let pattern = node.read(WANTED, |text| {
        let prefix =
            text.strip_suffix(TENANT).filter(|prefix| prefix.ends_with('/') && crate::path::is_plain(prefix));
        prefix.map(|prefix| PathPattern { prefix: prefix.into() }).ok_or_else(|| wrong(text, WANTED))
    })?;
    patterns::warn_of_prefix(&pattern.prefix, &node.mark);
    Some(pattern)
}

fn read_bool(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| wrong(text, "true or false"))
}
