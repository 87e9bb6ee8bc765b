//! The prober: asks each cell's probe listener whether it is ready and how full it is, on the control thread, never on a
//! data path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_model::{ClassName, ClassSaturation, Report, Saturation};
use cofferdam_proxy::upstream::Names;
use cofferdam_telemetry::logs::with_causes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde::Deserialize;

use super::directory::{Cell, Directory};

/// The longest answer that is read: 64 classes and the tenants with most places have far less.
const MAX_ANSWER: usize = 64 * 1024;

/// How long a connect may take by which a cell returns.
const CONNECT: Duration = Duration::from_secs(1);

/// Asks every cell that has a probe, every `every`, for ever. A probe that takes longer than that has failed.
pub(crate) async fn probe_for_ever(directory: Directory, every: Duration) {
    let client = |idle: usize| {
        let builder = reqwest::Client::builder().timeout(every).no_proxy().pool_max_idle_per_host(idle);
        builder.dns_resolver(Arc::new(Resolver(directory.names.clone()))).build()
    };
    // A kept connection would go on asking the address that a name has left.
    let (literal, named) = match (client(usize::MAX), client(0)) {
        (Ok(literal), Ok(named)) => (literal, named),
        (Err(error), _) | (_, Err(error)) => {
            let error = with_causes(&error);
            return tracing::error!(%error, "cells are not probed: no client could be made");
        }
    };
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for cell in directory.all() {
            if let Some(endpoint) = cell.probe_endpoint() {
                let client = if endpoint.is_named() { &named } else { &literal };
                tokio::spawn(probe(client.clone(), cell));
            }
        }
    }
}

/// Resolves for probes as requests do.
#[derive(Debug)]
struct Resolver(Names);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let endpoint = self.0.endpoint(&format!("{}:0", name.as_str()));
        Box::pin(async move {
            let addresses = endpoint.addresses().await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// What is read of an agent's `/saturation`.
#[derive(Debug, Deserialize)]
struct Said {
    saturation: f64,
    /// When it cuts what is left, where it drains.
    #[serde(default)]
    leaving_ms: Option<u64>,
    classes: Vec<ClassSaid>,
    #[serde(default)]
    drills: Vec<String>,
    #[serde(default)]
    open_breakers: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ClassSaid {
    class: String,
    saturation: f64,
}

impl Said {
    /// Nothing where a number or a name is none.
    fn report(&self) -> Option<Report> {
        let class = |said: &ClassSaid| {
            let class = ClassName::parse(&said.class).ok()?;
            Some(ClassSaturation { class, saturation: Saturation::from_f64(said.saturation)? })
        };
        let classes = self.classes.iter().take(Report::MAX_CLASSES).map(class).collect::<Option<_>>()?;
        Some(Report { cell: Saturation::from_f64(self.saturation)?, classes })
    }
}

async fn probe(client: reqwest::Client, cell: Arc<Cell>) {
    let Some(origin) = &cell.probe else { return };
    let answer = client.get(format!("{origin}/readyz")).send().await;
    let is_ready = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
    // A probe listener may be well while the port that takes requests refuses them.
    let well = is_ready && (!cell.health.is_down_by_connect() || takes_connections(&cell).await);
    if cell.health.note_probe(well, Instant::now()) {
        if !well {
            // A host that has vanished closes no connection by itself.
            cell.endpoint.close_idle();
        }
        match answer {
            Ok(answer) if well => tracing::info!(cell = %cell.id, status = %answer.status(), "cell is ready"),
            Ok(answer) => tracing::warn!(cell = %cell.id, status = %answer.status(), "cell is not ready"),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(cell = %cell.id, %error, "cell does not answer its probe");
            }
        }
    }
    let Some(said) = pull(&client, &format!("{origin}/saturation")).await else { return };
    if let Some(ms) = said.leaving_ms {
        cell.note_leaving(Duration::from_millis(ms), Instant::now());
    }
    cell.told.keep(&said.drills, &said.open_breakers, Instant::now());
    if let Some(report) = said.report() {
        cell.note_pulled(&report, Instant::now());
    }
}

/// Whether the cell takes a connection where it takes requests. What comes too late for the probe is none.
async fn takes_connections(cell: &Cell) -> bool {
    let connected = cell.endpoint.connect();
    matches!(tokio::time::timeout(CONNECT, connected).await, Ok(Ok(_)))
}

/// How full the cell is. What answers no probe, or is no agent, says nothing.
async fn pull(client: &reqwest::Client, url: &str) -> Option<Said> {
    let answer = client.get(url).send().await.ok().filter(|answer| answer.status().is_success())?;
    serde_json::from_slice(&read(answer).await?).ok()
}

/// A body of bounded size.
async fn read(mut answer: reqwest::Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(part) = answer.chunk().await.ok()? {
        if body.len() + part.len() > MAX_ANSWER {
            return None;
        }
        body.extend_from_slice(&part);
    }
    Some(body)
}
