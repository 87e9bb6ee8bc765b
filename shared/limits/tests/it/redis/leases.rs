//! Leases through the script: what a session was granted stays in an account until it is spent, given back or lost.

use std::time::Duration;

use cofferdam_limits::redis::{Dealing, Report, Room, Tokens, TokensReply};

use super::{Held, bucket, seq};

/// A lease of a bucket of 10 that fills with 5 a second.
fn lease(number: u64, held: u32, spent: i64, want: u32) -> Tokens {
    let report = Report::Account { seq: seq(number), held, spent };
    Tokens { bucket: bucket("5/s", 10), report, want, min: 0, dealing: Dealing::PLAIN }
}

/// Whole tokens that are granted, left and outstanding.
fn counts(reply: TokensReply) -> (u32, i64, u64) {
    assert!(!reply.stale);
    (reply.granted, reply.level.div_euclid(200_000), reply.outstanding)
}

#[test]
fn level_and_outstanding_never_exceed_the_capacity() {
    let mut held = Held::start();
    assert_eq!(counts(held.tokens('a', lease(1, 0, 0, 8))), (8, 2, 8));
    held.at(60_000_000 - 55_000_000);
    // Alive, and still holding 8: nothing flows in beyond 2.
    assert_eq!(counts(held.tokens('b', lease(1, 0, 0, 1))), (1, 1, 9));
    // Of 8 are 3 spent and 4 given back.
    assert_eq!(counts(held.tokens('a', lease(2, 1, 3, 0))), (0, 5, 2));
}

#[test]
fn a_lost_answer_heals_with_the_next_report() {
    let mut held = Held::start();
    assert_eq!(counts(held.tokens('a', lease(1, 0, 0, 4))), (4, 6, 4));
    // Granted 3, which never arrive.
    assert_eq!(counts(held.tokens('a', lease(2, 2, 2, 3))), (3, 3, 5));
    assert_eq!(counts(held.tokens('a', lease(3, 2, 2, 0))), (0, 6, 2));
}

#[test]
fn an_equal_call_grants_nothing_and_a_late_one_is_stale() {
    let mut held = Held::start();
    let first = held.tokens('a', lease(2, 0, 0, 4));
    held.at(1_000);
    let again = held.tokens('a', lease(2, 0, 0, 4));
    assert_eq!((again.granted, again.outstanding, again.wanted), (0, 4, first.wanted));
    assert!(held.tokens('a', lease(1, 0, 0, 4)).stale);
    assert_eq!(counts(held.tokens('a', lease(3, 4, 0, 0))), (0, 6, 4), "nothing was lost");
}

#[test]
fn an_account_that_is_not_there_is_registered_and_gets_nothing_for_it() {
    let mut held = Held::start();
    // After a wipe: what it holds is believed, and what it spent was counted before.
    assert_eq!(counts(held.tokens('a', lease(7, 4, 90, 0))), (0, 6, 4));
    assert_eq!(counts(held.tokens('a', lease(8, 1, 91, 0))), (0, 8, 1));
    held.wipe();
    assert_eq!(counts(held.tokens('a', lease(9, 1, 91, 5))), (0, 0, 1));
}

#[test]
fn an_account_that_ended_counts_as_spent() {
    let mut held = Held::start();
    held.tokens('a', lease(1, 0, 0, 10));
    held.at(5_999_999);
    assert_eq!(counts(held.tokens('b', lease(1, 0, 0, 1))), (0, 0, 10));
    held.at(6_000_000);
    let free = held.tokens('b', lease(2, 0, 0, 1));
    assert_eq!((counts(free), free.room), ((0, 0, 0), Room::Now));
    held.at(6_200_000);
    assert_eq!(counts(held.tokens('b', lease(3, 0, 0, 1))), (1, 0, 1));
}

/// What is outstanding flows in only after its account has ended; were the key to end with the account, the bucket would be
/// full at once, and
/// (its tombstone lasts one TTL longer)  what was spent in the account's last moment could be had twice.
#[test]
fn a_key_outlives_its_last_account_by_what_that_held() {
    let mut held = Held::start();
    held.tokens('a', lease(1, 0, 0, 10));
    let key = held.names.tokens();
    assert_eq!(held.ends_in(&key), 12_001_000);
    held.at(6_000_001);
    assert_eq!(held.spend(1, bucket("5/s", 10)).room, Room::In(Duration::from_micros(199_999)));
}

#[test]
fn a_settled_cost_is_charged_or_given_back_through_the_account() {
    let mut held = Held::start();
    held.tokens('a', lease(1, 0, 0, 4));
    // 4 granted, 9 spent: 5 more than there were.
    assert_eq!(counts(held.tokens('a', lease(2, 0, 9, 0))), (0, 1, 0));
    assert_eq!(counts(held.tokens('a', lease(3, 0, 12, 0))), (0, -2, 0));
    assert_eq!(counts(held.tokens('a', lease(4, 0, 1_000, 0))), (0, -10, 0), "minus one burst");
    assert_eq!(counts(held.tokens('a', lease(5, 0, 994, 0))), (0, -4, 0));
}

#[test]
fn what_is_short_is_shared_by_what_each_wants() {
    let mut held = Held::start();
    held.tokens('a', Tokens { min: 10, ..lease(1, 0, 0, 10) });
    let wants =
        |held: &mut Held, session, number, spent, want| held.tokens(session, lease(number, 0, spent, want));
    wants(&mut held, 'a', 2, 10, 30);
    wants(&mut held, 'b', 1, 0, 10);
    held.at(1_600_000);
    // 8 tokens for wants of 30 and 10.
    let b = wants(&mut held, 'b', 2, 0, 10);
    assert_eq!((b.granted, b.wanted), (2, 40));
    assert_eq!(wants(&mut held, 'a', 3, 10, 30).granted, 4, "6 x 30 / 40");
    assert_eq!(wants(&mut held, 'c', 1, 0, 1).granted, 1, "at least one");
    // A `min` is served wherever it is there.
    held.at(2_000_000);
    let min = held.tokens('d', Tokens { min: 2, ..lease(1, 0, 0, 2) });
    assert_eq!(min.granted, 2);
}

#[test]
fn a_lowered_capacity_lets_nothing_flow_in_beside_what_is_outstanding() {
    let mut held = Held::start();
    held.tokens('a', lease(1, 0, 0, 8));
    let lowered = Tokens { bucket: bucket("5/s", 4), ..lease(2, 8, 0, 1) };
    assert_eq!(counts(held.tokens('a', lowered)), (0, 0, 8));
    let back = Tokens { bucket: bucket("5/s", 4), ..lease(3, 0, 2, 0) };
    assert_eq!(counts(held.tokens('a', back)), (0, 4, 0));
}

#[test]
fn learning_stops_no_tokens() {
    let mut held = Held::start();
    held.wipe();
    held.tokens('a', lease(1, 0, 0, 0));
    held.at(1_000_000);
    assert_eq!(counts(held.tokens('a', lease(2, 0, 0, 3))), (3, 2, 3));
}

/// A report that was sent before the account ended and comes after it is booked against the account, once.
#[test]
fn a_report_that_comes_after_its_account_ended_is_charged_once() {
    let mut held = Held::start();
    held.tokens('a', lease(1, 0, 0, 10));
    held.at(7_000_000);
    // Nobody has looked meanwhile: what was held counts as spent, and flows back.
    assert_eq!(counts(held.tokens('b', lease(1, 0, 0, 1))), (1, 4, 1));
    // Six of the ten were not spent.
    assert_eq!(
        counts(held.tokens('a', lease(2, 0, 4, 0))),
        (0, 9, 1),
        "they come back, as far as there is room"
    );
    assert_eq!(
        counts(held.tokens('a', lease(3, 0, 4, 0))),
        (0, 9, 1),
        "and the four are charged no second time"
    );
}

#[test]
fn a_call_that_is_repeated_after_its_account_ended_takes_nothing() {
    let mut held = Held::start();
    held.tokens('a', lease(7, 0, 0, 10));
    held.at(9_000_000);
    assert_eq!(counts(held.tokens('b', lease(1, 0, 0, 0))), (0, 10, 0));
    for number in [6, 7] {
        let late = held.tokens('a', lease(number, 0, 0, 10));
        assert_eq!((late.stale, late.granted, late.outstanding), (true, 0, 0), "{number}");
    }
    held.at(12_000_001);
    assert_eq!(held.tokens('a', lease(8, 0, 0, 10)).granted, 10, "a tombstone lasts a TTL");
}
