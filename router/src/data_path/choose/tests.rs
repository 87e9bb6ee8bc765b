//! The order of a shard's cells, case by case; and twenty routers that choose by what they heard half a second ago.

mod herd;

use std::io;
use std::path::Path;
use std::time::Duration;

use cofferdam_fleet::Fleet;
use http::HeaderValue;

use super::*;
use crate::cells::Directory;

fn cells(n: usize) -> Vec<Arc<Cell>> {
    let entries: String =
        (0..n).map(|i| format!("  - {{ id: cell-{i}, url: \"http://127.0.0.1:{}\" }}\n", 7000 + i)).collect();
    let fleet = Fleet::parse(&format!("fleet: f\ncells:\n{entries}"), Path::new(".")).unwrap().fleet;
    Directory::default().adopt(&fleet.cells)
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

fn said(cell: &Cell, whole: f64, class: f64, now: Instant) {
    let text = format!("TEXT application_utilization={whole:.3}, named_metrics.search={class:.3}");
    cell.note_report(HeaderValue::from_str(&text).unwrap(), now);
}

fn tenant() -> TenantId {
    TenantId::parse(b"bad", &cofferdam_model::Alphabet::default()).unwrap()
}

fn candidates<'v>(
    shard: &'v [CellIndex],
    cells: &'v [Arc<Cell>],
    class: &'v str,
    choose: Choose,
) -> Candidates<'v> {
    let (shard, tenant) = (Shard::new(shard), tenant());
    Candidates { shard, cells, class, choose, tenant, kept_by: None, guard: None, tried: 0 }
}

/// The order in which a request of class `search` tries the cells.
fn order(choose: Choose, shard: &[CellIndex], cells: &[Arc<Cell>], now: Instant) -> Vec<u16> {
    let mut candidates = candidates(shard, cells, "search", choose);
    std::iter::from_fn(|| candidates.next(now)).map(|cell| cell.0).collect()
}

const PAIR: [CellIndex; 2] = [CellIndex(0), CellIndex(1)];

#[test]
fn home_comes_first_and_what_is_down_last_but_never_left_out() {
    let (cells, shard, now) = (cells(4), [CellIndex(2), CellIndex(0)], Instant::now());
    for choose in [Choose::Primary, Choose::Balance] {
        assert_eq!(order(choose, &shard, &cells, now), [2, 0]);
        cells[2].note_fault(&refused(), now);
        assert_eq!(order(choose, &shard, &cells, now), [0, 2]);
        cells[0].note_fault(&refused(), now);
        assert_eq!(order(choose, &shard, &cells, now), [2, 0]);
        for cell in [0, 2] {
            cells[cell].note_answer(true);
        }
        assert_eq!(order(choose, &shard, &cells, now), [2, 0]);
    }
}

#[test]
fn a_cell_that_goes_down_between_two_tries_is_not_tried_twice() {
    let (cells, shard, now) = (cells(3), [CellIndex(0), CellIndex(1), CellIndex(2)], Instant::now());
    let mut candidates = candidates(&shard, &cells, "search", Choose::Primary);
    assert_eq!(candidates.next(now), Some(CellIndex(0)));
    cells[0].note_fault(&refused(), now);
    cells[1].note_fault(&refused(), now);
    assert_eq!(candidates.next(now), Some(CellIndex(2)));
    assert_eq!(candidates.next(now), Some(CellIndex(1)));
    assert_eq!(candidates.next(now), None);
}

#[test]
fn a_full_home_is_left_for_the_second_cell_until_its_report_is_old() {
    let (cells, now) = (cells(2), Instant::now());
    let order = |ms| order(Choose::Primary, &PAIR, &cells, now + Duration::from_millis(ms));
    said(&cells[0], 0.89, 0.89, now);
    assert_eq!(order(0), [0, 1]);
    said(&cells[0], 0.2, 0.9, now);
    assert_eq!(order(0), [1, 0], "its class is full");
    assert_eq!(order(1999), [1, 0]);
    assert_eq!(order(2000), [0, 1], "nothing is known, so home serves");
    cells[1].note_fault(&refused(), now);
    assert_eq!(order(0), [0, 1], "better full than down");
}

#[test]
fn a_tenant_that_was_at_two_losses_has_its_home_cell_alone() {
    let (cells, losses, now) = (cells(2), Losses::default(), Instant::now());
    let tenant = tenant();
    let order = |ms| {
        let guard = Some(&losses);
        let mut candidates = Candidates { guard, ..candidates(&PAIR, &cells, "search", Choose::Balance) };
        std::iter::from_fn(|| candidates.next(now + Duration::from_millis(ms))).collect::<Vec<_>>()
    };
    losses.note(&tenant, &cells[0].id, Whereabouts::Home, now);
    assert_eq!(order(0), PAIR);
    losses.note(&tenant, &cells[1].id, Whereabouts::Away, now);
    cells[0].note_fault(&refused(), now);
    assert_eq!(order(0), [CellIndex(0)], "though it is down");
    assert_eq!(order(60_000), PAIR);
}

#[test]
fn home_is_where_the_requests_own_shard_begins() {
    // As for a tenant that is pinned the other way round, or kept by a cell that drains.
    let (cells, shard) = (cells(2), [CellIndex(1), CellIndex(0)]);
    let candidates = candidates(&shard, &cells, "search", Choose::Primary);
    let whereabouts = [0, 1].map(|cell| candidates.whereabouts(CellIndex(cell)));
    assert_eq!(whereabouts, [Whereabouts::Away, Whereabouts::Home]);
}

#[test]
fn there_is_another_as_long_as_one_that_is_up_was_not_tried_and_the_tenant_may_have_it() {
    let (cells, losses, now) = (cells(2), Losses::default(), Instant::now());
    let tenant = tenant();
    let has_another = |n_tried| {
        let guard = Some(&losses);
        let mut candidates = Candidates { guard, ..candidates(&PAIR, &cells, "search", Choose::Primary) };
        for _ in 0..n_tried {
            candidates.next(now).unwrap();
        }
        candidates.has_another(now)
    };
    assert_eq!([0, 1, 2].map(has_another), [true, true, false]);
    cells[1].note_fault(&refused(), now);
    assert!(!has_another(1), "it is believed down");
    cells[1].note_answer(true);
    losses.note(&tenant, &cells[0].id, Whereabouts::Home, now);
    losses.note(&tenant, &cells[1].id, Whereabouts::Away, now);
    assert!(!has_another(1), "the tenant has its home alone");
}

#[test]
fn of_two_that_are_avoided_the_one_with_less_to_do_is_tried_first() {
    let (cells, now) = (cells(2), Instant::now());
    said(&cells[0], 0.99, 0.99, now);
    said(&cells[1], 0.91, 0.91, now);
    assert_eq!(order(Choose::Primary, &PAIR, &cells, now), [1, 0]);
    let _held: Vec<_> = (0..3).map(|_| cells[1].enter()).collect();
    assert_eq!(order(Choose::Primary, &PAIR, &cells, now), [0, 1]);
}

#[test]
fn balance_compares_own_requests_and_what_cells_say_together() {
    let (cells, now) = (cells(2), Instant::now());
    let order = || order(Choose::Balance, &PAIR, &cells, now);
    let held = cells[0].enter();
    assert_eq!(order(), [1, 0], "by own requests alone, where nothing is said");
    said(&cells[0], 0.1, 0.1, now);
    assert_eq!(order(), [1, 0], "whoever says nothing is neither preferred nor spared");
    said(&cells[1], 0.5, 0.5, now);
    assert_eq!(order(), [0, 1]);
    drop(held);
    said(&cells[1], 0.05, 0.05, now);
    assert_eq!(order(), [1, 0]);
}

#[test]
fn a_cell_that_fails_fast_is_not_attractive() {
    let (cells, now) = (cells(2), Instant::now());
    let _serving: Vec<_> = (0..5).map(|_| cells[1].enter()).collect();
    assert_eq!(order(Choose::Balance, &PAIR, &cells, now), [0, 1]);
    // Nothing is in flight on it, and it says that it is idle.
    for _ in 0..10 {
        cells[0].note_failure(&tenant(), now);
    }
    said(&cells[0], 0.0, 0.0, now);
    said(&cells[1], 0.02, 0.02, now);
    assert_eq!(order(Choose::Balance, &PAIR, &cells, now), [1, 0]);
    let later = now + Duration::from_millis(1900);
    said(&cells[0], 0.0, 0.0, later);
    said(&cells[1], 0.02, 0.02, later);
    assert_eq!(order(Choose::Balance, &PAIR, &cells, later), [0, 1], "it is tried again after a while");
}

#[test]
fn a_class_is_shed_where_no_cell_that_is_up_has_room_for_it() {
    let (cells, now) = (cells(2), Instant::now());
    let sheds = |thousandths, class| {
        let candidates = candidates(&PAIR, &cells, class, Choose::Primary);
        candidates.have_no_room(Saturation::ratio(thousandths, 1000), now)
    };
    assert!(!sheds(900, "search"), "nothing is known");
    said(&cells[0], 0.96, 0.96, now);
    assert!(!sheds(900, "search"), "the other cell says nothing");
    said(&cells[1], 0.93, 1.0, now);
    assert!(sheds(900, "search") && sheds(930, "search"));
    assert!(!sheds(950, "search"), "a higher priority goes on");
    cells[1].note_fault(&refused(), now);
    assert!(sheds(950, "search"), "a cell that is down gives no room");
    said(&cells[0], 0.96, 0.3, now);
    assert!(!sheds(900, "search"), "the class has places of its own");
    said(&cells[0], 0.3, 1.0, now);
    assert!(!sheds(900, "search"), "what the class alone fills is its agent's to queue");
    said(&cells[0], 0.96, 0.96, now);
    cells[0].note_fault(&refused(), now);
    assert!(!sheds(900, "search"), "with none up, both are tried");
}

/// Which cell a request of class `search` goes to first, of `n` in each of eleven seconds after `cells[0]` has returned.
fn shares_after_return(choose: Choose, cells: &[Arc<Cell>], n: u64) -> Vec<u64> {
    let now = Instant::now();
    cells[0].note_fault(&refused(), now);
    cells[0].note_answer(true);
    let first = |at: Instant| candidates(&PAIR, cells, "search", choose).next(at);
    let second = |s: u64| {
        let at = |i: u64| now + Duration::from_millis(s * 1000 + i * 1000 / n);
        (0..n).filter(|i| first(at(*i)) == Some(CellIndex(0))).count() as u64
    };
    (0..11).map(second).collect()
}

#[test]
fn a_home_that_has_returned_has_a_growing_share_of_its_requests_and_the_other_cell_the_rest() {
    for choose in [Choose::Primary, Choose::Balance] {
        let counted = shares_after_return(choose, &cells(2), 1000);
        let is_growing = counted.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(is_growing && counted[0] < 130 && counted[10] == 1000, "{choose:?}: {counted:?}");
        assert!((480..620).contains(&counted[5]), "{choose:?}: {counted:?}");
    }
}

#[test]
fn a_cell_that_has_returned_has_all_where_the_other_is_down_full_or_returning_itself() {
    let now = Instant::now();
    let cells = cells(2);
    cells[1].note_fault(&refused(), now);
    // Its belief expires after 2 s: the cell has returned itself then.
    assert_eq!(shares_after_return(Choose::Primary, &cells, 100)[..9], [100; 9]);
    let cells = self::cells(2);
    let all = |_| {
        said(&cells[1], 1.0, 1.0, Instant::now());
        candidates(&PAIR, &cells, "search", Choose::Primary).next(Instant::now())
    };
    cells[0].note_fault(&refused(), now);
    cells[0].note_answer(true);
    assert!((0..100).map(all).all(|cell| cell == Some(CellIndex(0))));
}
