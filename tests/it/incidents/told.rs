//! What `cofferdam explain` says in an incident, and what it has to say.

use std::net::SocketAddr;

use crate::support::processes::run;

/// The tenant that has the incident.
pub(super) const ACME: &str = "acme";

/// Pins two tenants to the same cells.
pub(super) const PINS: &str = "placement: { pins: { acme: [cell-a, cell-b], initech: [cell-a, cell-b] } }\n";

/// What `explain` said in an incident.
pub(super) struct Told {
    /// What was wrong.
    pub(super) incident: &'static str,
    /// What the first line has to have.
    pub(super) names: &'static [&'static str],
    /// The exit code that it has to have.
    pub(super) code: i32,
    pub(super) said: String,
    pub(super) ended: Option<i32>,
}

impl Told {
    /// Asks these routers of the tenant, as an operator does.
    pub(super) async fn by(
        incident: &'static str,
        (names, code): (&'static [&'static str], i32),
        routers: &[SocketAddr],
        tenant: &str,
    ) -> Self {
        let (said, ended) = explain(routers, tenant).await;
        Self { incident, names, code, said, ended }
    }

    pub(super) fn first(&self) -> &str {
        self.said.lines().next().unwrap_or_default().trim_start()
    }

    pub(super) fn todo(&self) -> &str {
        self.said.lines().nth(1).unwrap_or_default().trim_start()
    }

    pub(super) fn is_right(&self) -> bool {
        let mark = if self.code == 1 { "! " } else { "- " };
        self.ended == Some(self.code)
            && self.first().starts_with(mark)
            && !self.todo().is_empty()
            && self.names.iter().all(|name| self.first().contains(name))
    }
}

/// What the command prints, and its exit code.
pub(super) async fn explain(routers: &[SocketAddr], tenant: &str) -> (String, Option<i32>) {
    let mut words = vec!["explain".to_owned(), tenant.to_owned()];
    words.extend(routers.iter().flat_map(|admin| ["--admin".to_owned(), format!("http://{admin}")]));
    let run = move || run(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}
