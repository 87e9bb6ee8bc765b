//! `cofferdam drill`: has an agent let a fault loose on purpose, for a while. The agent decides what may be let loose.

use std::process::ExitCode;

use anstream::println;
use anyhow::Context;
use reqwest::{Client, RequestBuilder};
use serde_json::{Map, Value};

use crate::asked;
use crate::not_asked::{self, Listener};

/// Let latency, errors or a hang loose on a class, a tenant or a dependency of one cell, for a while
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The agent's admin listener: it has one where it was started with --allow-drills
    #[arg(
        long,
        global = true,
        env = "COFFERDAM_AGENT_ADMIN",
        default_value = "http://127.0.0.1:7102",
        value_parser = not_asked::address
    )]
    admin: String,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Requests come to the backend later
    Latency {
        /// By how much, such as 200ms: at most 1h
        time: String,
        #[command(flatten)]
        whom: Whom,
    },
    /// Requests are answered an error
    Error {
        /// Which, such as 503
        status: u16,
        #[command(flatten)]
        whom: Whom,
    },
    /// Requests come to nothing until their deadline
    Hang {
        #[command(flatten)]
        whom: Whom,
    },
    /// List what goes on
    Show,
    /// End a drill before its time, or all of them
    Stop {
        /// Its number
        drill: Option<u64>,
    },
}

/// Whom a drill strikes: whatever is named has to agree.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true, args = ["class", "tenant", "dependency"])]
struct Whom {
    /// Requests of this class
    #[arg(long)]
    class: Option<String>,

    /// Requests of this tenant
    #[arg(long)]
    tenant: Option<String>,

    /// Requests of routes that name this dependency
    #[arg(long)]
    dependency: Option<String>,

    /// For how long, such as 1m: at most 1h
    #[arg(long = "for")]
    lasting: String,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let url = format!("{}/drills", args.admin.trim_end_matches('/'));
    let request = ask(&asked::client()?, &url, args.command);
    let text = match asked::answer(request, Listener::Drills, &args.admin).await? {
        Ok(text) => text,
        Err(code) => return Ok(code),
    };
    println!("{}", shown(&serde_json::from_str(&text).context("the agent's answer is no JSON")?));
    Ok(ExitCode::SUCCESS)
}

fn ask(client: &Client, url: &str, command: Command) -> RequestBuilder {
    let (what, value, whom) = match command {
        Command::Show => return client.get(url),
        Command::Stop { drill: None } => return client.delete(url),
        Command::Stop { drill: Some(number) } => return client.delete(format!("{url}/{number}")),
        Command::Latency { time, whom } => ("latency", Value::from(time), whom),
        Command::Error { status, whom } => ("status", Value::from(status), whom),
        Command::Hang { whom } => ("hang", Value::from(true), whom),
    };
    let names = [("class", whom.class), ("tenant", whom.tenant), ("dependency", whom.dependency)];
    let named = names.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    let mut drill: Map<String, Value> = named.collect();
    drill.insert(what.to_owned(), value);
    drill.insert("for".to_owned(), whom.lasting.into());
    client.post(url).json(&drill)
}

/// The answer, for people.
fn shown(answer: &Value) -> String {
    if let Some(ended) = answer["ended"].as_u64() {
        return format!("{ended} ended");
    }
    let Some(drills) = answer["drills"].as_array() else { return line(answer) };
    if drills.is_empty() {
        return "no drill goes on".to_owned();
    }
    drills.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn line(drill: &Value) -> String {
    let [does, struck, left] = ["does", "struck", "left_s"].map(|name| match &drill[name] {
        Value::String(text) => text.clone(),
        number => number.as_f64().map_or_else(|| number.to_string(), |number| number.to_string()),
    });
    format!("drill {}: {does}, {left} s left, {struck} struck", drill["drill"])
}
