//! Where a process's listening sockets come from: from the process that it follows, from whoever started it, or from its
//! flags, in this order; and how they go on to the process that follows it.

use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use anyhow::{Context, bail};
use cofferdam_proxy::census::DEFAULT_PER_ADDRESS;
use cofferdam_proxy::handover::{Claimed, HandoverError, Named, Offer, Ownership, PATIENCE, claim};
use cofferdam_proxy::listen;
use cofferdam_proxy::passed;
use cofferdam_proxy::replay::BodyLimits;
use cofferdam_proxy::serve::ServeLimits;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::lasting::{self, more_than_nothing};
use crate::process::{Signals, Told};

/// What sockets are called, among processes and in LISTEN_FDNAMES.
const DATA: &str = "data";
const ADMIN: &str = "admin";
const PROBES: &str = "probes";

/// Flags of every process that hands its sockets on.
#[derive(Debug, clap::Args)]
pub(crate) struct SocketArgs {
    /// Where to take the listening sockets over from the process that runs, and offer them to the next one: a Unix
    /// socket's path
    #[arg(long, env = "COFFERDAM_HANDOVER", value_name = "PATH")]
    handover: Option<PathBuf>,

    /// More names by which operators ask the admin listener, with commas: it answers by localhost, loopback addresses and the
    /// address that it listens on, so that no page in a browser reaches it by a name of its own
    #[arg(long, env = "COFFERDAM_ADMIN_HOST", value_name = "NAMES", value_delimiter = ',')]
    pub(crate) admin_host: Vec<String>,
}

/// Flags of every process that serves clients: what they may hold of it, and how often it logs whom it refused.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// The most connections of clients, shared out evenly among workers; more wait [default: 16384 for each worker]
    #[arg(long, env = "COFFERDAM_MAX_CONNECTIONS", value_name = "N")]
    pub(crate) max_connections: Option<NonZeroU32>,

    /// The most connections of one address, or of one /64 of IPv6; more are closed. Trusted addresses have no such bound
    #[arg(long, env = "COFFERDAM_MAX_CONNECTIONS_PER_ADDRESS", value_name = "N", default_value_t = DEFAULT_PER_ADDRESS)]
    pub(crate) max_connections_per_address: NonZeroU32,

    /// The most bytes of a request's body; more is 413. All messages of a streaming gRPC call are one body. 0 is refused:
    /// there is always a bound [default: 10485760]
    #[arg(long, env = "COFFERDAM_MAX_BODY_BYTES", value_name = "N")]
    max_body_bytes: Option<NonZeroU64>,

    /// How often refusals are summed up in the log, one line for each reason and class; 0s: never
    #[arg(long, env = "COFFERDAM_REFUSALS_EVERY", value_name = "TIME", default_value = "1m", value_parser = lasting::time)]
    pub(crate) refusals_every: Duration,

    /// How long a client's connection may be idle between two requests, and from its start. It must be longer than the
    /// balancer in front keeps unused connections, or that meets connections that are closed here [default: 75s, since
    /// balancers have 60s]
    #[arg(long, env = "COFFERDAM_CLIENT_IDLE", value_name = "TIME", value_parser = more_than_nothing)]
    client_idle: Option<Duration>,
}

/// What a process listens on where no socket is there already.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// The kind of process: it follows no other one.
    pub(crate) role: &'static str,
    pub(crate) data: SocketAddr,
    pub(crate) n_workers: usize,
    /// `None` for a process without an admin listener.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) probes: SocketAddr,
}

/// The listening sockets of a process.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) data: Vec<TcpListener>,
    pub(crate) admin: Option<TcpListener>,
    pub(crate) probes: TcpListener,
    /// Of what outlives the process.
    pub(crate) ownership: Ownership,
    pub(crate) succession: Succession,
}

/// The addresses at which a process listens, with the ports that the system chose where 0 was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) data: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) probes: SocketAddr,
}

impl Sockets {
    pub(crate) fn bound(&self) -> std::io::Result<Bound> {
        let data = self
            .data
            .first()
            .map_or_else(|| Err(std::io::ErrorKind::NotFound.into()), TcpListener::local_addr)?;
        let admin = self.admin.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(Bound { data, admin, probes: self.probes.local_addr()? })
    }
}

/// A process's place between the one that it follows and the one that follows it.
#[derive(Debug)]
pub(crate) struct Succession {
    role: &'static str,
    path: Option<PathBuf>,
    claimed: Option<Claimed>,
    /// The process that ran before has not said yet that it lets go.
    following: Option<JoinHandle<Result<(), HandoverError>>>,
    sockets: Vec<Named>,
    ownership: Ownership,
    offer: Option<Offer>,
}

/// The sockets that whoever started the process opened for it. Call it before there is a second thread.
pub(crate) fn passed() -> anyhow::Result<Vec<Named>> {
    Ok(passed::from_environment()?)
}

impl SocketArgs {
    /// Every socket of `wanted`: taken over, else passed, else bound.
    pub(crate) async fn open(&self, wanted: &Wanted, passed: Vec<Named>) -> anyhow::Result<Sockets> {
        let mut claimed = None;
        if let Some(path) = &self.handover {
            let could_not = || format!("could not take the sockets over at {}", path.display());
            claimed = claim(path, wanted.role).await.with_context(could_not)?;
        }
        let found = match &mut claimed {
            Some(claimed) => std::mem::take(&mut claimed.sockets),
            None => passed,
        };
        let (data, admin, probes) = wanted.open(found)?;
        admin.iter().for_each(warn_of_exposed);
        if claimed.is_some() {
            wanted.warn_of_others(&data, admin.as_ref(), &probes);
        }
        let mut sockets = Vec::new();
        if self.handover.is_some() {
            let names = data.iter().map(|socket| (DATA, socket));
            let names = names.chain(admin.iter().map(|socket| (ADMIN, socket))).chain([(PROBES, &probes)]);
            for (name, listener) in names {
                sockets.push(Named { name: name.to_owned(), listener: listener.try_clone()? });
            }
        }
        let (role, path) = (wanted.role, self.handover.clone());
        let ownership = if claimed.is_some() { Ownership::awaited() } else { Ownership::default() };
        let owned = ownership.clone();
        let succession =
            Succession { role, path, claimed, following: None, sockets, ownership: owned, offer: None };
        Ok(Sockets { data, admin, probes, ownership, succession })
    }
}

impl ClientArgs {
    /// The bounds on clients, which are `usual` as far as no flag says otherwise.
    pub(crate) fn serve(&self, usual: ServeLimits) -> ServeLimits {
        ServeLimits { idle: self.client_idle.unwrap_or(usual.idle), ..usual }
    }

    /// Bounds on request bodies.
    pub(crate) fn body(&self) -> BodyLimits {
        let default = BodyLimits::default();
        BodyLimits { max_bytes: self.max_body_bytes.map_or(default.max_bytes, NonZeroU64::get), ..default }
    }
}

impl Wanted {
    /// Sorts what was found by name, and binds what is missing.
    fn open(
        &self,
        found: Vec<Named>,
    ) -> anyhow::Result<(Vec<TcpListener>, Option<TcpListener>, TcpListener)> {
        let (mut data, mut admin, mut probes) = (Vec::new(), Vec::new(), Vec::new());
        // A socket unit names its sockets after itself where it says nothing.
        let are_named = found.iter().any(|socket| [DATA, ADMIN, PROBES].contains(&socket.name.as_str()));
        for Named { name, listener } in found {
            match name.as_str() {
                ADMIN => admin.push(listener),
                PROBES => probes.push(listener),
                name if name == DATA || !are_named => data.push(listener),
                name => bail!("socket {name:?} is none of {DATA}, {ADMIN} and {PROBES}"),
            }
        }
        if admin.len() > usize::from(self.admin.is_some()) || probes.len() > 1 {
            bail!(
                "{} {ADMIN} and {} {PROBES} sockets are more than this process has",
                admin.len(),
                probes.len()
            );
        }
        let could_not = |address| format!("could not listen on {address}");
        let bind = |address| listen::one(address).with_context(|| could_not(address));
        // The data port comes last: what clients can connect to lacks nothing else.
        let admin = match (admin.pop(), self.admin) {
            (None, Some(address)) => Some(bind(address)?),
            (admin, _) => admin,
        };
        let probes = probes.pop().map_or_else(|| bind(self.probes), Ok)?;
        if data.is_empty() {
            data = listen::shared(self.data, self.n_workers).with_context(|| could_not(self.data))?;
        } else {
            let at = data[0].local_addr()?;
            tracing::info!(n = data.len(), %at, "serves on sockets that were open");
        }
        Ok((data, admin, probes))
    }
}

/// Says that an admin listener can be reached from beyond this machine: it asks nobody for a password.
fn warn_of_exposed(admin: &TcpListener) {
    if let Ok(at) = admin.local_addr()
        && !at.ip().to_canonical().is_loopback()
    {
        tracing::warn!(
            "the admin listener at {at} has no password, so anybody who can reach it changes limits, placement and drills: \
             keep it on loopback, or let a firewall keep others from it"
        );
    }
}

impl Wanted {
    /// Says where sockets that were handed over are not where they are wanted: they stay where they are.
    fn warn_of_others(&self, data: &[TcpListener], admin: Option<&TcpListener>, probes: &TcpListener) {
        let admin = self.admin.zip(admin.map(slice::from_ref));
        let admin = admin.map(|(wanted, socket)| ("--admin", wanted, socket));
        let others =
            [("--listen", self.data, data), ("--probe-listen", self.probes, slice::from_ref(probes))];
        for (flag, wanted, sockets) in others.into_iter().chain(admin) {
            let ats: Vec<_> = sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect();
            let is_wanted = |at: &SocketAddr| {
                at.ip() == wanted.ip() && (wanted.port() == 0 || at.port() == wanted.port())
            };
            if let Some(at) = ats.first()
                && !ats.iter().any(is_wanted)
            {
                tracing::warn!(
                    "serves on {at}, which was handed over, and not on {wanted}, as {flag} says: sockets move at a start \
                     without a predecessor alone"
                );
            }
        }
    }
}

impl Succession {
    /// Call it once the process serves: the process that it follows stops, and the next one may come. Whether there was one
    /// that hands over: where it says nothing, both serve until it does, and [`next`](Self::next) tells of it.
    pub(crate) async fn serving(&mut self) -> anyhow::Result<bool> {
        let Some(claimed) = self.claimed.take() else {
            self.offer()?;
            return Ok(false);
        };
        let mut following = tokio::spawn(claimed.serving());
        match timeout(PATIENCE, &mut following).await {
            Ok(followed) => followed?.context("could not follow the process that runs")?,
            Err(_) => {
                tracing::warn!("the process that ran before says nothing: both serve until it does");
                self.following = Some(following);
                return Ok(false);
            }
        }
        self.followed().await;
        Ok(true)
    }

    /// Nobody serves beside this process any more: what goes wrong from here on is no reason to leave.
    async fn followed(&mut self) {
        self.ownership.take().await;
        tracing::info!("the process that ran before hands over");
        if let Err(error) = self.offer() {
            tracing::error!("nobody can follow this process: {error:#}");
        }
    }

    fn offer(&mut self) -> anyhow::Result<()> {
        if let Some(path) = &self.path {
            let could_not = || format!("could not offer the sockets at {}", path.display());
            let sockets = std::mem::take(&mut self.sockets);
            let offer = Offer::open(path, self.role, sockets, self.ownership.clone());
            self.offer = Some(offer.with_context(could_not)?);
        }
        Ok(())
    }

    /// The next thing that the process is told. Where it is told to leave, a successor that has come already is waited
    /// for. A process that ran before and hands over only meanwhile is no reason to stop what is being done: `handed_over` hears of it.
    pub(crate) async fn next(&mut self, signals: &mut Signals, handed_over: impl Fn()) -> Told {
        let told = loop {
            tokio::select! {
                told = signals.next() => break told,
                () = taken(&mut self.offer) => break Told::Leave,
                followed = ended(&mut self.following) => match followed {
                    Ok(()) => {
                        handed_over();
                        self.followed().await;
                    }
                    Err(error) => {
                        tracing::error!("leaving: could not follow the process that runs: {error:#}");
                        break Told::Leave;
                    }
                },
            }
        };
        if told == Told::Leave
            && let Some(offer) = self.offer.take()
            && offer.close().await
        {
            return Told::Followed;
        }
        told
    }
}

/// Waits for a successor that serves.
async fn taken(offer: &mut Option<Offer>) {
    match offer {
        Some(offer) => offer.taken().await,
        None => pending().await,
    }
}

/// Waits for the word of the process that ran before, where it is still to come.
async fn ended(following: &mut Option<JoinHandle<Result<(), HandoverError>>>) -> anyhow::Result<()> {
    let followed = match following {
        Some(following) => following.await,
        None => pending().await,
    };
    *following = None;
    Ok(followed??)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

    fn opened(names: &[&str], admin: Option<SocketAddr>) -> anyhow::Result<(usize, bool)> {
        let one = |name: &&str| Named { name: (*name).to_owned(), listener: listen::one(ANY).unwrap() };
        let wanted = Wanted { role: "test", data: ANY, n_workers: 2, admin, probes: ANY };
        let (data, admin, _) = wanted.open(names.iter().map(one).collect())?;
        Ok((data.len(), admin.is_some()))
    }

    #[test]
    fn sockets_are_sorted_by_name_and_what_is_missing_is_bound() {
        assert_eq!(opened(&[], Some(ANY)).unwrap(), (2, true));
        assert_eq!(opened(&["data", "probes", "data", "data"], None).unwrap(), (3, false));
        assert_eq!(opened(&["", ""], Some(ANY)).unwrap(), (2, true));
        assert_eq!(opened(&["cofferdam.socket"], Some(ANY)).unwrap(), (1, true));
        assert_eq!(opened(&["admin"], Some(ANY)).unwrap(), (2, true));
    }

    #[test]
    fn a_socket_that_the_process_has_no_use_for_is_refused() {
        let error = |names: &[&str]| opened(names, None).unwrap_err().to_string();
        assert_eq!(error(&["data", "prob"]), "socket \"prob\" is none of data, admin and probes");
        for names in [["data", "admin"], ["probes", "probes"]] {
            assert!(error(&names).ends_with("are more than this process has"));
        }
    }
}
