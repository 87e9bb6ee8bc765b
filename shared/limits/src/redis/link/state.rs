//! How the connections of a link are, for an operator.

use super::keeper::Keeper;
use super::server::Policy;

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
    /// The version of a connected server.
    pub server_version: Option<String>,
    /// What happens when a server's memory is full: in a cluster, the worst of all.
    pub policy: Policy,
}

impl LinkState {
    pub(super) fn of<'a>(servers: impl IntoIterator<Item = &'a Keeper>, is_covered: bool) -> Self {
        let mut state = Self { is_covered, policy: Policy::NoEviction, ..Self::default() };
        for server in servers {
            state.n_servers += 1;
            state.last_error = server.last_error().or(state.last_error);
            match server.live() {
                Some(live) => {
                    state.n_connected += 1;
                    state.server_version = state.server_version.or_else(|| live.server.version.clone());
                    state.policy = worse(state.policy, live.server.policy.clone());
                }
                None => state.policy = worse(state.policy, Policy::Unknown),
            }
        }
        if state.n_servers == 0 {
            state.policy = Policy::Unknown;
        }
        state
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
