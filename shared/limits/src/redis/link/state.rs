//! How the connections of a link are, for an operator.

use super::keeper::Keeper;
use super::server::Policy;
use super::trouble::StoreTrouble;

const SHARED: &str = "shared";
const CONNECTING: &str = "connecting";

/// How the connections are now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LinkState {
    /// Servers that belong to the store: one, or every master of a cluster as far as it is known.
    pub n_servers: usize,
    /// Those of them that are connected.
    pub n_connected: usize,
    /// Whether every key has a server: not where a cluster has slots that nobody owns, or is not known yet.
    pub is_covered: bool,
    /// Why a connection failed or ended most lately, also where another one stands by now.
    pub last_error: Option<String>,
    /// What keeps the store from being used now; nothing while it is used, or before anything is known.
    pub trouble: Option<StoreTrouble>,
    /// The version of a connected server.
    pub server_version: Option<String>,
    /// What happens when a server's memory is full: in a cluster, the worst of all.
    pub policy: Policy,
}

impl LinkState {
    /// Of servers, and what those that are connected refuse calls for.
    pub(super) fn of<'a>(
        servers: impl IntoIterator<Item = &'a Keeper>,
        is_covered: bool,
        refused: Option<(StoreTrouble, String)>,
    ) -> Self {
        let mut state = Self { is_covered, policy: Policy::NoEviction, ..Self::default() };
        for server in servers {
            state.n_servers += 1;
            let (trouble, error) = server.last_error().unzip();
            state.last_error = error.or(state.last_error);
            match server.live() {
                Some(live) => {
                    state.n_connected += 1;
                    state.server_version = state.server_version.or_else(|| live.server.version.clone());
                    state.policy = worse(state.policy, live.server.policy.clone());
                }
                None => {
                    state.policy = worse(state.policy, Policy::Unknown);
                    state.trouble = trouble.or(state.trouble);
                }
            }
        }
        if state.n_servers == 0 {
            state.policy = Policy::Unknown;
        }
        if let Some((trouble, error)) = refused {
            state.trouble = state.trouble.or(Some(trouble));
            state.last_error = Some(error);
        }
        state
    }

    /// Every word that [`word`](Self::word) can be.
    pub fn words() -> impl Iterator<Item = &'static str> {
        [SHARED, CONNECTING].into_iter().chain(StoreTrouble::ALL.map(StoreTrouble::as_str))
    }

    /// How it goes, in one word: `shared`, `connecting` before anything is known, or the trouble there is.
    pub fn word(&self) -> &'static str {
        match self.trouble {
            Some(trouble) => trouble.as_str(),
            None if self.is_connected() => SHARED,
            None => CONNECTING,
        }
    }

    /// Whether every server is connected that a call may have to go to.
    pub fn is_connected(&self) -> bool {
        self.is_covered && self.n_servers > 0 && self.n_connected == self.n_servers
    }
}

fn worse(one: Policy, other: Policy) -> Policy {
    match (one, other) {
        (evicts @ Policy::Evicts(_), _) | (_, evicts @ Policy::Evicts(_)) => evicts,
        (Policy::NoEviction, Policy::NoEviction) => Policy::NoEviction,
        _ => Policy::Unknown,
    }
}
