//! Overrides as Prometheus metrics, read when they are scraped: how many bind, how many cannot, and how fresh they are.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::keeping::Overrides;

/// Shows the overrides of one router.
#[derive(Debug)]
pub(crate) struct OverridesCollector(Arc<Overrides>);

impl OverridesCollector {
    pub(crate) fn new(overrides: Arc<Overrides>) -> Self {
        Self(overrides)
    }
}

impl Collector for OverridesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let fitted = self.0.fitted();
        let followed = self.0.followed();
        let unreadable = followed.as_ref().map_or(0, |followed| followed.n_unreadable);
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let mut gauges = vec![
            (
                "cofferdam_limits_overrides",
                "Tenants whose limits an operator has changed for a while",
                number(fitted.n_binding() as u64),
            ),
            (
                "cofferdam_limits_overrides_left_out",
                "Overrides that cannot be read or do not fit the tenant's plan, which binds instead",
                number(fitted.n_left_out() as u64 + unreadable),
            ),
        ];
        if let Some(followed) = &followed {
            gauges.push((
                "cofferdam_limits_overrides_version",
                "The version of the store's overrides that is in force here; 0 for none",
                number(followed.version),
            ));
        }
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let Some(followed) = followed else { return Ok(()) };
        if let Some(age) = followed.age {
            let (name, help) = (
                "cofferdam_limits_overrides_age_seconds",
                "How long ago the store last said which overrides there are",
            );
            let gauge = ConstGauge::new(age.as_secs_f64());
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let (name, help) =
            ("cofferdam_limits_overrides_look_errors", "Times that the store did not say which there are");
        let counter = ConstCounter::new(followed.n_errors);
        counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
    }
}
