//! Why a process could not be asked: who answers at the address that was given, and what to try instead. One place for every
//! command that asks a running process.

use std::error::Error;
use std::fmt;
use std::io;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, Response, StatusCode, Url};

/// Which listener a command asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    /// A router's admin listener.
    Router,
    /// An agent's admin listener, where drills are asked for.
    Drills,
    /// An agent's probe listener, which has its metrics.
    Metrics,
}

/// A process that could not be asked.
#[derive(Debug)]
pub(crate) struct NotAsked {
    listener: Listener,
    address: String,
    /// What is there.
    found: String,
}

impl Listener {
    fn process(self) -> &'static str {
        match self {
            Self::Router => "router",
            Self::Drills | Self::Metrics => "agent",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Router => "a router's admin listener",
            Self::Drills => "an agent's admin listener",
            Self::Metrics => "an agent's probe listener",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Router => {
                "try --admin with the address that a router was started with as its --admin, by default \
                 http://127.0.0.1:7001"
            }
            Self::Drills => {
                "try --admin with the address that an agent was started with as its --admin beside --allow-drills, by \
                 default http://127.0.0.1:7102"
            }
            Self::Metrics => {
                "try --from with the address that an agent was started with as its --probe-listen, by default \
                 http://127.0.0.1:7101"
            }
        }
    }
}

impl NotAsked {
    /// The request failed before there was an answer.
    pub(crate) fn unanswered(listener: Listener, address: &str, error: &reqwest::Error) -> Self {
        let found = if error.is_timeout() {
            "nothing answers there in time".to_owned()
        } else if let Some(refused) = io_error(error).filter(|_| error.is_connect()) {
            match refused.kind() {
                io::ErrorKind::ConnectionRefused => "nothing listens there (connection refused)".to_owned(),
                _ => format!("it cannot be reached ({refused})"),
            }
        } else if error.is_connect() || error.is_builder() {
            format!("it cannot be reached ({})", innermost(error))
        } else {
            format!("what listens there speaks no HTTP ({})", innermost(error))
        };
        Self { listener, address: address.to_owned(), found }
    }

    /// An answer came that no such listener gives. What answers is asked what it is.
    pub(crate) async fn answered_by_another(
        listener: Listener,
        address: &str,
        client: &Client,
        answer: Another,
    ) -> Self {
        let who = match answer {
            Another::DataPort => "a data port of a router or an agent",
            Another::Unknown(_) => {
                who(client, address).await.unwrap_or("an HTTP service that is no process of Cofferdam")
            }
        };
        let said = match answer {
            Another::Unknown(status) if who.starts_with("an HTTP service") => format!(" with {status}"),
            _ => String::new(),
        };
        let found = format!("{who} answers there{said}, and not {}", listener.name());
        Self { listener, address: address.to_owned(), found }
    }
}

impl fmt::Display for NotAsked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listener, address, found } = self;
        write!(f, "could not ask the {} at {address}: {found}; {}", listener.process(), listener.hint())
    }
}

impl Error for NotAsked {}

/// Whose an answer is that no admin listener gives.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Another {
    /// It is a problem of the data path.
    DataPort,
    /// It says nothing of what it is.
    Unknown(StatusCode),
}

impl Another {
    /// Of an answer and its text. A listener that is asked what it knows answers JSON, or says in a line of text why not.
    pub(crate) fn of(status: StatusCode, kind: Option<&str>, text: &str) -> Option<Self> {
        let is = |wanted: &str| kind.is_some_and(|kind| kind.starts_with(wanted));
        if is("application/problem+json") && text.contains("urn:cofferdam:") {
            return Some(Self::DataPort);
        }
        let is_ours = if status.is_success() {
            is("application/json")
        } else {
            is("text/plain") && !text.trim().is_empty()
        };
        (!is_ours).then_some(Self::Unknown(status))
    }
}

/// The media type of an answer.
pub(crate) fn kind(answer: &Response) -> Option<String> {
    Some(answer.headers().get(CONTENT_TYPE)?.to_str().ok()?.to_owned())
}

/// What kind of listener of ours is at an address, by what it answers.
async fn who(client: &Client, address: &str) -> Option<&'static str> {
    let base = Url::parse(address).ok()?;
    let get = async |path: &str| {
        let answer = client.get(base.join(path).ok()?).send().await.ok()?;
        let (status, kind) = (answer.status(), kind(&answer));
        Some((status, kind, answer.text().await.ok()?))
    };
    if get("/healthz").await.is_some_and(|(status, _, text)| status.is_success() && text == "ok\n") {
        return Some("the probe listener of a router or an agent");
    }
    let is_json = |kind: Option<String>| kind.is_some_and(|kind| kind.starts_with("application/json"));
    for (path, word, name) in [
        ("/fleet", "\"revision\"", "a router's admin listener"),
        ("/drills", "\"drills\"", "an agent's admin listener"),
    ] {
        if let Some((status, kind, text)) = get(path).await
            && status.is_success()
            && is_json(kind)
            && text.contains(word)
        {
            return Some(name);
        }
    }
    None
}

/// The error of the system that is behind another one.
fn io_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e io::Error> {
    causes(error).find_map(|cause| cause.downcast_ref())
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&cause| cause.source())
}

/// The address of a listener as a user writes it: a URL, or a host and a port.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let is_usable = |url: &Url| url.has_host() && url.scheme() == "http";
    match Url::parse(&url) {
        Ok(parsed) if is_usable(&parsed) => Ok(url.trim_end_matches('/').to_owned()),
        _ => Err(format!("{text:?} is no address of a listener: expected one such as http://127.0.0.1:7001")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_url_or_a_host_and_a_port() {
        for (text, url) in [
            ("http://127.0.0.1:7001", "http://127.0.0.1:7001"),
            ("http://router.example:7001/", "http://router.example:7001"),
            ("127.0.0.1:7001", "http://127.0.0.1:7001"),
            ("[::1]:7001", "http://[::1]:7001"),
            ("router:7001", "http://router:7001"),
        ] {
            assert_eq!(address(text).as_deref(), Ok(url));
        }
        for text in ["", "http://", "ftp://a:1", "a:b", "http://a:99999"] {
            assert!(address(text).is_err_and(|why| why.contains("expected one such as")), "{text}");
        }
    }

    #[test]
    fn an_answer_of_another_listener_is_told_from_a_refusal() {
        let another =
            |status: u16, kind, text| Another::of(StatusCode::from_u16(status).unwrap(), kind, text);
        assert!(another(200, Some("application/json"), "{}").is_none());
        assert!(another(404, Some("text/plain; charset=utf-8"), "no such tenant\n").is_none());
        assert!(matches!(another(404, None, ""), Some(Another::Unknown(_))));
        assert!(matches!(another(200, Some("text/html"), "<p>"), Some(Another::Unknown(_))));
        let problem = r#"{"type":"urn:cofferdam:no_tenant"}"#;
        assert!(matches!(another(400, Some("application/problem+json"), problem), Some(Another::DataPort)));
    }
}
