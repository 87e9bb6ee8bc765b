//! What a process's listeners count together: open connections, how many each client address has, and requests that
//! panicked. It refuses an address that has too many, and knows nothing of what is asked on them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The most connections of one address where nothing else is said: more than any client needs, and a fraction of what one
/// worker takes.
pub const DEFAULT_PER_ADDRESS: NonZeroU32 = NonZeroU32::new(1024).unwrap();

/// The count of a process's connections, and of what goes wrong on them. Clones share it.
#[derive(Debug, Clone)]
pub struct Census {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    max_per_address: NonZeroU32,
    /// Only addresses that have a connection, so it is never larger than the connections are many.
    addresses: Mutex<HashMap<Source, u32>>,
    open: Gauge,
    refused: Counter,
    panics: Counter,
}

/// Where a connection comes from, as far as it counts: a host of IPv6 has a whole /64 to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    V4([u8; 4]),
    V6Net([u8; 8]),
}

/// One connection's part in the count, for as long as it is kept.
#[derive(Debug, Default)]
pub struct Counted(Option<(Census, Option<Source>)>);

impl Census {
    /// A count whose metrics are in `registry`, with names that begin with `prefix`. An address has at most
    /// `max_per_address` connections.
    pub fn register(registry: &mut Registry, prefix: &str, max_per_address: NonZeroU32) -> Self {
        let (open, panics) = (Gauge::default(), Counter::default());
        let refused = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("connections_open", "Connections of clients that are open", open.clone());
        let help = "Connections that were closed unanswered, by reason";
        registry.register("connections_refused", help, refused.clone());
        registry.register("panics", "Requests that met a fault of this program", panics.clone());
        let refused = refused.get_or_create_owned(&[("reason", "address")]);
        Self {
            shared: Arc::new(Shared { max_per_address, addresses: Mutex::default(), open, refused, panics }),
        }
    }

    /// Counts a connection; `None` where its address has as many as it may. One that is `exempt` has no such bound.
    pub fn enter(&self, peer: IpAddr, exempt: bool) -> Option<Counted> {
        let source = (!exempt).then(|| Source::of(peer));
        if let Some(source) = source {
            let mut addresses = self.shared.addresses.lock();
            let n = addresses.entry(source).or_default();
            if *n >= self.shared.max_per_address.get() {
                self.shared.refused.inc();
                return None;
            }
            *n += 1;
        }
        self.shared.open.inc();
        Some(Counted(Some((self.clone(), source))))
    }

    /// Counts a request that panicked.
    pub fn panicked(&self) {
        self.shared.panics.inc();
    }
}

impl Source {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6Net([a, b, c, d, e, f, g, h])
            }
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let Some((census, source)) = self.0.take() else { return };
        census.shared.open.dec();
        let Some(source) = source else { return };
        let mut addresses = census.shared.addresses.lock();
        if let Some(n) = addresses.get_mut(&source) {
            *n -= 1;
            if *n == 0 {
                addresses.remove(&source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(max: u32) -> Census {
        Census::register(&mut Registry::default(), "test", NonZeroU32::new(max).unwrap())
    }

    fn enter(census: &Census, peer: &str, exempt: bool) -> Option<Counted> {
        census.enter(peer.parse().unwrap(), exempt)
    }

    #[test]
    fn an_address_has_no_more_than_its_share_and_gives_it_back() {
        let census = census(2);
        let held: Vec<_> = (0..2).map(|_| enter(&census, "10.0.0.1", false).unwrap()).collect();
        assert!(enter(&census, "10.0.0.1", false).is_none());
        assert!(enter(&census, "::ffff:10.0.0.1", false).is_none(), "the same address in IPv6's words");
        let others = (enter(&census, "10.0.0.2", false).unwrap(), enter(&census, "10.0.0.1", true).unwrap());
        assert_eq!((census.shared.open.get(), census.shared.refused.get()), (4, 2));
        drop((held, others));
        assert_eq!((census.shared.open.get(), census.shared.addresses.lock().len()), (0, 0));
        assert!(enter(&census, "10.0.0.1", false).is_some());
    }

    #[test]
    fn a_whole_64_of_ipv6_counts_as_one() {
        let census = census(1);
        let _held = enter(&census, "2001:db8:0:1::1", false).unwrap();
        assert!(enter(&census, "2001:db8:0:1:ffff::2", false).is_none());
        assert!(enter(&census, "2001:db8:0:2::1", false).is_some());
    }
}
