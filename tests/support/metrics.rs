//! Reads the text of `/metrics`.

use std::net::SocketAddr;

use super::raw;

/// The samples of one scrape.
#[derive(Debug)]
pub(crate) struct Scrape(Vec<Sample>);

#[derive(Debug)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

/// Scrapes a probe listener.
pub(crate) async fn scrape(probes: SocketAddr) -> Scrape {
    let answer = raw::ask(probes, "GET /metrics HTTP/1.1\r\nhost: probe\r\n\r\n").await;
    assert_eq!(answer.status(), 200);
    Scrape(answer.text().lines().filter(|line| !line.starts_with('#')).map(sample).collect())
}

fn sample(line: &str) -> Sample {
    let (series, value) = line.rsplit_once(' ').unwrap();
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Sample { name: name.to_owned(), labels: labels.to_owned(), value: value.parse().unwrap() }
}

impl Scrape {
    /// Whether there is any sample of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|sample| sample.name == name)
    }

    /// The sum of the samples of that name with all these labels, each as `key="value"`.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let matches = |sample: &&Sample| {
            sample.name == name && labels.iter().all(|label| sample.labels.contains(label))
        };
        self.0.iter().filter(matches).map(|sample| sample.value).sum()
    }
}
