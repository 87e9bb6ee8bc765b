//! The demand for each class as `/metrics` show it. `cofferdam advise` reckons sizes by it.

use std::fmt;

use cofferdam_bulkhead::ClassDemand;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Shows the demand for each class, by its name.
pub(crate) fn encode(demands: &[(&str, ClassDemand)], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Requests without those that came again after a refusal, and without those beyond their tenant's share";
    let mut family = encoder.encode_descriptor("cofferdam_agent_demand", help, None, MetricType::Counter)?;
    for (class, demand) in demands {
        ConstCounter::new(demand.requests).encode(family.encode_family(&[("class", *class)])?)?;
    }
    let (name, help) = ("cofferdam_agent_demand_busiest_second", "The most of that demand within one second");
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (class, demand) in demands {
        let most = f64::from(demand.peak_per_second);
        ConstGauge::new(most).encode(family.encode_family(&[("class", *class)])?)?;
    }
    let name = "cofferdam_agent_hold_slowest_seconds";
    let help = "The highest 90th percentile of 200 holds in a row";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    demands.iter().try_for_each(|(class, demand)| {
        let slowest = demand.slowest_hold.as_secs_f64();
        ConstGauge::new(slowest).encode(family.encode_family(&[("class", *class)])?)
    })
}
