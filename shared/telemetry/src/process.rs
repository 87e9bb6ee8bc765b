//! What the process itself uses, under the names that Prometheus's own clients give it, and which build it is. It is read
//! from `/proc` when it is scraped, on the thread of the probe listener.

use std::fmt;

use procfs::process::{LimitValue, Process};
use procfs::{ProcResult, WithCurrentSystemInfo};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

/// Which build a process is.
#[derive(Debug, Clone, Copy)]
pub struct Build {
    /// The metric's name, without `_info`.
    pub metric: &'static str,
    /// The version, such as `0.1.0`.
    pub version: &'static str,
    /// The revision of the source, where whoever built it has said so.
    pub revision: Option<&'static str>,
}

/// Registers what the process uses, and which build it is.
pub fn register(registry: &mut Registry, build: Build) {
    let Build { metric, version, revision } = build;
    let revision = revision.filter(|revision| !revision.is_empty()).map(|revision| ("revision", revision));
    let labels: Vec<_> = [("version", version)].into_iter().chain(revision).collect();
    registry.register(metric, "The version that runs, and the revision it was built from", Info::new(labels));
    registry.register_collector(Box::new(ProcessCollector));
}

/// Shows the process that scrapes it.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Where `/proc` cannot be read, there is nothing to show.
        let Ok(usage) = Usage::read() else { return Ok(()) };
        let counter = ConstCounter::new(usage.cpu_s);
        let help = "Processor time that the process has used, in user and system mode";
        counter.encode(encoder.encode_descriptor(
            "process_cpu_seconds",
            help,
            None,
            counter.metric_type(),
        )?)?;
        let gauges = [
            ("process_resident_memory_bytes", "Memory of the process that is resident", usage.resident_bytes),
            ("process_virtual_memory_bytes", "Memory that the process has mapped", usage.virtual_bytes),
            ("process_open_fds", "File descriptors that are open", usage.open_fds),
            ("process_max_fds", "File descriptors that may be open", usage.max_fds),
            ("process_threads", "Threads of the process", usage.threads),
            (
                "process_start_time_seconds",
                "When the process started, in seconds of Unix time",
                usage.started_s,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

/// What a process uses.
#[derive(Debug)]
struct Usage {
    cpu_s: f64,
    resident_bytes: f64,
    virtual_bytes: f64,
    open_fds: f64,
    max_fds: f64,
    threads: f64,
    started_s: f64,
}

impl Usage {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let (stat, limits) = (process.stat()?, process.limits()?);
        let ticks_per_s = procfs::ticks_per_second() as f64;
        let booted_s = procfs::boot_time_secs()? as f64;
        let max_fds = match limits.max_open_files.soft_limit {
            LimitValue::Value(most) => most as f64,
            LimitValue::Unlimited => f64::INFINITY,
        };
        Ok(Self {
            cpu_s: (stat.utime + stat.stime) as f64 / ticks_per_s,
            resident_bytes: stat.rss_bytes().get() as f64,
            virtual_bytes: stat.vsize as f64,
            open_fds: process.fd_count()? as f64,
            max_fds,
            threads: stat.num_threads as f64,
            started_s: booted_s + stat.starttime as f64 / ticks_per_s,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_process_sees_itself() {
        let usage = Usage::read().unwrap();
        let now_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64();
        assert!(usage.started_s > now_s - 86_400.0 && usage.started_s < now_s + 2.0, "{usage:?}");
        assert!(usage.resident_bytes > 1e5 && usage.resident_bytes <= usage.virtual_bytes, "{usage:?}");
        assert!(
            usage.threads >= 1.0 && usage.open_fds >= 3.0 && usage.open_fds <= usage.max_fds,
            "{usage:?}"
        );
        let files: Vec<_> = (0..10).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let more = Usage::read().unwrap();
        assert!(more.open_fds >= 10.0 && more.cpu_s >= usage.cpu_s, "{more:?}");
        drop(files);
    }
}
