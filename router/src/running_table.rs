//! Which table runs, as metrics: all routers of a fleet show the same revision and digest, or somebody is behind; and what it
//! takes in memory.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::accepted::Ledger;
use crate::snapshot::Snapshot;

/// Shows the revision and the digest of the snapshot that runs, whether the store knows the revision by another digest, and how
/// large the tables are.
#[derive(Debug)]
pub(crate) struct RunningTable(pub(crate) Arc<ArcSwap<Snapshot>>, pub(crate) Arc<Ledger>);

impl Collector for RunningTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.0.load();
        let revision = snapshot.fleet.revision;
        let disputed = if self.1.is_disputed() { 1.0 } else { 0.0 };
        for (name, help, value) in [
            ("cofferdam_router_revision", "The revision of the fleet file that runs", revision.0 as f64),
            (
                "cofferdam_router_revision_disputed",
                "Whether another router had told the store of this revision with another table",
                disputed,
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let (one, digest) = (ConstGauge::new(1.0_f64), snapshot.placement.digest().to_string());
        let help = "1, for the revision that runs and the digest of its placement table";
        let mut family =
            encoder.encode_descriptor("cofferdam_router_table", help, None, one.metric_type())?;
        let labels = [("revision", revision.0.to_string()), ("digest", digest)];
        one.encode(family.encode_family(&labels)?)?;
        encode_bytes(&snapshot, encoder)
    }
}

/// A release is there until the next file, and counts by itself.
fn encode_bytes(snapshot: &Snapshot, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
    let release = snapshot.wave.as_ref().map_or(0, |wave| wave.bytes());
    let gauges = [("slots", snapshot.placement.table_bytes()), ("release", release)];
    let gauges = gauges.map(|(of, bytes)| (of, ConstGauge::new(bytes as f64)));
    let help = "Memory of the placement tables, and of the release of changed slots";
    let metric_type = gauges[0].1.metric_type();
    let mut family = encoder.encode_descriptor("cofferdam_router_table_bytes", help, None, metric_type)?;
    gauges.iter().try_for_each(|(of, gauge)| gauge.encode(family.encode_family(&[("of", *of)])?))
}
