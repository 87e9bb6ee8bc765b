//! One connection that stands: commands on it, and the script, which a server may have forgotten. It is never opened
//! again; who keeps it opens another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, RedisError, Value, cmd};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::connect::ConnectError;
use super::counters::{Counters, add_one};
use super::endpoint::Address;
use super::error::LinkError;
use super::server::Server;
use crate::redis::call::Call;
use crate::redis::keys::Key;
use crate::redis::script::Script;

/// How often one call may find the script gone: it can be flushed between loading and calling, but not for ever.
const MAX_LOADS: usize = 3;

/// A connection, shared by everybody who calls.
pub(super) struct Live {
    connection: MultiplexedConnection,
    pub(super) address: Address,
    pub(super) server: Server,
    /// Answers that came, errors included. One that is late is a broken connection if none came meanwhile.
    answers: AtomicU64,
    /// Times that the script was loaded: who finds it gone loads it only if nobody has since.
    loads: AtomicU64,
    loading: tokio::sync::Mutex<()>,
    given_up: Mutex<Option<&'static str>>,
    give_up: Notify,
}

/// What is sent.
#[derive(Clone, Copy)]
pub(super) enum Order<'a> {
    Script(&'a Script, &'a Call),
    Other(&'a Script, &'a [Key], &'a [&'a [u8]]),
    Command(&'a Cmd),
}

/// Until when a call may take, and how long that was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    at: Instant,
    within: Duration,
}

impl Deadline {
    pub(super) fn after(within: Duration) -> Self {
        Self { at: Instant::now() + within, within }
    }
}

impl Live {
    pub(super) fn new(connection: MultiplexedConnection, address: Address, server: Server) -> Self {
        Self {
            connection,
            address,
            server,
            answers: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            loading: tokio::sync::Mutex::new(()),
            given_up: Mutex::new(None),
            give_up: Notify::new(),
        }
    }

    /// Sends what is ordered.
    pub(super) async fn send(
        &self,
        order: Order<'_>,
        is_asking: bool,
        deadline: Deadline,
        counters: &Counters,
    ) -> Result<Value, LinkError> {
        match order {
            Order::Script(script, call) => {
                let evaluate = evaluate(script, call.keys(), &self.server.run_id, call.args());
                self.run(script, &evaluate, is_asking, deadline, counters).await
            }
            Order::Other(script, keys, args) => {
                let evaluate = evaluate(script, keys, &self.server.run_id, args.iter().copied());
                self.run(script, &evaluate, is_asking, deadline, counters).await
            }
            Order::Command(cmd) => self.ask(cmd, is_asking, deadline).await,
        }
    }

    /// Sends one command. `is_asking` is for a server of a cluster that only just takes the key over.
    pub(super) async fn ask(
        &self,
        cmd: &Cmd,
        is_asking: bool,
        deadline: Deadline,
    ) -> Result<Value, LinkError> {
        let answers = self.answers.load(Ordering::Relaxed);
        let answer = if is_asking {
            timeout_at(deadline.at, send_asking(self.connection.clone(), cmd)).await
        } else {
            timeout_at(deadline.at, self.connection.clone().send_packed_command(cmd)).await
        };
        let Ok(answer) = answer else {
            if self.answers.load(Ordering::Relaxed) == answers {
                self.give_up("it was silent");
            }
            return Err(LinkError::Late(deadline.within));
        };
        let answer = answer.and_then(Value::extract_error).map_err(LinkError::from);
        if !matches!(answer, Err(LinkError::Broken(_))) {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        if answer.as_ref().is_err_and(|error| error.is("READONLY")) {
            self.give_up("it takes no writes any more");
        }
        answer
    }

    /// Runs a script, which is loaded first where the server says that it does not know it: then nothing was executed.
    async fn run(
        &self,
        script: &Script,
        evaluate: &Cmd,
        is_asking: bool,
        deadline: Deadline,
        counters: &Counters,
    ) -> Result<Value, LinkError> {
        let mut n_loads = 0;
        loop {
            let loads = self.loads.load(Ordering::Acquire);
            match self.ask(evaluate, is_asking, deadline).await {
                Err(error) if error.is("NOSCRIPT") && n_loads < MAX_LOADS => {
                    n_loads += 1;
                    self.load_once(script, loads, deadline, counters).await?;
                }
                answer => return answer,
            }
        }
    }

    /// Loads the script unless somebody has since `loads` was read. Whoever waits for that waits within its own time.
    async fn load_once(
        &self,
        script: &Script,
        loads: u64,
        deadline: Deadline,
        counters: &Counters,
    ) -> Result<(), LinkError> {
        let Ok(_alone) = timeout_at(deadline.at, self.loading.lock()).await else {
            return Err(LinkError::Late(deadline.within));
        };
        if self.loads.load(Ordering::Acquire) == loads {
            self.ask(&load(script), false, deadline).await?;
            add_one(&counters.script_loads);
            self.loads.fetch_add(1, Ordering::Release);
        }
        Ok(())
    }

    fn give_up(&self, why: &'static str) {
        self.given_up.lock().get_or_insert(why);
        self.give_up.notify_one();
    }

    /// Waits until the connection has to be replaced; says why.
    pub(super) async fn given_up(&self) -> &'static str {
        self.give_up.notified().await;
        self.given_up.lock().unwrap_or_default()
    }
}

/// Loads the script on a connection that begins.
pub(super) async fn load_first(
    connection: &MultiplexedConnection,
    script: &Script,
) -> Result<(), ConnectError> {
    let sha = connection.clone().send_packed_command(&load(script)).await?.extract_error()?;
    let is_ours = matches!(&sha, Value::BulkString(sha) if sha == script.sha1().as_bytes());
    if is_ours { Ok(()) } else { Err(ConnectError::OtherScript) }
}

fn evaluate<'a>(script: &Script, keys: &[Key], run_id: &str, args: impl Iterator<Item = &'a [u8]>) -> Cmd {
    let mut evaluate = cmd("EVALSHA");
    evaluate.arg(script.sha1()).arg(keys.len());
    for key in keys {
        evaluate.arg(key.as_str());
    }
    evaluate.arg(run_id);
    for arg in args {
        evaluate.arg(arg);
    }
    evaluate
}

fn load(script: &Script) -> Cmd {
    cmd("SCRIPT").arg("LOAD").arg(script.text()).to_owned()
}

async fn send_asking(mut connection: MultiplexedConnection, cmd: &Cmd) -> Result<Value, RedisError> {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("ASKING").add_command(cmd.clone());
    let answers = connection.send_packed_commands(&pipeline, 1, 1).await?;
    Ok(answers.into_iter().next().unwrap_or(Value::Nil))
}
