//! What an agent's `/metrics` say of its compartments.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use cofferdam_bulkhead::{CellUse, ClassUse};
use cofferdam_model::{CellReason, ClassName};
use prometheus_parse::{HistogramCount, Sample, Scrape, Value};

/// What was counted, in all or within a time.
#[derive(Debug)]
pub(super) struct Counted {
    uptime_s: f64,
    places: f64,
    /// By name.
    classes: BTreeMap<String, ClassCounted>,
    /// The dependencies that have caps.
    dependencies: BTreeSet<String>,
}

#[derive(Debug, Default, Clone)]
struct ClassCounted {
    priority: f64,
    floor: f64,
    ceiling: f64,
    queue: f64,
    max_wait_s: f64,
    peak_used: f64,
    busiest_second: f64,
    arrivals: f64,
    /// What counts as demand, and the most of it in a second; an older agent does not say.
    demand: Option<f64>,
    demand_busiest: Option<f64>,
    refused_by_share: f64,
    refused_for_room: f64,
    slowest_hold_s: f64,
    hold_sum_s: f64,
    holds: f64,
    /// Cumulative, by upper bound in seconds.
    hold_buckets: Vec<(f64, f64)>,
    /// What its ceiling follows the latency with, where it does: the tolerance, and the highest that it may rise.
    tolerance: Option<f64>,
    highest: Option<f64>,
}

impl Counted {
    /// Reads the text of one scrape.
    pub(super) fn read(text: &str) -> anyhow::Result<Self> {
        let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned())))?;
        let mut counted =
            Self { uptime_s: 0.0, places: 0.0, classes: BTreeMap::new(), dependencies: BTreeSet::new() };
        for sample in &scrape.samples {
            counted.take(sample);
        }
        ensure!(!counted.classes.is_empty() && counted.places >= 1.0, "it says nothing of a cell's classes");
        Ok(counted)
    }

    fn take(&mut self, sample: &Sample) {
        let Some(name) = sample.metric.strip_prefix("cofferdam_agent_") else { return };
        let Some(class) = sample.labels.get("class") else {
            match name {
                "uptime_seconds" => self.uptime_s = number(&sample.value),
                "cell_places_limit" => self.places = number(&sample.value),
                "cap_limit" if sample.labels.get("kind") == Some("dependency") => {
                    self.dependencies.extend(sample.labels.get("name").map(str::to_owned));
                }
                _ => {}
            }
            return;
        };
        let class = self.classes.entry(class.to_owned()).or_default();
        match (name, &sample.value) {
            ("hold_seconds", Value::Histogram(buckets)) => {
                let bucket = |bucket: &HistogramCount| (bucket.less_than, bucket.count);
                class.hold_buckets = buckets.iter().map(bucket).collect();
            }
            // One for each way to end, and one for each reason.
            ("requests_total", value) => class.arrivals += number(value),
            ("refusals_total", value) => {
                let is_by_share = sample.labels.get("reason") == Some(CellReason::Tenant.as_str());
                let refused =
                    if is_by_share { &mut class.refused_by_share } else { &mut class.refused_for_room };
                *refused += number(value);
            }
            ("demand_total", value) => class.demand = Some(number(value)),
            ("demand_busiest_second", value) => class.demand_busiest = Some(number(value)),
            ("adaptive_tolerance", value) => class.tolerance = Some(number(value)),
            ("adaptive_ceiling", value) => class.highest = Some(number(value)),
            (name, value) => {
                let place = match name {
                    "class_priority" => &mut class.priority,
                    "places_floor" => &mut class.floor,
                    "places_limit" => &mut class.ceiling,
                    "places_peak" => &mut class.peak_used,
                    "queue_limit" => &mut class.queue,
                    "max_wait_seconds" => &mut class.max_wait_s,
                    "busiest_second" => &mut class.busiest_second,
                    "hold_slowest_seconds" => &mut class.slowest_hold_s,
                    "hold_seconds_sum" => &mut class.hold_sum_s,
                    "hold_seconds_count" => &mut class.holds,
                    _ => return,
                };
                *place = number(value);
            }
        }
    }

    /// What was counted since `before`. Peaks stay those of all the time: they are what a compartment has to stand.
    pub(super) fn since(mut self, before: &Self) -> anyhow::Result<Self> {
        if self.uptime_s < before.uptime_s {
            bail!("the agent was started anew while it was measured");
        }
        self.uptime_s -= before.uptime_s;
        for (name, class) in &mut self.classes {
            let Some(before) = before.classes.get(name) else { continue };
            class.arrivals -= before.arrivals;
            class.refused_by_share -= before.refused_by_share;
            class.refused_for_room -= before.refused_for_room;
            class.demand = class.demand.map(|demand| demand - before.demand.unwrap_or(0.0));
            class.hold_sum_s -= before.hold_sum_s;
            class.holds -= before.holds;
            for ((_, count), (_, earlier)) in class.hold_buckets.iter_mut().zip(&before.hold_buckets) {
                *count -= earlier;
            }
        }
        Ok(self)
    }

    /// The tolerance of each class whose ceiling follows the latency, by name.
    pub(super) fn adaptive(&self) -> BTreeMap<&str, f64> {
        self.classes.iter().filter_map(|(name, class)| Some((name.as_str(), class.tolerance?))).collect()
    }

    /// The same as numbers of places, requests and times.
    pub(super) fn cell(&self) -> anyhow::Result<CellUse> {
        // A class that the file has no more is counted for ever, and has no places.
        let classes = self.classes.iter().filter(|(_, class)| class.ceiling >= 1.0);
        let classes = classes.map(|(name, class)| class.class(name));
        Ok(CellUse {
            max_in_flight: self.places as u32,
            observed: seconds(self.uptime_s),
            classes: classes.collect::<anyhow::Result<_>>()?,
            dependencies: self.dependencies.iter().cloned().collect(),
        })
    }
}

impl ClassCounted {
    // Floats turn into whole numbers by the nearest that there is.
    fn class(&self, name: &str) -> anyhow::Result<ClassUse> {
        let name = ClassName::parse(name).with_context(|| format!("{name:?} is no class"))?;
        let mean_s = if self.holds > 0.0 { self.hold_sum_s / self.holds } else { 0.0 };
        Ok(ClassUse {
            name,
            priority: self.priority as u8,
            floor: self.floor as u32,
            // One that follows the latency is somewhere else now than it is set.
            ceiling: self.highest.unwrap_or(self.ceiling) as u32,
            queue: self.queue as u32,
            max_wait: seconds(self.max_wait_s),
            arrivals: self.arrivals as u64,
            demand: self.demand.unwrap_or(self.arrivals - self.refused_by_share) as u64,
            peak_per_second: self.demand_busiest.unwrap_or(self.busiest_second) as u64,
            holds: self.holds as u64,
            mean_hold: seconds(mean_s),
            p99_hold: seconds(self.quantile(0.99)),
            slowest_hold: seconds(self.slowest_hold_s),
            peak_used: self.peak_used as u32,
            refused_by_share: self.refused_by_share as u64,
            refused_for_room: self.refused_for_room as u64,
        })
    }

    /// The hold time below which so large a share lies; within a bucket they are taken to lie evenly. What lies beyond the last
    /// bound counts as that bound.
    fn quantile(&self, share: f64) -> f64 {
        if self.holds <= 0.0 {
            return 0.0;
        }
        let rank = share * self.holds;
        let (mut lower_s, mut below) = (0.0, 0.0);
        for &(upper_s, count) in &self.hold_buckets {
            if count >= rank && count > below {
                let part = (rank - below) / (count - below);
                return if upper_s.is_finite() { lower_s + (upper_s - lower_s) * part } else { lower_s };
            }
            (lower_s, below) = (if upper_s.is_finite() { upper_s } else { lower_s }, count);
        }
        lower_s
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Counter(number) | Value::Gauge(number) | Value::Untyped(number) => *number,
        Value::Histogram(_) | Value::Summary(_) => 0.0,
    }
}

/// A time to the microsecond; what is none is no time.
fn seconds(seconds: f64) -> Duration {
    let micros = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_micros();
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(buckets: &[(f64, f64)]) -> ClassCounted {
        let holds = buckets.last().map_or(0.0, |(_, count)| *count);
        ClassCounted { holds, hold_buckets: buckets.to_vec(), ..ClassCounted::default() }
    }

    #[test]
    fn a_quantile_lies_within_its_bucket_in_proportion() {
        let inf = f64::INFINITY;
        assert_eq!(held(&[(0.1, 98.0), (0.3, 100.0), (inf, 100.0)]).quantile(0.99), 0.2);
        assert_eq!(held(&[(0.1, 0.0), (0.3, 0.0), (inf, 7.0)]).quantile(0.99), 0.3, "beyond every bound");
        assert_eq!(held(&[(0.1, 0.0), (inf, 0.0)]).quantile(0.99), 0.0, "nothing was held");
    }

    #[test]
    fn what_was_counted_since_is_the_difference_and_a_new_start_is_told() {
        let text = |uptime: u32, served: u32, holds: u32| {
            format!(
                "# TYPE cofferdam_agent_hold_seconds histogram\n\
                 cofferdam_agent_uptime_seconds {uptime}\n\
                 cofferdam_agent_cell_places_limit 10\n\
                 cofferdam_agent_requests_total{{class=\"a\",outcome=\"served\"}} {served}\n\
                 cofferdam_agent_requests_total{{class=\"a\",outcome=\"refused\"}} 5\n\
                 cofferdam_agent_refusals_total{{class=\"a\",reason=\"tenant\"}} {uptime}\n\
                 cofferdam_agent_refusals_total{{class=\"a\",reason=\"class\"}} {holds}\n\
                 cofferdam_agent_refusals_total{{class=\"a\",reason=\"cell\"}} 1\n\
                 cofferdam_agent_demand_total{{class=\"a\"}} {holds}\n\
                 cofferdam_agent_demand_busiest_second{{class=\"a\"}} 7\n\
                 cofferdam_agent_hold_slowest_seconds{{class=\"a\"}} 2.5\n\
                 cofferdam_agent_busiest_second{{class=\"a\"}} 9\n\
                 cofferdam_agent_places_limit{{class=\"a\"}} 5\n\
                 cofferdam_agent_requests_total{{class=\"gone\",outcome=\"served\"}} 70\n\
                 cofferdam_agent_hold_seconds_sum{{class=\"a\"}} {holds}\n\
                 cofferdam_agent_hold_seconds_count{{class=\"a\"}} {holds}\n\
                 cofferdam_agent_hold_seconds_bucket{{class=\"a\",le=\"2.0\"}} {holds}\n\
                 cofferdam_agent_hold_seconds_bucket{{class=\"a\",le=\"+Inf\"}} {holds}\n# EOF\n"
            )
        };
        let read = |text: String| Counted::read(&text).unwrap();
        let cell = read(text(70, 120, 100)).since(&read(text(10, 20, 40))).unwrap().cell().unwrap();
        assert_eq!(cell.classes.len(), 1, "a class that is in the file no more is no class");
        let class = &cell.classes[0];
        assert_eq!((cell.observed, class.arrivals, class.holds), (Duration::from_secs(60), 100, 60));
        assert_eq!((class.mean_hold, class.p99_hold), (Duration::from_secs(1), Duration::from_millis(1980)));
        assert_eq!((class.demand, class.peak_per_second), (60, 7), "a peak is a peak");
        assert_eq!((class.refused_by_share, class.refused_for_room), (60, 60));
        assert_eq!(class.slowest_hold, Duration::from_millis(2500));
        let older = text(70, 120, 100).replace("_demand_", "_other_");
        let class = &read(older).cell().unwrap().classes[0];
        assert_eq!((class.demand, class.peak_per_second), (55, 9), "an older agent says nothing of demand");
        assert!(read(text(5, 120, 100)).since(&read(text(10, 20, 40))).is_err());
        assert!(Counted::read("cofferdam_router_requests_total 1\n").is_err());
    }
}
