//! Opens one connection: the stream, TLS, who this is, and what the server says of itself. It knows no script and keeps
//! nothing open.

use std::pin::Pin;

use ::redis::aio::{MultiplexedConnection, PubSub};
use ::redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::credentials::{Credentials, SecretError};
use super::endpoint::Address;
use super::tls::{TlsError, TlsFiles};

/// How to get into any server of a place.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) credentials: Credentials,
    pub(super) db: u16,
    pub(super) tls: Option<TlsFiles>,
}

/// Why there is no connection. It names no secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("{0}")]
    Server(#[from] RedisError),
    #[error("no answer in time")]
    Late,
    #[error("it closed the connection")]
    Closed,
    #[error("it is a replica, which takes no writes")]
    Replica,
    #[error("it keeps another script under this one's name")]
    OtherScript,
    #[error("no sentinel names a master of {service:?}: {reason}")]
    NoMaster { service: String, reason: String },
}

/// Reads and writes for a connection for as long as it is polled; ends with the connection.
pub(super) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Opens a connection and signs in.
pub(super) async fn connect(
    address: &Address,
    entry: &Entry,
) -> Result<(MultiplexedConnection, Driver), ConnectError> {
    let info = info(entry)?;
    // Who calls has clocks of its own.
    let config = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let stream = open(address, entry.tls.as_ref()).await?;
    let (connection, driver) = MultiplexedConnection::new_with_config(&info, stream, config).await?;
    Ok((connection, Box::pin(driver)))
}

/// Opens a connection that hears `channel`, and signs in.
pub(super) async fn subscribe(
    address: &Address,
    entry: &Entry,
    channel: &str,
) -> Result<PubSub, ConnectError> {
    let stream = open(address, entry.tls.as_ref()).await?;
    let mut messages = PubSub::new(&info(entry)?, stream).await?;
    messages.subscribe(channel).await?;
    Ok(messages)
}

fn info(entry: &Entry) -> Result<RedisConnectionInfo, SecretError> {
    let Credentials { user, password } = &entry.credentials;
    let mut info = RedisConnectionInfo::default().set_db(entry.db.into()).set_skip_set_lib_name();
    if let Some(user) = user {
        info = info.set_username(user);
    }
    if let Some(password) = password {
        info = info.set_password(password.read()?);
    }
    Ok(info)
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

async fn open(address: &Address, tls: Option<&TlsFiles>) -> Result<Box<dyn Stream>, ConnectError> {
    let (host, port) = match address {
        Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
        Address::Tcp { host, port } => (host.as_str(), *port),
    };
    let tcp = TcpStream::connect((host, port)).await?;
    tcp.set_nodelay(true)?;
    match tls {
        Some(tls) => Ok(Box::new(tls.over(tcp, host).await?)),
        None => Ok(Box::new(tcp)),
    }
}
