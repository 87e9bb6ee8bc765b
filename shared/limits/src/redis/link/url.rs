//! An [`Endpoint`] as it is written: a URL.
//!
//! ```text
//! redis://[user[:password]@]host[:port][/db]              one server                rediss://          with TLS
//! redis+unix:///path/of/the/socket[?db=1]                 one server on this machine
//! redis-sentinel://host1:port,host2:port/service[/db]     whom the sentinels name   rediss-sentinel:// with TLS
//! redis-cluster://host1:port,host2:port                   a cluster, by any of it   rediss-cluster://  with TLS
//! ```
//!
//! Options follow a `?`, joined by `&`: `user`, `password_file`, `password_env`; for sentinels that ask for a password
//! of their own `sentinel_user`, `sentinel_password_file`, `sentinel_password_env`; for TLS `ca` (a file that
//! replaces the system's authorities), `cert` and `key` (this side's own), `server_name` (the name to expect in
//! certificates where servers are known by bare addresses). What is percent-encoded is decoded.
//!
//! No error shows a password.

use std::path::PathBuf;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use super::credentials::{Credentials, Secret};
use super::endpoint::{Address, Endpoint, Place};
use super::tls::TlsFiles;

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

/// A URL that names no store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// No scheme, or another program's.
    #[error(
        "a store's URL begins with redis://, rediss://, redis+unix://, redis-sentinel:// or redis-cluster://"
    )]
    Scheme,
    /// No host, or one that is none.
    #[error("no host and port in {0:?}")]
    Host(String),
    /// Several hosts where one server is meant.
    #[error("several servers need redis-sentinel:// or redis-cluster://")]
    SeveralServers,
    /// A number of a database that is none, or one of a cluster, which has only 0.
    #[error("no database {0:?}")]
    Database(String),
    /// Sentinels without the name of what they watch.
    #[error("a sentinel's URL ends with the name of its service")]
    Service,
    /// No path of a socket.
    #[error("no absolute path of a socket")]
    Path,
    /// An option that is not known here.
    #[error("unknown option {0:?}")]
    Option(String),
    /// Something that decodes to no text.
    #[error("the {0} is not UTF-8")]
    Encoding(&'static str),
    /// A password in more than one place, or a certificate without its key.
    #[error("{0}")]
    Conflict(&'static str),
}

impl EndpointError {
    fn without_values(self) -> Self {
        match self {
            Self::Host(_) => Self::Host("..".to_owned()),
            Self::Database(_) => Self::Database("..".to_owned()),
            Self::Option(_) => Self::Option("..".to_owned()),
            other => other,
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, EndpointError> {
        // A password with a character that was not encoded, or with no host behind it, may be taken for a host or an option.
        let may_have_password = url.contains('@') || url.contains("://:");
        parse(url).map_err(|error| if may_have_password { error.without_values() } else { error })
    }
}

fn parse(url: &str) -> Result<Endpoint, EndpointError> {
    let (scheme, rest) = url.split_once("://").ok_or(EndpointError::Scheme)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut options = Options::parse(query)?;
    let is_unix = scheme == "redis+unix";
    // A path may have an `@`, and a user's name a `/` that is not encoded is no path.
    let (user_info, rest) = match rest.rsplit_once('@') {
        Some((user_info, rest)) if !is_unix => (Some(user_info), rest),
        _ => (None, rest),
    };
    let (hosts, path) = if is_unix { ("", rest) } else { rest.split_once('/').unwrap_or((rest, "")) };
    let place = match scheme {
        "redis" | "rediss" => Place::Server(one(addresses(hosts, DEFAULT_PORT)?)?),
        "redis+unix" => Place::Server(socket(path)?),
        "redis-cluster" | "rediss-cluster" => Place::Cluster(addresses(hosts, DEFAULT_PORT)?),
        "redis-sentinel" | "rediss-sentinel" => Place::Sentinel {
            sentinels: addresses(hosts, DEFAULT_SENTINEL_PORT)?,
            service: service(path)?,
            credentials: options.credentials("sentinel_")?,
        },
        _ => return Err(EndpointError::Scheme),
    };
    let db = match &place {
        Place::Server(Address::Unix(_)) => options.take("db").unwrap_or_default(),
        Place::Sentinel { .. } => path.split_once('/').map_or("", |(_, db)| db).to_owned(),
        _ => path.to_owned(),
    };
    let db = database(&db, matches!(place, Place::Cluster(_)))?;
    let credentials = and_in_url(options.credentials("")?, user_info)?;
    let tls = if scheme.starts_with("rediss") { Some(options.tls()?) } else { None };
    options.end()?;
    Ok(Endpoint { place, credentials, db, tls })
}

/// Adds what stands in a URL before its host.
fn and_in_url(given: Credentials, user_info: Option<&str>) -> Result<Credentials, EndpointError> {
    let Some(text) = user_info else { return Ok(given) };
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let user = some(decoded(user, "user")?);
    let password = some(decoded(password, "password")?).map(Secret::Given);
    if user.is_some() && given.user.is_some() || password.is_some() && given.password.is_some() {
        return Err(EndpointError::Conflict("a user and a password come from one place"));
    }
    Ok(Credentials { user: given.user.or(user), password: given.password.or(password) })
}

/// The host and port of each of several, parted by commas.
fn addresses(hosts: &str, default_port: u16) -> Result<Vec<Address>, EndpointError> {
    hosts.split(',').map(|host| address(host, default_port)).collect()
}

fn address(text: &str, default_port: u16) -> Result<Address, EndpointError> {
    let refused = || EndpointError::Host(text.to_owned());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(refused)?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(refused)?) })
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Ok(default_port), str::parse).map_err(|_| refused())?;
    if host.is_empty() || port == 0 || host.contains(char::is_whitespace) {
        return Err(refused());
    }
    Ok(Address::Tcp { host: host.to_owned(), port })
}

fn one(mut addresses: Vec<Address>) -> Result<Address, EndpointError> {
    match (addresses.pop(), addresses.is_empty()) {
        (Some(address), true) => Ok(address),
        _ => Err(EndpointError::SeveralServers),
    }
}

fn socket(path: &str) -> Result<Address, EndpointError> {
    let path = decoded(path, "path")?;
    if path.starts_with('/') { Ok(Address::Unix(path.into())) } else { Err(EndpointError::Path) }
}

fn service(path: &str) -> Result<String, EndpointError> {
    let name = decoded(path.split('/').next().unwrap_or_default(), "service")?;
    if name.is_empty() { Err(EndpointError::Service) } else { Ok(name) }
}

fn database(text: &str, is_cluster: bool) -> Result<u16, EndpointError> {
    match if text.is_empty() { Ok(0) } else { text.parse() } {
        Ok(db) if db == 0 || !is_cluster => Ok(db),
        _ => Err(EndpointError::Database(text.to_owned())),
    }
}

fn decoded(text: &str, what: &'static str) -> Result<String, EndpointError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| EndpointError::Encoding(what))
}

/// What follows the `?`, of which each is taken once.
struct Options(Vec<(String, String)>);

impl Options {
    fn parse(query: &str) -> Result<Self, EndpointError> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((name.to_owned(), decoded(value, "option")?))
        };
        Ok(Self(pairs.map(pair).collect::<Result<_, _>>()?))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.swap_remove(at).1)
    }

    fn credentials(&mut self, prefix: &str) -> Result<Credentials, EndpointError> {
        let user = self.take(&format!("{prefix}user"));
        let file = self.take(&format!("{prefix}password_file")).map(|path| Secret::File(path.into()));
        let variable = self.take(&format!("{prefix}password_env")).map(Secret::Variable);
        match (file, variable) {
            (Some(_), Some(_)) => Err(EndpointError::Conflict("a password comes from one place")),
            (file, variable) => Ok(Credentials { user, password: file.or(variable) }),
        }
    }

    fn tls(&mut self) -> Result<TlsFiles, EndpointError> {
        let mut path = |name| self.take(name).map(PathBuf::from);
        let (authorities, certificate, key) = (path("ca"), path("cert"), path("key"));
        if certificate.is_some() != key.is_some() {
            return Err(EndpointError::Conflict("cert and key go together"));
        }
        Ok(TlsFiles { authorities, own: certificate.zip(key), server_name: self.take("server_name") })
    }

    fn end(self) -> Result<(), EndpointError> {
        self.0.into_iter().next().map_or(Ok(()), |(name, _)| Err(EndpointError::Option(name)))
    }
}
