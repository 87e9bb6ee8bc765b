//! Advice out of numbers: what grows, what stays, and what is said.

use std::time::Duration;

use cofferdam_model::ClassName;

use super::*;

fn class(name: &str, peak_per_second: u64, mean_ms: u64, p99_ms: u64, peak_used: u32) -> ClassUse {
    ClassUse {
        name: ClassName::parse(name).unwrap(),
        priority: 1,
        floor: 0,
        ceiling: 100,
        queue: 0,
        max_wait: Duration::ZERO,
        arrivals: peak_per_second * 1000,
        demand: peak_per_second * 1000,
        peak_per_second,
        holds: peak_per_second * 1000,
        mean_hold: Duration::from_millis(mean_ms),
        p99_hold: Duration::from_millis(p99_ms),
        slowest_hold: Duration::ZERO,
        peak_used,
        refused_by_share: 0,
        refused_for_room: 0,
    }
}

fn cell(max_in_flight: u32, classes: Vec<ClassUse>) -> CellUse {
    let dependencies = Vec::new();
    CellUse { max_in_flight, observed: Duration::from_secs(3600), classes, dependencies }
}

#[test]
fn the_largest_of_littles_law_erlangs_formula_and_the_peak_is_the_floor() {
    let advice = advise(&cell(
        200,
        vec![
            class("little", 100, 100, 500, 20),
            class("erlang", 100, 200, 210, 20),
            class("peak", 10, 20, 30, 40),
        ],
    ));
    let sizes = |n: usize| {
        let class = &advice.classes[n];
        (class.by_littles_law, class.by_erlang, class.by_peak, class.floor)
    };
    assert_eq!(sizes(0), (65, 18, 21, 65));
    assert_eq!(sizes(1), (28, 30, 21, 30));
    assert_eq!(sizes(2), (1, 3, 41, 41));
    assert_eq!(advice.classes.iter().map(|class| class.ceiling).collect::<Vec<_>>(), [100; 3], "as they are");
    assert_eq!(advice.warnings, []);
}

#[test]
fn a_slowdown_that_was_seen_has_its_headroom() {
    let slow = ClassUse { slowest_hold: Duration::from_millis(110), ..class("a", 100, 10, 20, 5) };
    let floor = |class: ClassUse| advise(&cell(100, vec![class])).classes[0].floor;
    assert_eq!((floor(slow.clone()), floor(ClassUse { slowest_hold: Duration::ZERO, ..slow })), (15, 6));
}

#[test]
fn where_requests_found_no_place_a_queue_has_half_of_the_places_or_what_gets_one_in_time() {
    // P8
    let refused = |class: ClassUse| ClassUse { refused_for_room: 9, ..class };
    let (quick, slow) = (class("quick", 1000, 5, 10, 12), class("slow", 20, 2000, 3000, 50));
    let advice =
        advise(&cell(300, vec![refused(quick.clone()), refused(slow), ClassUse { queue: 2, ..quick }]));
    assert_eq!((advice.classes[0].floor, advice.classes[0].queue), (13, 6));
    // Within 100 ms, 78 places of two seconds each serve three.
    assert_eq!((advice.classes[1].floor, advice.classes[1].queue), (78, 3));
    assert_eq!(advice.classes[2].queue, 2, "nobody was refused: it stays");
}

#[test]
fn nothing_that_is_set_is_ever_lowered() {
    let set =
        ClassUse { floor: 60, ceiling: 90, queue: 30, refused_for_room: 5, ..class("a", 10, 20, 30, 4) };
    let advice = advise(&cell(100, vec![set, class("b", 100, 100, 500, 20)]));
    let sizes = |n: usize| (advice.classes[n].floor, advice.classes[n].ceiling, advice.classes[n].queue);
    assert_eq!(sizes(0), (60, 90, 30));
    assert_eq!(sizes(1).0, 40, "what is left, of 65 that it needs");
    assert_eq!(
        advice.warnings,
        [
            Warning::DoesNotFit { needed: 125, cell: 100 },
            Warning::Idle { class: ClassName::parse("a").unwrap(), floor: 60, peak_used: 4 }
        ]
    );
}

#[test]
fn a_cell_that_is_too_small_grows_floors_only_where_nobody_has_needed_the_places() {
    let floors = |peak_of_b| {
        let advice =
            advise(&cell(50, vec![class("a", 100, 100, 500, 20), class("b", 100, 100, 250, peak_of_b)]));
        let floors: Vec<_> = advice.classes.iter().map(|class| class.floor).collect();
        (floors, advice.warnings)
    };
    // Each keeps what it has had at once, 21 here, and has its part of the eight that are left.
    assert_eq!(floors(20), (vec![27, 22], vec![Warning::DoesNotFit { needed: 98, cell: 50 }]));
    // Both together have had more than the cell: at different times, so that each place may be the other's.
    assert_eq!(floors(40), (vec![0, 0], vec![Warning::DoesNotFit { needed: 106, cell: 50 }]));
}

#[test]
fn a_class_with_too_few_samples_is_kept_as_it_is_and_so_are_its_places() {
    let rare = |holds, peak_used| {
        let set = ClassUse {
            floor: 3,
            ceiling: 20,
            queue: 4,
            refused_for_room: 70,
            ..class("rare", 50, 100, 900, peak_used)
        };
        ClassUse { holds, ..set }
    };
    let advice = advise(&cell(30, vec![rare(999, 12), class("b", 100, 100, 500, 10)]));
    let kept = &advice.classes[0];
    assert_eq!((kept.floor, kept.ceiling, kept.queue, kept.too_few), (3, 20, 4, true));
    assert_eq!(kept.refused_for_room, 70);
    assert_eq!(advice.classes[1].floor, 18, "the other one gets none of the 12 places that it has had");
    assert!(advice.warnings.contains(&Warning::FewSamples { class: kept.name.clone(), holds: 999 }));
    let enough = advise(&cell(90, vec![rare(1000, 12)]));
    assert_eq!((enough.classes[0].floor, enough.classes[0].too_few), (59, false));
}

#[test]
fn what_the_advice_would_have_refused_is_reckoned_and_never_more_than_was() {
    let short = ClassUse { refused_for_room: 500, ..class("a", 100, 100, 200, 9) };
    let of = |class: ClassUse, places| advise(&cell(places, vec![class])).classes[0].refused_for_room;
    // Ten places on average need 26 at the peak: with those Erlang's loss is next to nothing.
    assert!(of(short.clone(), 100) <= 2, "{}", of(short.clone(), 100));
    let tight = of(short.clone(), 10);
    assert!((100..=500).contains(&tight), "{tight}");
    assert_eq!(of(ClassUse { refused_for_room: 0, ..short }, 10), 0);
}

#[test]
fn what_does_not_pay_is_said() {
    // P17, P20
    let mut idle = ClassUse { arrivals: 0, demand: 0, holds: 0, floor: 20, ..class("idle", 0, 0, 0, 0) };
    idle.ceiling = 30;
    let rare = ClassUse { arrivals: 50, demand: 50, holds: 50, ..class("rare", 1, 10, 20, 1) };
    let slow = class("slow", 2, 4000, 9000, 9);
    let name = |name: &str| ClassName::parse(name).unwrap();
    let advice = advise(&cell(100, vec![idle, rare.clone(), slow]));
    assert_eq!(
        advice.warnings,
        [
            Warning::Idle { class: name("idle"), floor: 20, peak_used: 0 },
            Warning::FewSamples { class: name("rare"), holds: 50 },
            Warning::TooSmall { class: name("rare"), places: 2 },
            Warning::CanWait { class: name("slow"), p99_hold: Duration::from_secs(9) },
        ]
    );
    assert_eq!((advice.classes[0].floor, advice.classes[0].queue), (20, 0), "it is kept as it is");
    let alone = advise(&cell(100, vec![ClassUse { holds: 5000, peak_used: 9, ..rare }]));
    assert_eq!(alone.warnings, [Warning::OneClass { class: name("rare") }]);
}

#[test]
fn where_dependencies_have_caps_they_say_whether_there_is_anything_to_keep_apart() {
    // P20
    let busy = |name| class(name, 100, 100, 500, 20);
    let idle = ClassUse { arrivals: 0, demand: 0, holds: 0, ..busy("idle") };
    let warnings = |classes: Vec<ClassUse>, dependencies: &[&str]| {
        let dependencies = dependencies.iter().map(|&name| name.to_owned()).collect();
        advise(&CellUse { dependencies, ..cell(300, classes) }).warnings
    };
    let one = [Warning::OneDependency { dependency: "db".to_owned() }];
    assert_eq!(warnings(vec![busy("a")], &["db", "mail"]), [], "one class needs two");
    assert_eq!(warnings(vec![busy("a"), busy("b")], &["db"]), one, "two classes need the same");
    assert_eq!(warnings(vec![busy("a"), busy("b")], &[]), []);
    assert_eq!(warnings(vec![idle], &["db"]), [], "nothing has traffic");
}

#[test]
fn what_is_out_of_range_overflows_nothing() {
    let huge =
        ClassUse { p99_hold: Duration::MAX, mean_hold: Duration::MAX, ..class("huge", 1, 0, 0, u32::MAX) };
    let small = ClassUse { peak_used: 2, ..huge.clone() };
    let floors = |huge: ClassUse| {
        let advice = advise(&cell(10, vec![huge.clone(), huge]));
        advice.classes.iter().map(|class| class.floor).collect::<Vec<_>>()
    };
    assert_eq!((floors(huge), floors(small)), (vec![0, 0], vec![5, 5]));
}
