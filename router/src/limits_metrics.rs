//! The limits engine's counters as Prometheus metrics, read when they are scraped.

use std::fmt;

use cofferdam_limits::{Limits, WAIT_BOUNDS_US, Waits};
use cofferdam_model::{Level, Limited};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Shows one engine.
#[derive(Debug)]
pub(crate) struct LimitsMetrics(Limits);

impl LimitsMetrics {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(limits)
    }
}

impl Collector for LimitsMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let metrics = self.0.metrics();
        let counters = [
            ("cofferdam_limits_admitted", "Requests that the limits admitted", metrics.store.admitted),
            (
                "cofferdam_limits_evicted_tenants",
                "Idle tenants forgotten to make room",
                metrics.store.evicted,
            ),
            (
                "cofferdam_limits_overflowed",
                "Requests that shared a state for lack of room",
                metrics.store.overflowed,
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let gauges = [
            (
                "cofferdam_limits_in_flight",
                "Permits in use, over all tenants",
                i64::from(metrics.store.fleet_in_flight),
            ),
            ("cofferdam_limits_tenants", "Tenants with a state of their own", metrics.store.tenants as i64),
            (
                "cofferdam_limits_tenants_on_routes",
                "Tenants with a state of their own on a route with a limit",
                metrics.store.on_routes as i64,
            ),
            (
                "cofferdam_limits_tenants_max",
                "The most tenants with a state",
                metrics.store.tenants_max as i64,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        by_limit(
            &mut encoder,
            "cofferdam_limits_refused",
            "Requests that the limits refused",
            |level, by| metrics.refused(level, by),
        )?;
        let help = "Requests that the limits would have refused, and let pass as shadows";
        by_limit(&mut encoder, "cofferdam_limits_shadowed", help, |level, by| metrics.shadowed(level, by))?;
        encode_waits(&mut encoder, &metrics.waits)
    }
}

/// A counter for each level, and for each kind of limit that it could refuse by.
fn by_limit(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: impl Fn(Level, Limited) -> u64,
) -> fmt::Result {
    let kind = ConstCounter::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for level in Level::ALL {
        for limited in Limited::ALL {
            let labels = [("level", level.as_str()), ("limited", limited.as_str())];
            ConstCounter::new(value(level, limited)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// How long requests waited for a store that had to be asked.
fn encode_waits(encoder: &mut DescriptorEncoder<'_>, waits: &Waits) -> fmt::Result {
    let (name, help) =
        ("cofferdam_limits_store_wait_seconds", "How long requests waited for the limit store");
    let bounds = WAIT_BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(waits.buckets).collect();
    let mut histogram = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
    histogram.encode_histogram::<NoLabelSet>(waits.sum.as_secs_f64(), waits.count(), &buckets, None)
}
