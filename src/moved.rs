//! `cofferdam move`: has a tenant moved to other cells with nothing of it in flight on both. The routers do it; here one is asked to
//! begin, and then how far it has come. Whoever stops looking stops nothing.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anstream::println;
use anyhow::{bail, ensure};
use serde_json::Value;

use crate::asked::{self, OfTenant, list, word};

/// How often it is asked how far the move has come.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How long a router that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long after its deadline a move may be unheard of: routers let requests in for 10 s at most, and then somebody has to say so.
const UNHEARD_FOR: Duration = Duration::from_secs(30);

/// Move a tenant to other cells, without a request that is lost or served on both
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    of: OfTenant,

    /// The cells, home first: active or dedicated ones, as many as the tenant has else
    #[arg(long, value_delimiter = ',', required_unless_present_any = ["status", "stop"])]
    to: Vec<String>,

    /// For how long its requests may be held back; what is not done by then is undone
    #[arg(long, default_value = "30s")]
    timeout: String,

    /// How long the tenant then stays there unless the fleet file says so: at most 30d
    #[arg(long = "for", default_value = "30d")]
    lasting: String,

    /// Why, for whoever finds the tenant elsewhere
    #[arg(long, required_unless_present_any = ["status", "stop"])]
    reason: Option<String>,

    /// Who moves it; default: the user who runs this
    #[arg(long)]
    author: Option<String>,

    /// Only show how far a move has come, or how the last one ended
    #[arg(long, conflicts_with_all = ["to", "stop"])]
    status: bool,

    /// Stop a move that has not taken effect
    #[arg(long, conflicts_with = "to")]
    stop: bool,
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let client = asked::client()?;
    let author = asked::author(args.author.clone());
    let mut body = asked::body(&[("reason", args.reason.as_ref()), ("author", Some(&author))]);
    let text = if args.status {
        args.of.answer(&client, "/move", |client, url| client.get(url)).await?
    } else if args.stop {
        args.of.answer(&client, "/move", |client, url| client.delete(url).json(&body)).await?
    } else {
        body.extend(asked::body(&[("timeout", Some(&args.timeout)), ("for", Some(&args.lasting))]));
        body.insert("to".to_owned(), args.to.as_slice().into());
        args.of.answer(&client, "/move", |client, url| client.put(url).json(&body)).await?
    };
    let mut answer = match text {
        Ok(text) => asked::json(&text)?,
        Err(code) => return Ok(code),
    };
    let mut code = ExitCode::SUCCESS;
    if !args.status && !args.stop {
        answer = to_its_end(&args, &client, answer).await?;
        code = if answer["last_move"]["outcome"] == "done" { code } else { ExitCode::FAILURE };
    }
    match args.of.at.json {
        true => println!("{answer}"),
        false => println!("{}", told(&answer)),
    }
    Ok(code)
}

/// Shows how the move goes on that this answer says has begun, and returns what the router says once it knows how that ended.
#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
async fn to_its_end(args: &Args, client: &reqwest::Client, mut answer: Value) -> anyhow::Result<Value> {
    let id = answer["id"].clone();
    ensure!(id.is_string(), "the router does not say which move it has begun: ask again with --status");
    let at_most = humantime::parse_duration(&args.timeout)? + UNHEARD_FOR;
    let (begun, mut shown, mut is_known) = (Instant::now(), String::new(), false);
    while answer["last_move"]["id"] != id {
        if answer["move"]["id"] == id {
            let now = phase(&answer["move"]);
            if now != shown && !args.of.at.json {
                eprintln!("{now}");
            }
            (shown, is_known) = (now, true);
        } else if is_known {
            // Another one has followed, or the router that knew has started anew.
            bail!("the router does not know any more how the move ended: look with --status");
        }
        ensure!(
            begun.elapsed() < at_most,
            "the router has not heard how the move ended: look with --status, or ask another router"
        );
        answer = next(&args.of, client).await?;
    }
    Ok(answer)
}

/// What the router says a moment later.
async fn next(of: &OfTenant, client: &reqwest::Client) -> anyhow::Result<Value> {
    let begun = Instant::now();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        match of.answer(client, "/move", |client, url| client.get(url)).await {
            Ok(Ok(text)) => return asked::json(&text),
            Ok(Err(_)) => anyhow::bail!(
                "the router has no answer: the move goes on by itself, and ends by its deadline"
            ),
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(
                    error.context("the move goes on by itself, and ends by its deadline: ask another router")
                );
            }
            Err(_) => {}
        }
    }
}

/// How far a move has come, for people.
fn phase(it: &Value) -> String {
    let routers = it["routers"].as_object();
    let said = routers.into_iter().flatten().map(|(session, said)| {
        let in_flight = said["in_flight"].as_u64().map_or_else(String::new, |n| format!(", {n} in flight"));
        format!("router {session}: {}{in_flight}", word(&said["phase"]))
    });
    let said: Vec<_> = said.collect();
    format!(
        "{} ({})",
        word(&it["phase"]),
        if said.is_empty() { "no router has answered yet".to_owned() } else { said.join("; ") }
    )
}

/// How far a move has come and until when it has to be done, for people; nothing where none goes on.
pub(crate) fn under_way(it: &Value) -> Option<String> {
    it.is_object().then(|| {
        let (to, deadline) = (list(&it["to"]), word(&it["deadline"]));
        format!("is being moved to {to}, until {deadline} at most: {}", phase(it))
    })
}

/// Where the tenant is, and how its move goes or went, for people.
fn told(answer: &Value) -> String {
    let place = format!("tenant {} is on {}", word(&answer["tenant"]), list(&answer["shard"]));
    if let Some(phase) = under_way(&answer["move"]) {
        return format!("{place}; it {phase}");
    }
    let last = &answer["last_move"];
    match last["outcome"].as_str() {
        Some("done") => format!(
            "{place}, where it was moved at {} in {} ms",
            word(&last["ended"]),
            word(&last["took_ms"])
        ),
        Some(_) => format!(
            "{place}; the move to {} was undone at {}: {}",
            list(&last["to"]),
            word(&last["ended"]),
            word(&last["why"])
        ),
        None => format!("{place}, and was not moved lately"),
    }
}
