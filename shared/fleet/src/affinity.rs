//! `placement.affinity`: by what a request says that it belongs to a cell, where that cell drains.

use std::fmt;

use cofferdam_model::headers;
use http::HeaderName;

use crate::node::Node;

/// The most bytes of a cookie's name.
const MAX_COOKIE: usize = 64;

/// Where a request carries the id of the cell that it belongs to. A backend that keeps sessions sets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Affinity {
    /// A cookie of this name.
    Cookie(Box<str>),
    /// A header.
    Header(HeaderName),
}

impl Affinity {
    /// A map with one key that says which kind it is.
    pub(crate) fn read(node: &Node<'_>) -> Option<Self> {
        let kinds = node.fields(&["cookie", "header"]);
        match kinds.only() {
            Some(("cookie", value)) => value.read("a cookie's name such as cell", cookie).map(Self::Cookie),
            Some((_, value)) => value.read("a header such as x-cell", header).map(Self::Header),
            None => {
                node.mark.refuse("affinity is exactly one of cookie and header");
                None
            }
        }
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cookie(name) => write!(f, "cookie {name}"),
            Self::Header(name) => write!(f, "header {name}"),
        }
    }
}

/// A token, as RFC 6265 has it.
fn cookie(text: &str) -> Result<Box<str>, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || text.len() > MAX_COOKIE || !text.bytes().all(plain) {
        return Err(format!("{text:?} is not a cookie's name such as cell"));
    }
    Ok(text.into())
}

fn header(text: &str) -> Result<HeaderName, String> {
    let name: HeaderName = text.parse().map_err(|_| format!("{text:?} is not a header's name"))?;
    if headers::is_internal(&name) {
        return Err(format!("header {name} has another use: it can never mark a request"));
    }
    Ok(name)
}
