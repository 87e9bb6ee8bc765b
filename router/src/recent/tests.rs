//! What the record keeps, forgets and bounds.

use std::path::Path;

use cofferdam_fleet::Fleet;
use cofferdam_model::Alphabet;

use super::rows::{MAX_ROWS, WINDOW};
use super::*;
use crate::cells::Directory;

const CELLS: &str = "fleet: f\ncells: [{ id: a, url: 'http://a:1' }, { id: b, url: 'http://b:1' }]\n";

fn snapshot() -> Snapshot {
    let text = format!("{CELLS}routes: [{{ match: {{ path: /x }}, class: default }}]\n");
    Snapshot::build(Fleet::parse(&text, Path::new(".")).unwrap().fleet, &Directory::default()).unwrap()
}

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name.as_bytes(), &Alphabet::default()).unwrap()
}

fn refused(reason: &'static str, status: u16) -> Event<'static> {
    let (class, kind) = (ClassIndex(0), EventKind::Answer);
    Event { kind, level: "tenant", reason, status, class, cell: None, route: None, took: None }
}

const HALF: Duration = Duration::from_secs(7);

fn answered(record: &WorkerRecord, tenant: &TenantId, snapshot: &Snapshot, ago: Duration) {
    let at = (ClassIndex(0), CellIndex(1));
    let begun = Instant::now().checked_sub(ago).unwrap();
    record.begin(tenant, snapshot, at, begun, HALF).ended(EventKind::Answer, "backend", OK, 0);
}

#[test]
fn what_workers_recorded_of_a_tenant_is_put_together_by_reason_class_and_cell() {
    let (snapshot, acme, now) = (snapshot(), tenant("acme"), Instant::now());
    let (one, other) = (WorkerRecord::default(), WorkerRecord::default());
    one.note(&acme, &snapshot, refused("rate", 0), now);
    other.note(&acme, &snapshot, refused("rate", 0), now);
    one.note(&acme, &snapshot, refused("concurrency", 0), now);
    other.note(&tenant("globex"), &snapshot, refused("quota", 0), now);
    answered(&other, &acme, &snapshot, Duration::from_secs(8));
    let recent = of([&one, &other].into_iter(), &acme, &snapshot, Instant::now());
    let rows: Vec<_> = recent.rows.iter().map(|row| (row.reason.as_str(), row.count, row.late)).collect();
    assert_eq!(rows, [("rate", 2, 0), ("concurrency", 1, 0), ("ok", 1, 1)]);
    let ok = &recent.rows[2];
    assert_eq!((ok.class.as_str(), ok.cell.as_deref()), ("default", Some("b")));
    assert!((8_000..60_000).contains(&ok.mean_ms), "{ok:?}");
    assert_eq!((recent.requests, recent.waiting.len()), (4, 0));
}

#[test]
fn what_is_older_than_two_windows_is_forgotten() {
    let (snapshot, acme, now) = (snapshot(), tenant("acme"), Instant::now());
    let record = WorkerRecord::default();
    record.note(&acme, &snapshot, refused("rate", 0), now);
    let rows = |at| of([&record].into_iter(), &acme, &snapshot, at).rows.len();
    assert_eq!((rows(now), rows(now + WINDOW), rows(now + 2 * WINDOW)), (1, 1, 0));
}

#[test]
fn a_request_that_waits_is_told_with_its_age_and_one_that_is_dropped_was_left_by_its_caller() {
    let (snapshot, acme) = (snapshot(), tenant("acme"));
    let record = WorkerRecord::default();
    let begun = Instant::now();
    let at = (ClassIndex(0), CellIndex(0));
    let waits = record.begin(&acme, &snapshot, at, begun, HALF);
    let look = |at| of([&record].into_iter(), &acme, &snapshot, at);
    let waiting = &look(begun + Duration::from_secs(8)).waiting;
    let class = Some("default".to_owned());
    let expected = RecentWaiting { class, cell: Some("a".to_owned()), count: 1, oldest_ms: 8_000, late: 1 };
    assert_eq!(*waiting, [expected]);
    drop(waits);
    let recent = look(Instant::now());
    assert_eq!((recent.waiting.len(), recent.rows[0].reason.as_str()), (0, "gone"));
    let again = record.begin(&acme, &snapshot, at, begun, HALF);
    assert_eq!(record.0.lock().waiting.len(), 1, "its place is used again");
    again.ended(EventKind::Attempt, "cell", "connect", 0);
}

#[test]
fn rows_and_tenants_are_bounded_and_what_has_no_row_is_counted() {
    let (snapshot, acme, now) = (snapshot(), tenant("acme"), Instant::now());
    let record = WorkerRecord::default();
    for status in 0..1_000 {
        record.note(&acme, &snapshot, refused("error", status), now);
    }
    let recent = of([&record].into_iter(), &acme, &snapshot, now);
    assert_eq!((recent.rows.len(), recent.unlisted), (MAX_ROWS, 1_000 - MAX_ROWS as u64));
    for n in 0..10_000 {
        record.note(&acme, &snapshot, refused("rate", 0), now);
        record.note(&tenant(&format!("stranger-{n}")), &snapshot, refused("rate", 0), now);
    }
    let recent = of([&record].into_iter(), &acme, &snapshot, now);
    assert_eq!(recent.forgotten, 10_001 - u64::from(N_TENANTS));
    assert_eq!(recent.unlisted, 11_000 - MAX_ROWS as u64, "whoever is seen all the time is kept");
}

#[test]
fn an_answer_is_compared_with_what_is_usual_for_the_tenant_and_a_slow_time_is_not_usual_at_once() {
    let (snapshot, began) = (snapshot(), Instant::now());
    let mut rows = TenantRows::new(began);
    let took = |ms| {
        let (class, cell) = (ClassIndex(0), Some(CellIndex(0)));
        let took = Some((Duration::from_millis(ms), false));
        Event {
            kind: EventKind::Answer,
            level: "backend",
            reason: OK,
            status: 0,
            class,
            cell,
            route: None,
            took,
        }
    };
    let usual_ms = |rows: &TenantRows| rows.usual.first().map(|usual| usual.us / 1000);
    let mut now = began;
    let mut pass = |rows: &mut TenantRows, ms| {
        rows.add(&snapshot, took(ms), now);
        now += WINDOW;
        rows.turn(now);
        usual_ms(rows)
    };
    assert_eq!((usual_ms(&rows), pass(&mut rows, 20)), (None, Some(20)));
    assert_eq!(pass(&mut rows, 30), Some(25));
    for _ in 0..4 {
        assert!(pass(&mut rows, 1_000).is_some_and(|usual| usual < 200));
    }
}
