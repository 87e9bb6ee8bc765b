//! What keeps retries and poison from doing harm, as Prometheus metrics: counts, and no tenant's name.

use std::fmt;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::directory::Directory;

/// Shows the losses and the retry budget of one directory.
#[derive(Debug)]
pub(crate) struct RestraintCollector(pub(crate) Directory);

impl Collector for RestraintCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (losses, retries) = (self.0.losses.counts(Instant::now()), self.0.retries.counts());
        let counters = [
            (
                "cofferdam_router_cell_losses",
                "Cells lost while requests were in flight on them",
                losses.losses,
            ),
            (
                "cofferdam_router_tenants_ever_confined",
                "Tenants sent to their home cell alone after two losses",
                losses.ever_confined,
            ),
            ("cofferdam_router_retries", "Requests tried again that may have been executed", retries.allowed),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let (name, help) = ("cofferdam_router_retries_denied", "Retries that a budget did not allow");
        let counter = ConstCounter::new(0_u64);
        let mut family = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
        for (budget, denied) in [("tenant", retries.denied_tenant), ("all", retries.denied_all)] {
            ConstCounter::new(denied).encode(family.encode_family(&[("budget", budget)])?)?;
        }
        let gauge = ConstGauge::new(losses.confined as i64);
        let (name, help) = ("cofferdam_router_tenants_confined", "Tenants sent to their home cell alone now");
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}
