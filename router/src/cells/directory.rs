//! The directory of cells: one entry for each, shared by workers, probes and the admin listener, kept over reloads.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use cofferdam_fleet::{self as fleet, HealthRules, Origin};
use cofferdam_model::{CellId, Report, TenantId, ZoneId};
use cofferdam_proxy::upstream::{Endpoint, Names};
use cofferdam_telemetry::logs::with_causes;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use super::health::{Health, Rules};
use super::losses::Losses;
use super::mistrust::Mistrust;
use super::retry_budget::RetryBudget;
use super::saturation::{Load, Reported, Room};
use super::told::Told;

/// How long after its word a cell that leaves may take to cut what is left.
const LATE: Duration = Duration::from_secs(2);

/// The longest that a cell is believed to leave.
const MOST_LEFT: Duration = Duration::from_hours(1);

/// A cell, as this router knows it.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) id: CellId,
    pub(crate) zone: ZoneId,
    /// Where its agent listens.
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) probe: Option<Origin>,
    /// Keeps the probe's name resolved.
    probe_endpoint: Option<Arc<Endpoint>>,
    pub(crate) health: Health,
    load: Load,
    mistrust: Mistrust,
    in_flight: AtomicU32,
    leaving: Mutex<Option<Leaving>>,
    /// What its agent says of drills and breakers.
    pub(crate) told: Told,
}

/// A cell that has said that it leaves.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    /// Since when that is known.
    since: Instant,
    /// When it will have cut what is left.
    until: Instant,
}

/// One request's part in the count of a cell's requests in flight.
#[derive(Debug)]
pub(crate) struct OnCell(Arc<Cell>);

/// Every cell of the running fleet file.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    cells: Arc<Mutex<BTreeMap<CellId, Arc<Cell>>>>,
    /// When a cell is believed down; all cells share them.
    rules: Arc<Rules>,
    /// Who was there when they were lost.
    pub(crate) losses: Arc<Losses>,
    /// How much may be tried again.
    pub(crate) retries: Arc<RetryBudget>,
    pub(crate) names: Names,
}

impl Cell {
    fn new(cell: &fleet::Cell, rules: &Arc<Rules>, names: &Names) -> Self {
        Self {
            id: cell.id.clone(),
            zone: cell.zone.clone(),
            endpoint: names.endpoint(&cell.url.authority()),
            probe: cell.probe.clone(),
            probe_endpoint: cell.probe.as_ref().map(|probe| names.endpoint(&probe.authority())),
            health: Health::new(cell.probe.is_some(), Arc::clone(rules)),
            load: Load::default(),
            mistrust: Mistrust::new(),
            in_flight: AtomicU32::new(0),
            leaving: Mutex::default(),
            told: Told::default(),
        }
    }

    /// Counts a request as in flight on this cell until the result is dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> OnCell {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        OnCell(Arc::clone(self))
    }

    /// This router's own requests in flight on the cell.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes note of an answer, and of whether the cell `takes_work`.
    pub(crate) fn note_answer(&self, takes_work: bool) {
        if takes_work && self.health.note_answer(Instant::now) {
            tracing::info!(cell = %self.id, "cell answers again");
        }
    }

    /// Takes note of the load report that came with an answer.
    pub(crate) fn note_report(&self, report: http::HeaderValue, now: Instant) {
        self.log_avoidance(self.load.keep(report, now));
    }

    /// Takes note of the load that the cell told when it was asked.
    pub(crate) fn note_pulled(&self, report: &Report, now: Instant) {
        self.log_avoidance(self.load.take(report, now));
    }

    fn log_avoidance(&self, changed: Option<bool>) {
        match changed {
            Some(true) => tracing::info!(cell = %self.id, "cell is avoided: it is full, or a class of it"),
            Some(false) => tracing::info!(cell = %self.id, "cell is taken again"),
            None => {}
        }
    }

    /// Takes note that the cell drains, and cuts what is left in so long. Where that is clearly later than was said before, another
    /// process of the cell drains.
    pub(crate) fn note_leaving(&self, left: Duration, now: Instant) {
        let until = now + left.min(MOST_LEFT) + LATE;
        let mut leaving = self.leaving.lock();
        let same = leaving.filter(|known| now <= known.until && until <= known.until + LATE);
        *leaving = Some(match same {
            Some(known) => Leaving { until: known.until.max(until), ..known },
            None => Leaving { since: now, until },
        });
    }

    /// Whether what was `sent` and breaks off now may have been cut by a cell that has said since that it leaves. What was sent
    /// later met its successor.
    pub(crate) fn has_left(&self, sent: Instant, now: Instant) -> bool {
        self.leaving.lock().is_some_and(|leaving| sent <= leaving.since && now <= leaving.until)
    }

    /// Takes note of an attempt that failed through the cell's own fault, which may have been fast.
    pub(crate) fn note_failure(&self, tenant: &TenantId, now: Instant) {
        self.mistrust.add(tenant, now);
    }

    /// Whether requests of `class` had better go elsewhere, by what the cell said of its load.
    pub(crate) fn is_avoided(&self, class: &str, now: Instant) -> bool {
        self.load.is_avoided(class, now)
    }

    /// How full the cell is for `class`, where it said so lately.
    pub(crate) fn room(&self, class: &str, now: Instant) -> Option<Room> {
        self.load.room(class, now)
    }

    /// This router's own requests in flight on the cell, and those that failed there lately, as they weigh for `tenant`.
    pub(crate) fn own_load(&self, tenant: &TenantId, now: Instant) -> f32 {
        self.in_flight() as f32 + self.mistrust.weight(tenant, now)
    }

    /// Takes note of a connect that failed.
    pub(crate) fn note_fault(&self, fault: &(dyn Error + 'static), now: Instant) {
        if self.health.note_fault(now) {
            self.endpoint.close_idle();
            tracing::warn!(cell = %self.id, fault = %with_causes(fault), "cell is believed down");
        }
    }

    /// Where its probe is.
    pub(crate) fn probe_endpoint(&self) -> Option<&Endpoint> {
        self.probe_endpoint.as_deref()
    }

    /// What the cell last said of its load.
    pub(crate) fn reported(&self, now: Instant) -> Option<Reported> {
        self.load.reported(now)
    }
}

impl OnCell {
    /// The cell.
    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.0
    }
}

impl Drop for OnCell {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Directory {
    fn default() -> Self {
        let rules = Arc::new(Rules::new(HealthRules::default()));
        Self {
            cells: Arc::default(),
            rules,
            losses: Arc::default(),
            retries: Arc::default(),
            names: Names::default(),
        }
    }
}

impl Directory {
    /// A directory whose cells have these names.
    pub(crate) fn new(names: Names) -> Self {
        Self { names, ..Self::default() }
    }

    /// Entries for `cells`, in their order. An entry is kept where neither its address nor its probe has changed.
    pub(crate) fn adopt(&self, cells: &[fleet::Cell]) -> Vec<Arc<Cell>> {
        let known = self.cells.lock();
        let same = |old: &Arc<Cell>, new: &fleet::Cell| {
            old.endpoint.authority() == new.url.authority() && old.probe == new.probe && old.zone == new.zone
        };
        let entry = |new: &fleet::Cell| match known.get(&new.id) {
            Some(old) if same(old, new) => Arc::clone(old),
            _ => Arc::new(Cell::new(new, &self.rules, &self.names)),
        };
        cells.iter().map(entry).collect()
    }

    /// Makes `cells` the fleet's, and `health` the rules for when one is believed down.
    pub(crate) fn install(&self, cells: &[Arc<Cell>], health: HealthRules) {
        self.rules.change(health);
        *self.cells.lock() = cells.iter().map(|cell| (cell.id.clone(), Arc::clone(cell))).collect();
    }

    /// Every cell, sorted by id.
    pub(crate) fn all(&self) -> Vec<Arc<Cell>> {
        self.cells.lock().values().cloned().collect()
    }
}

impl Collector for Directory {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let now = Instant::now();
        let cells = self.all();
        let mut gauge = |name, help, value: &dyn Fn(&Cell) -> Option<f64>| -> fmt::Result {
            let gauge = ConstGauge::new(0.0_f64);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for cell in &cells {
                if let Some(value) = value(cell) {
                    let labels = [("cell", cell.id.as_str())];
                    ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
                }
            }
            Ok(())
        };
        let up = |cell: &Cell| Some(f64::from(u8::from(cell.health.is_up(now))));
        gauge("cofferdam_router_cell_up", "Whether the cell is believed to be up", &up)?;
        let in_flight = |cell: &Cell| Some(f64::from(cell.in_flight()));
        gauge("cofferdam_router_cell_in_flight", "This router's requests in flight on the cell", &in_flight)?;
        let saturation = |cell: &Cell| cell.reported(now).map(|reported| reported.cell.saturation.as_f64());
        gauge("cofferdam_router_cell_saturation", "The saturation that the cell last reported", &saturation)?;
        let age = |cell: &Cell| cell.reported(now).map(|reported| reported.age.as_secs_f64());
        gauge("cofferdam_router_cell_report_age_seconds", "The age of the cell's last report", &age)?;
        let avoided =
            |cell: &Cell| Some(cell.reported(now).map_or(0, |reported| reported.n_avoided()) as f64);
        let help = "How many of the cell and its classes are avoided because they are full";
        gauge("cofferdam_router_cell_avoided", help, &avoided)
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::*;

    #[test]
    fn what_breaks_off_of_a_cell_that_leaves_was_cut_if_it_was_sent_before() {
        let text = "fleet: f\ncells: [{ id: a, url: 'http://127.0.0.1:1' }]\nplacement: { shard_size: 1 }\n";
        let fleet = fleet::Fleet::parse(text, Path::new(".")).unwrap().fleet;
        let cell = Cell::new(&fleet.cells[0], &Directory::default().rules, &Names::default());
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        assert!(!cell.has_left(start, at(1)));
        cell.note_leaving(Duration::from_secs(30), at(1));
        cell.note_leaving(Duration::from_secs(25), at(6));
        assert!(cell.has_left(start, at(31)) && cell.has_left(at(1), at(33)));
        assert!(!cell.has_left(at(2), at(31)), "that one met its successor");
        assert!(!cell.has_left(start, at(34)), "by then it has left");
        cell.note_leaving(Duration::from_secs(30), at(100));
        assert!(cell.has_left(at(99), at(130)), "another process leaves later");
        cell.note_leaving(Duration::from_secs(30), at(110));
        assert!(cell.has_left(at(110), at(141)), "and another before that one is gone");
        cell.note_leaving(Duration::from_secs(20), at(110));
        assert!(cell.has_left(at(110), at(141)), "of which one says less");
    }

    #[test]
    fn a_cell_that_answers_that_it_has_no_room_stays_down() {
        let text = "fleet: f\ncells: [{ id: a, url: 'http://127.0.0.1:1', probe: 'http://127.0.0.1:2' }]\nplacement: { shard_size: 1 }\n";
        let fleet = fleet::Fleet::parse(text, Path::new(".")).unwrap().fleet;
        let (cell, now) =
            (Cell::new(&fleet.cells[0], &Directory::default().rules, &Names::default()), Instant::now());
        cell.note_fault(&io::Error::from(io::ErrorKind::ConnectionRefused), now);
        cell.note_answer(false);
        assert!(!cell.health.is_up(now));
        cell.note_answer(true);
        assert!(cell.health.is_up(now));
    }
}
