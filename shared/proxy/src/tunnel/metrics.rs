//! What is counted of tunnels: those that are open, the bytes both ways while they go, and how they ended.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::end::{TunnelEnd, Way};

/// A process's counters of tunnels. Clones share them.
#[derive(Debug, Clone)]
pub struct TunnelMetrics {
    open: Gauge,
    up: Counter,
    down: Counter,
    ends: [Counter; TunnelEnd::ALL.len()],
}

impl TunnelMetrics {
    /// Counters in `registry`; their names begin with `prefix`.
    pub fn register(registry: &mut Registry, prefix: &str) -> Self {
        let open = Gauge::default();
        let bytes = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let ends = Family::<[(&'static str, &'static str); 1], Counter>::default();
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("tunnels_open", "Tunnels that are open", open.clone());
        registry.register("tunnel_bytes", "Bytes that went through tunnels, by direction", bytes.clone());
        registry.register("tunnels", "Tunnels by how they ended", ends.clone());
        let direction = |word| bytes.get_or_create_owned(&[("direction", word)]);
        Self {
            open,
            up: direction("up"),
            down: direction("down"),
            ends: TunnelEnd::ALL.map(|end| ends.get_or_create_owned(&[("end", end.as_str())])),
        }
    }

    /// How many tunnels are open.
    pub fn n_open(&self) -> u64 {
        u64::try_from(self.open.get()).unwrap_or_default()
    }

    pub(super) fn begun(&self) {
        self.open.inc();
    }

    pub(super) fn copied(&self, way: Way, bytes: u64) {
        match way {
            Way::Up => self.up.inc_by(bytes),
            Way::Down => self.down.inc_by(bytes),
        };
    }

    pub(super) fn ended(&self, end: TunnelEnd) {
        if end != TunnelEnd::NotBegun {
            self.open.dec();
        }
        self.ends[end as usize].inc();
    }
}
