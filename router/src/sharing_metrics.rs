//! How the sharing of limits goes, as Prometheus metrics, read when they are scraped.

use std::fmt;
use std::sync::Arc;

use cofferdam_limits::redis::RedisStore;
use cofferdam_limits::redis::link::{LinkState, Policy};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Shows one store.
#[derive(Debug)]
pub(crate) struct SharingCollector(Arc<RedisStore>);

impl SharingCollector {
    pub(crate) fn new(store: Arc<RedisStore>) -> Self {
        Self(store)
    }
}

impl Collector for SharingCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sharing = self.0.sharing();
        let link = &sharing.link;
        let counters = [
            ("cofferdam_store_calls", "Calls of the limit store's script and commands", link.calls),
            ("cofferdam_store_call_timeouts", "Calls that had no answer in time", link.late),
            ("cofferdam_store_connections", "Connections that were made", link.connections),
            (
                "cofferdam_store_call_failures",
                "Calls that failed otherwise",
                link.not_connected + link.broken + link.refused + link.unexpected,
            ),
            ("cofferdam_store_script_loads", "Times that the script was loaded", link.script_loads),
            ("cofferdam_store_asked", "Requests that waited for the store's word", sharing.asked),
            ("cofferdam_store_alone", "Requests decided by this router's share", sharing.alone),
            (
                "cofferdam_store_recalls_sent",
                "Calls upon which other routers were asked to return what idles with them",
                sharing.recalls_sent,
            ),
            (
                "cofferdam_store_recalls_answered",
                "Times that this router returned what idled here because others were short of it",
                sharing.recalls_answered,
            ),
            (
                "cofferdam_limits_false_refusals_possible",
                "Requests refused before every router had returned what idled with it",
                sharing.false_refusals_possible,
            ),
            ("cofferdam_store_given_up", "Times that the store was given up", sharing.given_up),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
        }
        let idle = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let gauges = [
            (
                "cofferdam_store_away",
                "Whether this router goes on without the store, or a server of it",
                sharing.is_away.into(),
            ),
            (
                "cofferdam_store_connected",
                "Whether the store is connected",
                sharing.state.is_connected().into(),
            ),
            (
                "cofferdam_store_evicts",
                "Whether the store forgets keys when its memory is full, and limits with them",
                matches!(sharing.state.policy, Policy::Evicts(_)).into(),
            ),
            ("cofferdam_store_sessions", "Routers that share the limits", sharing.sessions.into()),
            ("cofferdam_store_idle_permits", "Permits on loan that nobody uses", idle(sharing.idle_permits)),
            (
                "cofferdam_store_idle_tokens",
                "Tokens on loan that nobody has spent",
                idle(sharing.idle_tokens),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        encode_state(&mut encoder, &sharing.state)
    }
}

/// One of the states is 1.
fn encode_state(encoder: &mut DescriptorEncoder<'_>, state: &LinkState) -> fmt::Result {
    let (name, help) = ("cofferdam_store_state", "1 for the state of the connection to the limit store");
    let kind = ConstGauge::new(0_i64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for word in LinkState::words() {
        let is_so = i64::from(word == state.word());
        ConstGauge::new(is_so).encode(family.encode_family(&[("state", word)])?)?;
    }
    Ok(())
}
