//! Names of upstreams, resolved off the requests' way: a task for each name asks every few seconds, and after a connect that
//! failed. The last good answer stays until there is another. It knows no pool; a pool asks whether a connection is still to be used.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

/// What resolves names. The system's resolver does by default.
pub trait Lookup: fmt::Debug + Send + Sync + 'static {
    /// The addresses of `host`, best first. An empty answer is taken for none.
    fn lookup(&self, host: Arc<str>) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// How often a name is resolved.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Without a reason.
    pub every: Duration,
    /// At most, however many connects fail.
    pub least: Duration,
}

/// All names of one process. Clones are the same.
#[derive(Debug, Clone)]
pub struct Names(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lookup: Arc<dyn Lookup>,
    pace: Pace,
    /// What nobody uses any more is taken out when another comes.
    hosts: Mutex<HashMap<Arc<str>, Weak<Host>>>,
    endpoints: Mutex<HashMap<Arc<str>, Weak<Endpoint>>>,
}

/// The system's resolver, `getaddrinfo`, in the runtime's pool of threads that may block.
#[derive(Debug)]
struct System;

/// A host and a port, as everybody in this process reaches it.
#[derive(Debug)]
pub struct Endpoint {
    authority: Arc<str>,
    port: u16,
    host: Place,
    /// Raised when connections that nobody uses are to close.
    epoch: AtomicU64,
}

#[derive(Debug)]
enum Place {
    Literal(IpAddr),
    Named(Arc<Host>),
    /// No port, or no host.
    Nowhere,
}

/// A name, and what is known of it.
#[derive(Debug)]
struct Host {
    name: Arc<str>,
    names: Arc<Shared>,
    /// Whether a task resolves it.
    is_followed: AtomicBool,
    known: watch::Sender<Known>,
    /// A connect failed: the answer may be old.
    failed: Arc<Notify>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Known {
    /// The first answer is awaited.
    Nothing,
    /// There never was an answer.
    Failed(String),
    Addresses(Arc<[IpAddr]>),
}

/// What a connection was made by: as long as it [holds](Endpoint::holds), the connection may be used again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    epoch: u64,
    /// Where a name led to.
    ip: Option<IpAddr>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { every: Duration::from_secs(5), least: Duration::from_millis(500) }
    }
}

impl Default for Names {
    fn default() -> Self {
        Self::new(System, Pace::default())
    }
}

impl Lookup for System {
    fn lookup(&self, host: Arc<str>) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move { Ok(tokio::net::lookup_host((&*host, 0)).await?.map(|at| at.ip()).collect()) })
    }
}

impl Names {
    /// Names that `lookup` resolves.
    pub fn new(lookup: impl Lookup, pace: Pace) -> Self {
        let (hosts, endpoints) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Shared { lookup: Arc::new(lookup), pace, hosts, endpoints }))
    }

    /// The endpoint at `authority`, which is `host:port`. For a name that nobody else uses this begins to resolve it, on the
    /// current runtime, until the endpoint is dropped.
    pub fn endpoint(&self, authority: &str) -> Arc<Endpoint> {
        let mut endpoints = self.0.endpoints.lock();
        if let Some(known) = endpoints.get(authority).and_then(Weak::upgrade) {
            return known;
        }
        endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
        let endpoint = Arc::new(Endpoint::new(authority, |host| self.host(host)));
        endpoints.insert(Arc::clone(&endpoint.authority), Arc::downgrade(&endpoint));
        endpoint
    }

    fn host(&self, name: &str) -> Arc<Host> {
        let mut hosts = self.0.hosts.lock();
        if let Some(known) = hosts.get(name).and_then(Weak::upgrade) {
            return known;
        }
        hosts.retain(|_, host| host.strong_count() > 0);
        let known = watch::Sender::new(Known::Nothing);
        let (names, is_followed, failed) = (Arc::clone(&self.0), AtomicBool::new(false), Arc::default());
        let host = Arc::new(Host { name: name.into(), names, is_followed, known, failed });
        hosts.insert(Arc::clone(&host.name), Arc::downgrade(&host));
        host.begin();
        host
    }
}

/// Resolves one name for as long as anybody uses it. One lookup is under way at a time: a resolver that is slow is not asked more.
async fn follow(shared: Arc<Shared>, host: Weak<Host>) {
    loop {
        let Some(name) = host.upgrade().map(|host| Arc::clone(&host.name)) else { return };
        let answer = shared.lookup.lookup(name).await;
        let Some(failed) = host.upgrade().map(|host| host.learn(answer)) else { return };
        sleep(shared.pace.least).await;
        let _ = timeout(shared.pace.every.saturating_sub(shared.pace.least), failed.notified()).await;
    }
}

impl Host {
    /// Takes an answer; what tells of connects that failed is handed back.
    fn learn(&self, answer: io::Result<Vec<IpAddr>>) -> Arc<Notify> {
        let answer = match answer {
            Ok(addresses) if addresses.is_empty() => Err("it has no address".to_owned()),
            Ok(addresses) => Ok(Known::Addresses(addresses.into())),
            Err(error) => Err(error.to_string()),
        };
        self.known.send_if_modified(|known| match answer {
            Ok(new) if *known != new => {
                tracing::info!(host = %self.name, addresses = ?new, "name resolved");
                *known = new;
                true
            }
            Ok(_) => false,
            Err(error) => {
                let is_first = *known == Known::Nothing;
                if is_first {
                    tracing::warn!(host = %self.name, %error, "name does not resolve");
                }
                if !matches!(known, Known::Addresses(_)) {
                    *known = Known::Failed(error);
                }
                is_first
            }
        });
        Arc::clone(&self.failed)
    }

    /// Begins to resolve it on the current runtime; without one, whoever asks first for its addresses does.
    fn begin(self: &Arc<Self>) {
        if let Ok(runtime) = Handle::try_current()
            && !self.is_followed.swap(true, Ordering::Relaxed)
        {
            runtime.spawn(follow(Arc::clone(&self.names), Arc::downgrade(self)));
        }
    }

    /// The addresses, once there was an answer.
    async fn addresses(self: &Arc<Self>) -> io::Result<Arc<[IpAddr]>> {
        self.begin();
        let mut known = self.known.subscribe();
        let known = known.wait_for(|known| *known != Known::Nothing).await;
        // The sender is at hand.
        match known.map_err(io::Error::other)?.clone() {
            Known::Addresses(addresses) => Ok(addresses),
            Known::Nothing => Err(io::ErrorKind::NotFound.into()),
            Known::Failed(why) => Err(io::Error::new(io::ErrorKind::NotFound, why)),
        }
    }
}

impl Endpoint {
    fn new(authority: &str, host: impl FnOnce(&str) -> Arc<Host>) -> Self {
        let (place, port) = match authority.rsplit_once(':').map(|(host, port)| (host, port.parse())) {
            Some((name, Ok(port))) if !name.is_empty() => {
                let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
                (bare.parse().map_or_else(|_| Place::Named(host(name)), Place::Literal), port)
            }
            _ => (Place::Nowhere, 0),
        };
        Self { authority: authority.into(), port, host: place, epoch: AtomicU64::new(0) }
    }

    /// `host:port`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether a resolver has to be asked for it.
    pub fn is_named(&self) -> bool {
        matches!(self.host, Place::Named(_))
    }

    /// Where connections go, best first. Only the first answer for a name is waited for.
    ///
    /// # Errors
    ///
    /// The name never resolved.
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        match &self.host {
            Place::Literal(ip) => Ok(vec![SocketAddr::new(*ip, self.port)]),
            Place::Named(host) => {
                let addresses = host.addresses().await.inspect_err(|_| host.failed.notify_one())?;
                Ok(addresses.iter().map(|ip| SocketAddr::new(*ip, self.port)).collect())
            }
            Place::Nowhere => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a host and a port")),
        }
    }

    /// A connection to the first address that takes one.
    ///
    /// # Errors
    ///
    /// None does, or the name never resolved.
    pub async fn connect(&self) -> io::Result<TcpStream> {
        if let Place::Literal(ip) = self.host {
            return TcpStream::connect((ip, self.port)).await;
        }
        // Also where whoever waits gives up.
        let failed = Failing(self);
        let stream = TcpStream::connect(&*self.addresses().await?).await?;
        std::mem::forget(failed);
        Ok(stream)
    }

    /// Has connections close that nobody uses, as where the endpoint is believed down: one to a host that has vanished closes by
    /// nothing else.
    pub fn close_idle(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// What a connection is made by now.
    pub(super) fn stamp(&self, stream: &TcpStream) -> Stamp {
        let ip = self.is_named().then(|| stream.peer_addr().ok().map(|at| at.ip().to_canonical())).flatten();
        Stamp { epoch: self.epoch.load(Ordering::Relaxed), ip }
    }

    /// Whether a connection made by this may be used again: its address is still one of the name's.
    pub(super) fn holds(&self, stamp: Stamp) -> bool {
        if self.epoch.load(Ordering::Relaxed) != stamp.epoch {
            return false;
        }
        let (Place::Named(host), Some(ip)) = (&self.host, stamp.ip) else { return true };
        match &*host.known.borrow() {
            Known::Addresses(addresses) => addresses.iter().any(|known| known.to_canonical() == ip),
            Known::Nothing | Known::Failed(_) => true,
        }
    }
}

/// Dropped, it says that a connect failed.
struct Failing<'a>(&'a Endpoint);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if let Place::Named(host) = &self.0.host {
            host.failed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
