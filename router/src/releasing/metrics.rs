//! A release as Prometheus metrics, read when they are scraped.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use super::steering::Releasing;

/// Shows the release of one router.
#[derive(Debug)]
pub(crate) struct ReleaseCollector(pub(crate) Arc<Releasing>);

impl Collector for ReleaseCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let standing = self.0.standing();
        let (n_slots, n_loose, stopped) =
            standing.map_or((0, 0, false), |standing| (standing.n_slots, standing.n_loose, standing.stopped));
        for (name, help, value) in [
            (
                "cofferdam_router_release_slots",
                "Slots that change in the release that is under way; 0 where none is",
                i64::from(n_slots),
            ),
            (
                "cofferdam_router_release_slots_waiting",
                "Of them, those that wait for their turn",
                i64::from(n_slots - n_loose),
            ),
            ("cofferdam_router_release_stopped", "Whether somebody stopped the release", i64::from(stopped)),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
