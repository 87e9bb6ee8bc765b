//! What a command asks of a running process, and what becomes of its answer. What is asked is the caller's affair.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use reqwest::{Client, RequestBuilder, StatusCode};

use crate::process::BAD_INPUT;

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A client that asks the process itself, by no proxy.
pub(crate) fn client() -> reqwest::Result<Client> {
    Client::builder().timeout(PATIENCE).no_proxy().build()
}

/// The text of an answer that is 200. What the process will not take is bad input, and told as such; what else it says, and
/// `unreachable` where it says nothing, is an error.
#[expect(clippy::print_stderr, reason = "a command speaks to its user")]
pub(crate) async fn answer(
    request: RequestBuilder,
    unreachable: impl FnOnce() -> String,
) -> anyhow::Result<Result<String, ExitCode>> {
    let answer = request.send().await.with_context(unreachable)?;
    let (status, text) = (answer.status(), answer.text().await?);
    match status {
        StatusCode::OK => Ok(Ok(text)),
        StatusCode::BAD_REQUEST => {
            eprintln!("cofferdam: {}", text.trim_end());
            Ok(Err(ExitCode::from(BAD_INPUT)))
        }
        _ => bail!("{}", text.trim_end()),
    }
}
