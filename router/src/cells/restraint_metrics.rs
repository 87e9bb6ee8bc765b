//! What keeps retries and poison from doing harm, as Prometheus metrics: counts, and the names of a few tenants that are confined.

use std::fmt;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::directory::Directory;

/// The most tenants that are named: more at once are an outage, and `/losses` lists them all.
const MAX_NAMED: usize = 32;

/// Shows the losses and the retry budget of one directory.
#[derive(Debug)]
pub(crate) struct RestraintCollector(pub(crate) Directory);

impl Collector for RestraintCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let (losses, retries) = (self.0.losses.counts(now), self.0.retries.counts());
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
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        let gauge = ConstGauge::new(1_i64);
        let name = "cofferdam_router_tenant_confined";
        let help = "1 for a tenant that is sent to its home cell alone now, by name; of many, the first 32";
        let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
        for (tenant, _) in self.0.losses.confined(now).iter().take(MAX_NAMED) {
            gauge.encode(family.encode_family(&[("tenant", tenant.as_str())])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cofferdam_model::{Alphabet, CellId, TenantId};
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::cells::Whereabouts;

    #[test]
    fn of_many_confined_tenants_a_few_are_named_and_all_are_counted() {
        let directory = Directory::default();
        let now = Instant::now();
        for n in 0..40 {
            let tenant = TenantId::parse(format!("bad-{n}").as_bytes(), &Alphabet::default()).unwrap();
            for cell in ["a", "b"] {
                directory.losses.note(&tenant, &CellId::parse(cell).unwrap(), Whereabouts::Away, now);
            }
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(RestraintCollector(directory)));
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        assert!(shown.contains("cofferdam_router_tenants_confined 40"), "{shown}");
        assert!(shown.contains("cofferdam_router_tenant_confined{tenant=\"bad-0\"} 1"), "{shown}");
        assert_eq!(shown.matches("tenant=\"bad-").count(), MAX_NAMED);
    }
}
