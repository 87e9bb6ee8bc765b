//! Recorded traffic, replayed in the layout that it had and in the one that is advised by it: whoever follows advice refuses no
//! more. Time is paused, and what is random has a fixed seed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use cofferdam_bulkhead::{
    Advice, CellUse, ClassLayout, ClassMeter, ClassUse, Compartments, Layout, Refused, TenantShare, advise,
};
use cofferdam_model::CellReason;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{class, ms, queued, tenant};

const PLACES: u32 = 100;
const CHECKOUT: usize = 0;
const SEARCH: usize = 1;
const REPORTS: usize = 2;

/// How long traffic is recorded.
const RECORDED: Duration = Duration::from_secs(20);

/// A request as it was recorded; one that is refused comes again so many times, each after 100 ms.
#[derive(Debug, Clone)]
struct Recorded {
    at: Duration,
    class: usize,
    tenant: String,
    hold: Duration,
    retries: u32,
}

/// What a class has counted in a replay.
#[derive(Debug)]
struct Counted {
    meter: ClassMeter,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    arrivals: u64,
    busiest: (u64, u64, u64),
    holds: Vec<Duration>,
    refused_by_share: u64,
    refused_for_room: u64,
}

/// A replay, as an agent measures it.
struct Replayed {
    cell: CellUse,
    /// The most arrivals of each class within one second, whatever they were.
    busiest: Vec<u64>,
}

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    /// The next one, from 0 to 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Random arrivals of one class between two times, of so many tenants.
struct Stream {
    class: usize,
    from: Duration,
    to: Duration,
    per_second: f64,
    hold_ms: f64,
    tenants: u32,
    retries: u32,
}

impl Stream {
    fn new(class: usize, per_second: f64, hold_ms: f64) -> Self {
        Self { class, from: Duration::ZERO, to: RECORDED, per_second, hold_ms, tenants: 50, retries: 0 }
    }

    fn record(&self, name: &str, numbers: &mut Numbers) -> Vec<Recorded> {
        let (mut at, mut recorded) = (self.from, Vec::new());
        loop {
            at += Duration::from_secs_f64(-numbers.next().max(1e-9).ln() / self.per_second);
            if at >= self.to {
                return recorded;
            }
            let tenant = format!("{name}-{}", (numbers.next() * f64::from(self.tenants)) as u32);
            let hold = Duration::from_secs_f64(self.hold_ms * (0.5 + numbers.next()) / 1000.0);
            recorded.push(Recorded { at, class: self.class, tenant, hold, retries: self.retries });
        }
    }
}

/// Traffic that every class has room for.
fn well() -> Vec<Recorded> {
    let numbers = &mut Numbers(7);
    [Stream::new(CHECKOUT, 200.0, 12.0), Stream::new(SEARCH, 60.0, 40.0), Stream::new(REPORTS, 80.0, 90.0)]
        .iter()
        .flat_map(|stream| stream.record("t", numbers))
        .collect()
}

/// One tenant floods a class for five seconds, and tries again whatever is refused.
fn flood() -> Vec<Recorded> {
    let flood = Stream {
        from: ms(5_000),
        to: ms(10_000),
        tenants: 1,
        retries: 4,
        ..Stream::new(SEARCH, 600.0, 40.0)
    };
    [well(), flood.record("flood", &mut Numbers(11))].concat()
}

/// More reports than the class has places for, all of which are tried again and again.
fn refused_retries() -> Vec<Recorded> {
    let reports = Stream { retries: 8, ..Stream::new(REPORTS, 150.0, 90.0) };
    [well(), reports.record("r", &mut Numbers(13))].concat()
}

/// All holds are 100 ms longer for five seconds.
fn slowdown() -> Vec<Recorded> {
    let mut recorded = well();
    let slow = recorded.iter_mut().filter(|one| (ms(10_000)..ms(15_000)).contains(&one.at));
    slow.for_each(|one| one.hold += ms(100));
    recorded
}

/// Every four seconds many tenants check out at the same moment.
fn bursts() -> Vec<Recorded> {
    let burst = |second: u64| {
        (0..45).map(move |at| Recorded {
            at: Duration::from_secs(second),
            class: CHECKOUT,
            tenant: format!("b-{at}"),
            hold: ms(30),
            retries: 1,
        })
    };
    [well(), (0..20).step_by(4).flat_map(burst).collect()].concat()
}

fn everything() -> Vec<Recorded> {
    let n_well = well().len();
    let more = [flood(), refused_retries(), bursts()];
    [slowdown()].into_iter().chain(more.map(|traffic| traffic[n_well..].to_vec())).flatten().collect()
}

/// The layout that the traffic was recorded in.
fn before() -> Vec<ClassLayout> {
    vec![
        queued(class("checkout", 20, 40), 10, ms(50)),
        queued(class("search", 20, 20), 5, ms(50)),
        class("reports", 0, 15),
    ]
}

/// The layout that is advised.
fn advised(advice: &Advice) -> Vec<ClassLayout> {
    let layout = before().into_iter().zip(&advice.classes).map(|(class, advised)| ClassLayout {
        floor: advised.floor,
        ceiling: advised.ceiling,
        queue: advised.queue,
        max_wait: advised.max_wait,
        ..class
    });
    layout.collect()
}

/// Lets one request in, again and again where it is refused.
async fn send(cell: Compartments, one: Recorded, counted: Arc<Vec<Counted>>, begin: Instant) {
    sleep_until(begin + one.at).await;
    let (counted, tenant) = (&counted[one.class], tenant(&one.tenant));
    for _ in 0..=one.retries {
        let now = Instant::now();
        counted.tally.lock().unwrap().arrived((now - begin).as_secs());
        match cell.acquire(one.class, &tenant, None).await {
            Ok(place) => {
                counted.meter.admitted(&tenant, Instant::now());
                sleep(one.hold).await;
                drop(place);
                counted.meter.held(one.hold);
                counted.tally.lock().unwrap().holds.push(one.hold);
                return;
            }
            Err(Refused::Full { reason, .. }) => {
                counted.meter.refused(&tenant, reason, Instant::now());
                counted.tally.lock().unwrap().refused(reason);
            }
            Err(Refused::ShutDown) => unreachable!("nobody closes it"),
        }
        sleep(ms(100)).await;
    }
}

impl Tally {
    fn arrived(&mut self, second: u64) {
        self.arrivals += 1;
        let (of, n, most) = self.busiest;
        let n = if of == second { n + 1 } else { 1 };
        self.busiest = (second, n, most.max(n));
    }

    fn refused(&mut self, reason: CellReason) {
        match reason {
            CellReason::Tenant => self.refused_by_share += 1,
            CellReason::Class | CellReason::Cell => self.refused_for_room += 1,
        }
    }
}

/// Replays traffic in a layout.
async fn replay(classes: Vec<ClassLayout>, traffic: &[Recorded]) -> Replayed {
    let (begin, share) = (Instant::now(), TenantShare::default());
    let counted: Vec<_> = classes
        .iter()
        .map(|class| {
            let meter = ClassMeter::new(begin);
            meter.bound_tenants((class.ceiling / 4).max(1));
            Counted { meter, tally: Mutex::default() }
        })
        .collect();
    let (cell, counted) =
        (Compartments::new(Layout::new(PLACES, share, 1000, classes.clone()).unwrap()), Arc::new(counted));
    let sent =
        traffic.iter().map(|one| tokio::spawn(send(cell.clone(), one.clone(), Arc::clone(&counted), begin)));
    join_all(sent).await.into_iter().for_each(|ended| ended.unwrap());
    let snapshot = cell.snapshot();
    let class = |(at, class): (usize, ClassLayout)| {
        let mut tally = counted[at].tally.lock().unwrap();
        tally.holds.sort();
        let demand = counted[at].meter.demand();
        ClassUse {
            name: class.name,
            priority: class.priority,
            floor: class.floor,
            ceiling: class.ceiling,
            queue: class.queue,
            max_wait: class.max_wait,
            arrivals: tally.arrivals,
            demand: demand.requests,
            peak_per_second: u64::from(demand.peak_per_second),
            holds: tally.holds.len() as u64,
            mean_hold: tally.holds.iter().sum::<Duration>() / tally.holds.len() as u32,
            p99_hold: tally.holds[tally.holds.len() * 99 / 100],
            slowest_hold: demand.slowest_hold,
            peak_used: snapshot.classes[at].peak_used,
            refused_by_share: tally.refused_by_share,
            refused_for_room: tally.refused_for_room,
        }
    };
    let classes = classes.into_iter().enumerate().map(class).collect();
    let busiest = counted.iter().map(|counted| counted.tally.lock().unwrap().busiest.2).collect();
    let observed = begin.elapsed();
    let cell = CellUse { max_in_flight: PLACES, observed, classes, dependencies: Vec::new() };
    Replayed { cell, busiest }
}

/// How often each class was refused, beyond tenants' shares and for want of a place.
fn refusals(cell: &CellUse) -> Vec<(u64, u64)> {
    cell.classes.iter().map(|class| (class.refused_by_share, class.refused_for_room)).collect()
}

/// The sum of all refusals.
fn all_refusals(cell: &CellUse) -> u64 {
    refusals(cell).iter().map(|(share, room)| share + room).sum()
}

/// A rule that takes what arrives for demand and shares the cell in proportion to it.
fn by_arrivals(replayed: &Replayed) -> Vec<ClassLayout> {
    let need = |(class, busiest): (&ClassUse, &u64)| {
        let places = *busiest as f64 * class.p99_hold.as_secs_f64() * 1.3;
        (places.ceil() as u32).max(class.peak_used + 1)
    };
    let needs: Vec<_> = replayed.cell.classes.iter().zip(&replayed.busiest).map(need).collect();
    let needed: u32 = needs.iter().sum();
    let floor = |need: u32| need * PLACES.min(needed) / needed;
    let spare = PLACES - needs.iter().map(|&need| floor(need)).sum::<u32>();
    let layout = before().into_iter().zip(&needs).map(|(layout, &need)| {
        let (floor, ceiling) = (floor(need), need.max(floor(need) + spare).min(PLACES));
        ClassLayout { floor, ceiling, queue: floor / 2, max_wait: ms(50), ..layout }
    });
    layout.collect()
}

#[tokio::test(start_paused = true)]
async fn advice_by_a_flood_does_not_harm_a_slowdown_that_comes_later() {
    let seen = replay(before(), &flood()).await;
    let slow = slowdown();
    let before = replay(before(), &slow).await.cell;
    let after = replay(advised(&advise(&seen.cell)), &slow).await.cell;
    assert!(
        all_refusals(&after) <= all_refusals(&before),
        "{:?} -> {:?}",
        refusals(&before),
        refusals(&after)
    );
    // The replay finds harm where there is some: a class is squeezed by what the flood seemed to need.
    let squeezed = replay(by_arrivals(&seen), &slow).await.cell;
    let (squeezed, before) = (all_refusals(&squeezed), all_refusals(&before));
    assert!(squeezed > before + 100, "{squeezed} beside {before}");
}

#[tokio::test(start_paused = true)]
async fn advice_by_recorded_traffic_refuses_no_more_of_it_than_before() {
    for (name, traffic, is_helped) in [
        ("well", well(), false),
        ("flood", flood(), false),
        ("refused retries", refused_retries(), true),
        ("slowdown", slowdown(), true),
        ("bursts", bursts(), true),
        ("everything", everything(), false),
    ] {
        let old = replay(before(), &traffic).await.cell;
        let advice = advise(&old);
        let new = replay(advised(&advice), &traffic).await.cell;
        for ((before, after), told) in old.classes.iter().zip(&new.classes).zip(&advice.classes) {
            let shown = || format!("{name}: {:?} -> {:?} by {told:?}", refusals(&old), refusals(&new));
            assert!(after.refused_by_share <= before.refused_by_share, "{}", shown());
            assert!(after.refused_for_room <= before.refused_for_room, "{}", shown());
            assert!(told.refused_for_room <= before.refused_for_room, "{}", shown());
        }
        // Where the cell has places that nobody needs, whoever was short of them gets them.
        if is_helped {
            assert!(all_refusals(&new) < all_refusals(&old) / 2, "{name}: {:?}", refusals(&new));
        }
    }
}
