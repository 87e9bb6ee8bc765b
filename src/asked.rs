//! What a command asks of a running process, and what becomes of its answer. What is asked is the caller's affair.

use std::process::ExitCode;
use std::time::Duration;

use anstream::println;
use anyhow::{Context, bail};
use reqwest::{Client, RequestBuilder, StatusCode};
use rustix::process::getuid;
use serde_json::{Map, Value};

use crate::not_asked::{self, Another, Listener, NotAsked};
use crate::process::BAD_INPUT;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that asks the process itself, by no proxy.
pub(crate) fn client() -> reqwest::Result<Client> {
    Client::builder().timeout(PATIENCE).no_proxy().build()
}

/// The text of an answer that is 200. What the process will not take is bad input, and told as such; what else it says is an
/// error, and so is [`NotAsked`], where no such `listener` answers at `address`.
#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) async fn answer(
    request: RequestBuilder,
    listener: Listener,
    address: &str,
) -> anyhow::Result<Result<String, ExitCode>> {
    let (client, request) = request.build_split();
    let unanswered = |error| NotAsked::unanswered(listener, address, &error);
    let answer = client.execute(request.map_err(unanswered)?).await.map_err(unanswered)?;
    let (status, kind) = (answer.status(), not_asked::kind(&answer));
    let text = answer.text().await.map_err(unanswered)?;
    if let Some(another) = Another::of(status, kind.as_deref(), &text) {
        return Err(NotAsked::answered_by_another(listener, address, &client, another).await.into());
    }
    match status {
        StatusCode::OK => Ok(Ok(text)),
        StatusCode::BAD_REQUEST => {
            eprintln!("cofferdam: {}", text.trim_end());
            Ok(Err(ExitCode::from(BAD_INPUT)))
        }
        _ => bail!("{}", text.trim_end()),
    }
}

/// The answer of the router at `admin`, or the exit code where it will not take what is asked.
pub(crate) async fn of_router(
    admin: &str,
    request: RequestBuilder,
) -> anyhow::Result<Result<String, ExitCode>> {
    answer(request, Listener::Router, admin).await
}

/// Which router to ask, and how to print what it answers.
#[derive(Debug, clap::Args)]
pub(crate) struct At {
    /// A router's admin listener
    #[arg(long, default_value = "http://127.0.0.1:7001", value_parser = not_asked::address)]
    admin: String,

    /// Print what the router answers, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

impl At {
    /// Asks the router at `path`, and prints what it answers, as `shown` for people. What it will not take is bad input.
    pub(crate) fn ask(
        &self,
        path: &str,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
        shown: impl FnOnce(&Value) -> String,
    ) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let text = match runtime.block_on(self.answer(&client()?, path, request))? {
            Ok(text) => text,
            Err(code) => return Ok(code),
        };
        match self.json {
            true => println!("{}", text.trim_end()),
            false => println!("{}", shown(&json(&text)?)),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The router's answer, or the exit code where it will not take what is asked.
    pub(crate) async fn answer(
        &self,
        client: &Client,
        path: &str,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
    ) -> anyhow::Result<Result<String, ExitCode>> {
        let url = format!("{}{path}", self.admin.trim_end_matches('/'));
        of_router(&self.admin, request(client, url)).await
    }
}

/// Whose affairs, and which router to ask of them.
#[derive(Debug, clap::Args)]
pub(crate) struct OfTenant {
    /// The tenant
    pub(crate) tenant: String,

    #[command(flatten)]
    pub(crate) at: At,
}

impl OfTenant {
    /// A question about a tenant to the router at `admin`.
    pub(crate) fn at(tenant: &str, admin: &str) -> Self {
        Self { tenant: tenant.to_owned(), at: At { admin: admin.to_owned(), json: false } }
    }

    /// Asks the router for `what` of the tenant, a path such as `/limits`, and prints what it answers, as `shown` for people. What it
    /// will not take is bad input.
    pub(crate) fn ask(
        &self,
        what: &str,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
        shown: impl FnOnce(&Value) -> String,
    ) -> anyhow::Result<ExitCode> {
        match self.path(what) {
            Ok(path) => self.at.ask(&path, request, shown),
            Err(code) => Ok(code),
        }
    }

    /// The router's answer, or the exit code where it will not take what is asked.
    pub(crate) async fn answer(
        &self,
        client: &Client,
        what: &str,
        request: impl FnOnce(&Client, String) -> RequestBuilder,
    ) -> anyhow::Result<Result<String, ExitCode>> {
        match self.path(what) {
            Ok(path) => self.at.answer(client, &path, request).await,
            Err(code) => Ok(Err(code)),
        }
    }

    /// The path of `what`, or the exit code where there is no such tenant.
    #[expect(clippy::print_stderr, reason = "a command speaks to its user")]
    fn path(&self, what: &str) -> Result<String, ExitCode> {
        // What could lead elsewhere in a path is no tenant anyway.
        if self.tenant.is_empty()
            || self.tenant.contains(['/', '?', '#', '%', '\\'])
            || self.tenant.starts_with('.')
        {
            eprintln!("cofferdam: {:?} is not a tenant", self.tenant);
            return Err(ExitCode::from(BAD_INPUT));
        }
        Ok(format!("/tenants/{}{what}", self.tenant))
    }
}

/// The JSON of an answer.
pub(crate) fn json(text: &str) -> anyhow::Result<Value> {
    serde_json::from_str(text).context("the router's answer is no JSON")
}

/// What is asked for, without what nobody said.
pub(crate) fn body(words: &[(&str, Option<&String>)]) -> Map<String, Value> {
    let said = words
        .iter()
        .filter_map(|(name, value)| Some(((*name).to_owned(), value.as_deref()?.as_str().into())));
    said.collect()
}

/// Who asks: the user who runs this, where nobody else is named.
pub(crate) fn author(named: Option<String>) -> String {
    let user = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let name = named.into_iter().chain(user).find(|name| !name.is_empty());
    // In a container nobody may have a name.
    name.unwrap_or_else(|| format!("uid {}", getuid().as_raw()))
}

/// A value of an answer, for people.
pub(crate) fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A list of an answer, for people.
pub(crate) fn list(values: &Value) -> String {
    values.as_array().into_iter().flatten().map(word).collect::<Vec<_>>().join(", ")
}
