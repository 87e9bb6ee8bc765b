//! What a server says of itself when a connection begins: its version, the id of its run, its role, and what it does when
//! its memory is full. A server may forbid any of this; then it is not known.

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, RedisError, Value, cmd, from_redis_value};

/// What is known of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Server {
    pub(super) version: Option<String>,
    /// Empty where it is not known.
    pub(super) run_id: String,
    pub(super) is_replica: bool,
    pub(super) policy: Policy,
}

/// What a server does when its memory is full.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Policy {
    /// The server does not say.
    #[default]
    Unknown,
    /// It refuses writes, as it must: a limit that is evicted is a limit that is not held.
    NoEviction,
    /// It forgets keys.
    Evicts(String),
}

impl Server {
    /// Asks; fails where the connection does, or where the server wants a password first.
    pub(super) async fn ask(connection: &MultiplexedConnection) -> Result<Self, RedisError> {
        let (server, replication, memory) = tokio::join!(
            text(connection, info("server")),
            text(connection, info("replication")),
            text(connection, info("memory")),
        );
        let (server, replication, memory) = (server?, replication?, memory?);
        let policy = match field(&memory, "maxmemory_policy") {
            Some(policy) => Some(policy),
            None => configured_policy(connection).await?,
        };
        Ok(Self {
            version: field(&server, "valkey_version").or_else(|| field(&server, "redis_version")),
            run_id: field(&server, "run_id").unwrap_or_default(),
            is_replica: field(&replication, "role").is_some_and(|role| role == "slave"),
            policy: policy.map_or(Policy::Unknown, Policy::from),
        })
    }
}

impl From<String> for Policy {
    fn from(name: String) -> Self {
        if name == "noeviction" { Self::NoEviction } else { Self::Evicts(name) }
    }
}

/// What CONFIG says, which few may ask: passwords stand there too.
async fn configured_policy(connection: &MultiplexedConnection) -> Result<Option<String>, RedisError> {
    let question = cmd("CONFIG").arg("GET").arg("maxmemory-policy").to_owned();
    let value = answer(connection, question).await?;
    Ok(value.and_then(|value| from_redis_value::<Vec<String>>(value).ok()?.into_iter().nth(1)))
}

fn info(section: &str) -> Cmd {
    cmd("INFO").arg(section).to_owned()
}

async fn text(connection: &MultiplexedConnection, cmd: Cmd) -> Result<String, RedisError> {
    let value = answer(connection, cmd).await?;
    Ok(value.and_then(|value| from_redis_value(value).ok()).unwrap_or_default())
}

/// `None` where the server does not know the command, or forbids it.
async fn answer(connection: &MultiplexedConnection, cmd: Cmd) -> Result<Option<Value>, RedisError> {
    let answer = connection.clone().send_packed_command(&cmd).await.and_then(Value::extract_error);
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.code(), Some("NOPERM" | "ERR")) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A field of what INFO answers.
fn field(info: &str, name: &str) -> Option<String> {
    let value = |line: &str| Some(line.trim_end().strip_prefix(name)?.strip_prefix(':')?.to_owned());
    info.lines().find_map(value)
}
