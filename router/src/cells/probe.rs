//! The prober: asks each cell's probe listener whether it is ready, on the control thread, never on a data path.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_telemetry::logs::with_causes;

use super::directory::{Cell, Directory};

/// Asks every cell that has a probe, every `every`, for ever. A probe that takes longer than that has failed.
pub(crate) async fn probe_for_ever(directory: Directory, every: Duration) {
    let client = match reqwest::Client::builder().timeout(every).no_proxy().build() {
        Ok(client) => client,
        Err(error) => {
            let error = with_causes(&error);
            return tracing::error!(%error, "cells are not probed: no client could be made");
        }
    };
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        for cell in directory.all() {
            if cell.probe.is_some() {
                tokio::spawn(probe(client.clone(), cell));
            }
        }
    }
}

async fn probe(client: reqwest::Client, cell: Arc<Cell>) {
    let Some(origin) = &cell.probe else { return };
    let answer = client.get(format!("{origin}/readyz")).send().await;
    let well = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
    if cell.health.note_probe(well, Instant::now()) {
        match answer {
            Ok(answer) if well => tracing::info!(cell = %cell.id, status = %answer.status(), "cell is ready"),
            Ok(answer) => tracing::warn!(cell = %cell.id, status = %answer.status(), "cell is not ready"),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(cell = %cell.id, %error, "cell does not answer its probe");
            }
        }
    }
}
