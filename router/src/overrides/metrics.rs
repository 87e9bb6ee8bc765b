//! Overrides as Prometheus metrics, read when they are scraped: how many bind, how many cannot, and how fresh they are.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::kept::Kept;
use super::said::{Fitted, Said};

/// Shows the overrides of one kind.
#[derive(Debug)]
pub(crate) struct OverridesCollector<S: Said>(Arc<Kept<S>>);

impl<S: Said> OverridesCollector<S> {
    pub(crate) fn new(kept: Arc<Kept<S>>) -> Self {
        Self(kept)
    }
}

impl<S: Said> Collector for OverridesCollector<S> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let fitted = self.0.fitted();
        let followed = self.0.followed();
        let unreadable = self.0.n_unreadable();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let name = |rest: &str| format!("cofferdam_{}_overrides{rest}", S::KIND);
        let mut gauges = vec![
            (
                "",
                "Tenants of whom an operator has changed something for a while",
                number(fitted.n_binding() as u64),
            ),
            (
                "_left_out",
                "Overrides that cannot be read, find no room or do not fit the fleet file, which binds instead",
                number(fitted.n_left_out() as u64 + unreadable),
            ),
        ];
        if let Some(followed) = &followed {
            let version = number(followed.version);
            gauges.push((
                "_version",
                "The version of the store's overrides that is in force here; 0 for none",
                version,
            ));
        }
        for (rest, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(&name(rest), help, None, gauge.metric_type())?)?;
        }
        let Some(followed) = followed else { return Ok(()) };
        if let Some(age) = followed.age {
            let help = "How long ago the store last said which overrides there are";
            let gauge = ConstGauge::new(age.as_secs_f64());
            let metric = gauge.metric_type();
            gauge.encode(encoder.encode_descriptor(&name("_age_seconds"), help, None, metric)?)?;
        }
        let help = "Times that the store did not say which there are";
        let counter = ConstCounter::new(followed.n_errors);
        let metric = counter.metric_type();
        counter.encode(encoder.encode_descriptor(&name("_look_errors"), help, None, metric)?)
    }
}
