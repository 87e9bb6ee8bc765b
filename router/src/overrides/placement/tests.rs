//! What holds of a record whatever happens to it, in any order and at any time.

use cofferdam_model::CellId;
use proptest::collection::vec;
use proptest::prelude::*;

use super::moving::{Heard, LETTING_IN_MS, Move, Phase};
use super::record::Record;
use super::word::Word;

const DEADLINE_MS: u64 = 30_000;
const HOUR_MS: u64 = 3_600_000;
const ROUTERS: [&str; 3] = ["r0", "r1", "r2"];

/// What may happen to a move.
#[derive(Debug, Clone)]
enum Step {
    /// A router says something of this move, or of another one.
    Hear { router: usize, heard: Heard, is_ours: bool },
    /// A router takes it further, where those that live are known, or are not.
    Advance(Option<Vec<usize>>),
    /// An operator stops it.
    Stop,
    /// So many milliseconds go by.
    Time(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let heard = prop_oneof![
        3 => Just(Heard::Holding(0)),
        1 => (1_u32..4).prop_map(Heard::Holding),
        1 => Just(Heard::LettingIn),
    ];
    let hear = (0..ROUTERS.len(), heard, prop::bool::weighted(0.9));
    // Whoever asks lives, so that it is one at least.
    let live = prop::option::weighted(0.8, prop::sample::subsequence(vec![0, 1, 2], 1..=3));
    prop_oneof![
        6 => hear.prop_map(|(router, heard, is_ours)| Step::Hear { router, heard, is_ours }),
        4 => live.prop_map(Step::Advance),
        1 => Just(Step::Stop),
        3 => (0..DEADLINE_MS / 2).prop_map(Step::Time),
    ]
}

fn word(to: &[&str]) -> Word {
    let to = to.iter().map(|&cell| cell.to_owned()).collect();
    Word { to, since_ms: 0, until_ms: 100 * HOUR_MS, author: "ops".to_owned(), reason: "r".to_owned() }
}

fn names(routers: &[usize]) -> Vec<String> {
    routers.iter().map(|&router| ROUTERS[router].to_owned()).collect()
}

fn moving() -> Record {
    let mut record = Record::default();
    record.moving = Some(Move::new("ours".to_owned(), word(&["c", "d"]), 0, DEADLINE_MS));
    record
}

/// Whether every one of `live` has said last that nobody is inside.
fn are_empty(record: &Record, live: &[String]) -> bool {
    let routers = &record.moving.as_ref().unwrap().routers;
    live.iter().all(|router| routers.get(router) == Some(&Heard::Holding(0)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_pin_takes_effect_once_when_all_that_live_are_empty_in_time_and_every_move_ends(
        steps in vec(step(), 0..60),
    ) {
        let (mut record, mut now_ms) = (moving(), 0);
        for step in steps {
            let before = record.clone();
            let was = before.moving.as_ref().map(|moving| moving.phase);
            match step {
                Step::Hear { router, heard, is_ours } => {
                    let id = if is_ours { "ours" } else { "another" };
                    let is_news = record.hear(id, ROUTERS[router], heard);
                    prop_assert_eq!(is_news, record != before);
                    prop_assert!(is_ours || !is_news);
                }
                Step::Advance(live) => {
                    let live = live.map(|live| names(&live));
                    let went_on = record.advance(live.as_deref(), now_ms);
                    prop_assert_eq!(went_on, record != before);
                    if was == Some(Phase::Holding) && record.pin.is_some() {
                        prop_assert!(now_ms < DEADLINE_MS);
                        prop_assert!(are_empty(&before, &live.unwrap()));
                    }
                }
                // As it is stopped: while it holds.
                Step::Stop if was == Some(Phase::Holding) => {
                    record.end_move(Some("stopped".to_owned()), now_ms);
                }
                Step::Stop => {}
                Step::Time(ms) => now_ms += ms,
            }
            let is_over = record.moving.is_none();
            let has_effect = was == Some(Phase::LettingIn) || before.pin.is_some();
            prop_assert!(!has_effect || record.pin == before.pin, "what took effect stays");
            prop_assert_eq!(is_over, record.moved.is_some());
            if let Some(ended) = &record.moved {
                prop_assert_eq!(ended.undone.is_none(), record.pin.is_some());
                prop_assert!(before.moved.is_none() || before.moved.as_ref() == Some(ended));
            }
            // Words after the end are of no move.
            prop_assert!(was.is_some() || record == before);
        }
        // Whoever looks behind its last moment ends it, and knows nothing else.
        record.advance(None, now_ms.max(DEADLINE_MS + LETTING_IN_MS));
        prop_assert!(record.moving.is_none() && record.moved.is_some());
    }

    #[test]
    fn in_no_hour_a_tenant_comes_to_more_new_cells_than_it_may(
        most in 0_u32..6,
        touches in vec((vec(0_u8..12, 1..4), vec(0_u8..12, 0..3), 0..HOUR_MS / 3), 1..60),
    ) {
        let (mut record, mut now_ms) = (Record::default(), HOUR_MS);
        let mut new: Vec<(String, u64)> = Vec::new();
        for (cells, known, ms) in touches {
            now_ms += ms;
            let name = |cell: &u8| format!("cell-{}", char::from(b'a' + cell));
            let cells: std::collections::BTreeSet<_> = cells.iter().map(name).collect();
            let known: Vec<_> = known.iter().map(name).collect();
            let asked: Vec<_> = cells.iter().map(|cell| CellId::parse(cell).unwrap()).collect();
            let lately = |cell: &String| new.iter().any(|(it, at_ms)| it == cell && at_ms + HOUR_MS > now_ms);
            let are_new: Vec<_> =
                cells.iter().filter(|cell| !known.contains(cell) && !lately(cell)).cloned().collect();
            let n_lately = new.iter().filter(|(_, at_ms)| at_ms + HOUR_MS > now_ms).count();
            let is_room = are_new.is_empty() || n_lately + are_new.len() <= most as usize;
            let mut next = record.clone();
            let is_done = next.touch(&asked, &known, most, now_ms).is_ok();
            prop_assert_eq!(is_done, is_room);
            if is_done {
                record = next;
                new.extend(are_new.into_iter().map(|cell| (cell, now_ms)));
            }
            // As it is written, where all of it may have ended.
            record = record.settled(now_ms).unwrap_or_default();
        }
        for (_, from_ms) in &new {
            let within = new.iter().filter(|(_, at_ms)| (*from_ms..from_ms + HOUR_MS).contains(at_ms));
            prop_assert!(within.count() <= most as usize, "{new:?}");
        }
    }
}
