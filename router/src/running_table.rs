//! Which table runs, as metrics: all routers of a fleet show the same two numbers, or somebody is behind.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::snapshot::Snapshot;

/// Shows the revision and the digest of the snapshot that runs.
#[derive(Debug)]
pub(crate) struct RunningTable(pub(crate) Arc<ArcSwap<Snapshot>>);

impl Collector for RunningTable {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let snapshot = self.0.load();
        let revision = ConstGauge::new(snapshot.fleet.revision.0 as f64);
        let help = "The revision of the fleet file that runs";
        let metric_type = revision.metric_type();
        revision.encode(encoder.encode_descriptor(
            "cofferdam_router_revision",
            help,
            None,
            metric_type,
        )?)?;
        let (one, digest) = (ConstGauge::new(1.0_f64), snapshot.placement.digest().to_string());
        let help = "1, for the digest of the placement table that runs";
        let mut family =
            encoder.encode_descriptor("cofferdam_router_table", help, None, one.metric_type())?;
        one.encode(family.encode_family(&[("digest", digest.as_str())])?)
    }
}
