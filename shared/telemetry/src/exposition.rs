//! In which format metrics are shown: the text format 0.0.4 that every scraper reads, or OpenMetrics for one that asks for
//! it. The registry writes OpenMetrics, so the other one is made out of that.

use std::fmt::Write;

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// The text format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

const OPEN_METRICS: &str = "application/openmetrics-text";

impl Exposition {
    /// The format that these Accept fields ask for: text, unless OpenMetrics is named and wanted at least as much.
    pub(crate) fn accepted<'a>(fields: impl Iterator<Item = &'a str>) -> Self {
        let (mut open_metrics, mut text) = (0.0_f32, None::<(u8, f32)>);
        for range in fields.flat_map(|field| field.split(',')) {
            let Some((media, q)) = read(range) else { continue };
            // What names the type more exactly decides.
            let exactness = match media.as_str() {
                OPEN_METRICS => {
                    open_metrics = open_metrics.max(q);
                    continue;
                }
                "text/plain" => 2,
                "text/*" => 1,
                "*/*" => 0,
                _ => continue,
            };
            text = match text {
                Some((known, known_q)) if known > exactness || known == exactness && known_q >= q => text,
                _ => Some((exactness, q)),
            };
        }
        let text = text.map_or(0.0, |(_, q)| q);
        if open_metrics > 0.0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// OpenMetrics in this format.
    pub(crate) fn write(self, open_metrics: String) -> String {
        match self {
            Self::Text => text(&open_metrics),
            Self::OpenMetrics => open_metrics,
        }
    }
}

/// A media range and its weight; nothing where it has a version that nobody writes here, or a weight that is none.
fn read(range: &str) -> Option<(String, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let (media, mut q) = (parts.next()?.to_ascii_lowercase(), 1.0);
    for part in parts {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().trim_matches('"');
        match name.trim().to_ascii_lowercase().as_str() {
            "q" => q = value.parse().ok().filter(|q| (0.0..=1.0).contains(q))?,
            "version" if media == OPEN_METRICS && !["1.0.0", "0.0.1"].contains(&value) => return None,
            "version" if media == "text/plain" && value != "0.0.4" => return None,
            _ => {}
        }
    }
    Some((media, q))
}

/// The text format 0.0.4 of OpenMetrics as the registry writes it: there, a family is named as its samples are, an info is a
/// gauge, and neither units nor an end are told.
fn text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help: Option<&str> = None;
    for line in open_metrics.lines() {
        if let Some(of) = line.strip_prefix("# HELP ") {
            help = Some(of);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|of| of.rsplit_once(' ')) {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            let said = help.take().and_then(|of| of.strip_prefix(name)).unwrap_or_default();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP {name}{suffix}{said}\n# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;
    use prometheus_client::metrics::histogram::Histogram;
    use prometheus_client::metrics::info::Info;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;

    #[test]
    fn text_is_what_is_written_unless_open_metrics_is_wanted_at_least_as_much() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.8,application/openmetrics-text;\
                          version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for (accept, format) in [
            ("", Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/html", Exposition::Text),
            ("text/plain", Exposition::Text),
            (prometheus, Exposition::OpenMetrics),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            ("APPLICATION/OpenMetrics-Text ; Version=1.0.0", Exposition::OpenMetrics),
            ("application/openmetrics-text; version=\"1.0.0\"", Exposition::OpenMetrics),
            ("application/openmetrics-text; version=9.0.0", Exposition::Text),
            ("application/openmetrics-text;q=0", Exposition::Text),
            ("application/openmetrics-text;q=0.4, text/plain;q=0.5", Exposition::Text),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.5", Exposition::OpenMetrics),
            ("application/openmetrics-text;q=0.5, */*", Exposition::Text),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.1, */*", Exposition::OpenMetrics),
            ("application/openmetrics-text;q=x, text/plain", Exposition::Text),
            ("application/*", Exposition::Text),
        ] {
            assert_eq!(Exposition::accepted([accept].into_iter()), format, "{accept:?}");
        }
        let two = ["text/plain;q=0.2", "application/openmetrics-text"];
        assert_eq!(Exposition::accepted(two.into_iter()), Exposition::OpenMetrics, "in two fields");
        assert_eq!(Exposition::accepted(std::iter::empty()), Exposition::Text, "without a field");
    }

    #[test]
    fn families_of_the_text_format_are_named_as_their_samples_are() {
        let mut registry = Registry::default();
        let (counter, gauge) = (Counter::<u64>::default(), Gauge::<i64>::default());
        counter.inc();
        registry.register("asked", "How often", counter);
        registry.register_with_unit("age", "How old", Unit::Seconds, gauge);
        registry.register("took", "How long", Histogram::new([0.5]));
        registry.register("build", "Which", Info::new([("version", "1")]));
        let mut written = String::new();
        encode(&mut written, &registry).unwrap();
        assert_eq!(Exposition::OpenMetrics.write(written.clone()), written);
        let expected = "# HELP asked_total How often.\n# TYPE asked_total counter\nasked_total 1\n\
                        # HELP age_seconds How old.\n# TYPE age_seconds gauge\nage_seconds 0\n\
                        # HELP took How long.\n# TYPE took histogram\ntook_sum 0.0\ntook_count 0\n\
                        took_bucket{le=\"0.5\"} 0\ntook_bucket{le=\"+Inf\"} 0\n\
                        # HELP build_info Which.\n# TYPE build_info gauge\nbuild_info{version=\"1\"} 1\n";
        assert_eq!(Exposition::Text.write(written), expected);
    }
}
