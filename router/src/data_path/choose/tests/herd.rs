//! Twenty routers, each with cells and requests of its own, that hear all at the same moment what the cells' load was, twice a
//! second. Nothing here waits: time is a number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::cells::OnCell;

const N_ROUTERS: usize = 20;
const N_CELLS: usize = 8;
/// Requests in flight on each cell, on average.
const MEAN: f64 = 50.0;
/// What each cell can hold.
const PLACES: f64 = 200.0;
const HOLD_US: f64 = 100_000.0;
const REPORT_US: u64 = 500_000;
const BEGIN_US: u64 = 2_000_000;
const END_US: u64 = 12_000_000;

/// What a router goes by.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Reports,
    OwnRequests,
    Both,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Report,
    Request,
    End { router: usize, at: usize },
}

struct Simulated {
    random: StdRng,
    start: Instant,
    by: By,
    routers: Vec<Vec<Arc<Cell>>>,
    /// By router: what it has in flight, with the cell.
    held: Vec<Vec<Option<(OnCell, usize)>>>,
    in_flight: [u32; N_CELLS],
    peak: u32,
}

impl Simulated {
    fn new(by: By) -> Self {
        Self {
            random: StdRng::seed_from_u64(7),
            start: Instant::now(),
            by,
            routers: (0..N_ROUTERS).map(|_| cells(N_CELLS)).collect(),
            held: (0..N_ROUTERS).map(|_| Vec::new()).collect(),
            in_flight: [0; N_CELLS],
            peak: 0,
        }
    }

    /// The most that was ever in flight on a cell.
    fn run(mut self) -> f64 {
        let mut due = BinaryHeap::from([Reverse((0, Event::Report)), Reverse((0, Event::Request))]);
        while let Some(Reverse((us, event))) = due.pop() {
            if us > END_US {
                break;
            }
            match event {
                Event::Report => {
                    self.report(us);
                    due.push(Reverse((us + REPORT_US, Event::Report)));
                }
                Event::Request => {
                    let end = self.request(us);
                    due.push(Reverse((us + self.pause(HOLD_US), end)));
                    let next = self.pause(HOLD_US / (MEAN * N_CELLS as f64));
                    due.push(Reverse((us + next, Event::Request)));
                }
                Event::End { router, at } => {
                    if let Some((_, cell)) = self.held[router][at].take() {
                        self.in_flight[cell] -= 1;
                    }
                }
            }
            if us >= BEGIN_US {
                self.peak = self.peak.max(self.in_flight.into_iter().max().unwrap());
            }
        }
        f64::from(self.peak)
    }

    /// An exponential time, in microseconds.
    fn pause(&mut self, mean_us: f64) -> u64 {
        (-(1.0 - self.random.random::<f64>()).ln() * mean_us) as u64
    }

    fn report(&self, us: u64) {
        for router in self.routers.iter().filter(|_| self.by != By::OwnRequests) {
            for (cell, in_flight) in router.iter().zip(self.in_flight) {
                let saturation = f64::from(in_flight) / PLACES;
                said(cell, saturation, saturation, self.at(us));
            }
        }
    }

    /// One request of a tenant with any pair, on any router.
    fn request(&mut self, us: u64) -> Event {
        let router = self.random.random_range(0..N_ROUTERS);
        let home = self.random.random_range(0..N_CELLS);
        let second = (home + self.random.random_range(1..N_CELLS)) % N_CELLS;
        let shard = [home, second].map(|cell| CellIndex(cell as u16));
        let cells = &self.routers[router];
        let chosen = candidates(&shard, cells, "search", Choose::Balance).next(self.at(us)).unwrap().get();
        self.in_flight[chosen] += 1;
        // Who goes by reports alone counts nothing of its own.
        let counts = if self.by == By::Reports { cells_apart() } else { Arc::clone(&cells[chosen]) };
        self.held[router].push(Some((counts.enter(), chosen)));
        Event::End { router, at: self.held[router].len() - 1 }
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }
}

fn cells_apart() -> Arc<Cell> {
    thread_local!(static APART: Arc<Cell> = cells(2).remove(0));
    APART.with(Arc::clone)
}

#[test]
fn twenty_routers_with_reports_of_half_a_second_ago_do_not_run_in_a_herd() {
    let [reports, own, both] = [By::Reports, By::OwnRequests, By::Both].map(|by| Simulated::new(by).run());
    println!("peak for a mean of {MEAN}: reports alone {reports}, own requests {own}, both {both}");
    assert!(reports > 1.8 * MEAN, "reports alone do not herd: the simulation shows nothing");
    assert!(both <= 1.8 * MEAN && own <= 1.8 * MEAN);
    assert!(both < reports);
}
