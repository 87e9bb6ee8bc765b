//! Where a cell is reached: a host and a port, and nothing behind them.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use crate::scalars::{Scalar, scalar};

scalar! {
    Origin, Origin::from_str, "a url such as http://10.0.1.10:7100";
}

/// `http://host:port`. Only plain HTTP, without a user, a path or a query.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    host: Box<str>,
    port: u16,
}

/// Why text is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// Not a URL with a host.
    #[error("{0:?} is not a url such as http://10.0.1.10:7100")]
    Syntax(String),
    /// A scheme other than `http`.
    #[error("url {0} has the scheme {1}: only http is supported")]
    Scheme(String, String),
    /// A user, a path or a query.
    #[error("url {0} has a {1}: only a host and a port are wanted")]
    Extra(String, &'static str),
}

impl Origin {
    /// The host in lower case: a name, an IPv4 address, or an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; 80 where the file gives none.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the text of an origin says which port it is.
    pub fn names_port(text: &str) -> bool {
        let uri = text.parse::<Uri>().ok();
        uri.is_some_and(|uri| uri.authority().is_some_and(|authority| authority.port().is_some()))
    }

    /// `host:port`, as a Host header or a resolver wants it, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let syntax = || OriginError::Syntax(text.to_owned());
        let extra = |what| Err(OriginError::Extra(text.to_owned(), what));
        let uri: Uri = text.parse().map_err(|_| syntax())?;
        let scheme = uri.scheme_str().ok_or_else(syntax)?;
        if scheme != "http" {
            return Err(OriginError::Scheme(text.to_owned(), scheme.to_owned()));
        }
        let authority = uri.authority().ok_or_else(syntax)?;
        if authority.as_str().contains('@') {
            return extra("user");
        }
        if uri.query().is_some() || text.contains('#') {
            return extra("query");
        }
        if uri.path() != "/" {
            return extra("path");
        }
        let host = authority.host();
        let port = match &authority.as_str()[host.len()..] {
            "" => 80,
            port => port.strip_prefix(':').and_then(|port| port.parse().ok()).ok_or_else(syntax)?,
        };
        let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if host.is_empty() || port == 0 {
            return Err(syntax());
        }
        Ok(Self { host: host.into(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_a_host_and_a_port() {
        let shown = |text: &str| text.parse::<Origin>().unwrap().to_string();
        assert_eq!(shown("http://10.0.1.10:7100"), "http://10.0.1.10:7100");
        assert_eq!(shown("http://Cell-A.Example/"), "http://cell-a.example:80");
        assert_eq!(shown("http://[FD00::1]:7100"), "http://[fd00::1]:7100");
        assert_eq!("http://[fd00::1]:7100".parse::<Origin>().unwrap().host(), "fd00::1");
    }

    #[test]
    fn what_is_more_or_less_than_an_origin_is_refused() {
        for bad in
            ["", "x", "10.0.1.10:7100", "/path", "http://", "http://:7100", "http://a:0", "http://a:70000"]
        {
            assert_eq!(bad.parse::<Origin>(), Err(OriginError::Syntax(bad.to_owned())), "{bad}");
        }
        let extra = |text: &str| match text.parse::<Origin>() {
            Err(OriginError::Extra(_, what)) => what,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(extra("http://user@a:1"), "user");
        assert_eq!(extra("http://a:1/path"), "path");
        assert_eq!(extra("http://a:1/?q"), "query");
        assert!(matches!("https://a:1".parse::<Origin>(), Err(OriginError::Scheme(..))));
    }
}
