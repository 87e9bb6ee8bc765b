//! The table's tests: every row on every party, and the three files against each other.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::row::{self, Party, Row};
use super::run::{self, Seen};
use super::upstream::Upstream;
use super::{converse, differences, ours, peers, requirements};

/// How many rows are played at a time.
const AT_A_TIME: usize = 16;

#[track_caller]
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}

async fn play(row: &Row, party: Party, to: SocketAddr, upstream: &Upstream) -> Vec<String> {
    match row.in_frames {
        true => converse::play(row, party, to, upstream).await,
        false => run::play(row, party, to, upstream).await,
    }
}

async fn play_on_ours(party: Party) -> Seen {
    let places = Arc::new(Semaphore::new(AT_A_TIME));
    let mut plays = JoinSet::new();
    for row in row::all() {
        let places = Arc::clone(&places);
        plays.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let upstream = Upstream::start(&row.upstream, party).await;
            let differences = match party {
                Party::Router => {
                    let router = ours::router(upstream.server.address, ours::Clocks::of(&row, party));
                    play(&row, party, router.data, &upstream).await
                }
                _ => {
                    let (_agent, address) =
                        ours::agent(upstream.server.address, ours::Clocks::of(&row, party));
                    play(&row, party, address, &upstream).await
                }
            };
            (row.id, differences)
        });
    }
    plays.join_all().await.into_iter().collect()
}

async fn play_on_peer(party: Party, rows: Vec<Row>, at_a_time: usize) -> Seen {
    let mut upstreams = Vec::new();
    for row in &rows {
        upstreams.push(Upstream::start(&row.upstream, party).await);
    }
    let addresses: Vec<_> = upstreams.iter().map(|upstream| upstream.server.address).collect();
    if rows.is_empty() {
        return Seen::new();
    }
    let peer = Arc::new(peers::start(party, &rows, &addresses).await);
    let places = Arc::new(Semaphore::new(at_a_time));
    let mut plays = JoinSet::new();
    for ((row, upstream), front) in rows.into_iter().zip(upstreams).zip(peer.fronts.clone()) {
        let (places, peer) = (Arc::clone(&places), Arc::clone(&peer));
        plays.spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let differences = play(&row, party, front, &upstream).await;
            drop(peer);
            (row.id, differences)
        });
    }
    plays.join_all().await.into_iter().collect()
}

#[track_caller]
fn assert_as_expected(seen: &Seen) {
    let problems: Vec<_> = seen
        .iter()
        .filter(|(_, differences)| !differences.is_empty())
        .map(|(id, differences)| format!("[{id}] {}", differences.join("; ")))
        .collect();
    assert_none(&problems);
}

#[tokio::test]
async fn the_router_does_what_every_row_says() {
    assert_as_expected(&play_on_ours(Party::Router).await);
}

#[tokio::test]
async fn the_agent_does_what_every_row_says() {
    assert_as_expected(&play_on_ours(Party::Agent).await);
}

#[tokio::test]
async fn where_nginx_differs_is_listed_and_explained() {
    compare(Party::Nginx).await;
}

#[tokio::test]
async fn where_haproxy_differs_is_listed_and_explained() {
    compare(Party::Haproxy).await;
}

/// Another version than the listed one may differ elsewhere: that is said, and fails nothing.
async fn compare(peer: Party) {
    let listed = differences::read();
    let (version, known) = (peers::version(peer), listed.version(peer));
    let remark = remark(peer, version.as_deref(), known);
    if let Some(remark) = &remark {
        say(remark);
    }
    if version.is_none() {
        return;
    }
    let mut seen = play_on_peer(peer, row::all(), AT_A_TIME).await;
    // Its clocks are short, and this machine may be busy: what is not as listed is played once more.
    let again = row::all().into_iter().filter(|row| !listed.holds(peer, &row.id, &seen)).collect();
    seen.extend(play_on_peer(peer, again, 1).await);
    let problems = listed.compare(peer, &seen);
    match remark {
        None => assert_none(&problems),
        Some(_) => problems.iter().for_each(|problem| say(&format!("NOT AS LISTED: {problem}"))),
    }
}

/// What is to be said of a peer that is not the one whose differences are listed. `tests/run.sh` repeats it at its end.
fn remark(peer: Party, version: Option<&str>, known: &str) -> Option<String> {
    let name = peer.name();
    match version {
        None => Some(format!("SKIPPED: {name} is not installed: nothing is compared with it")),
        Some(version) if version == known => None,
        Some(version) => {
            Some(format!("NOT AS LISTED: this is {name} {version}, and what is listed is of {known}"))
        }
    }
}

/// Says something that the harness does not keep for itself where the test passes, as it does what is printed.
fn say(line: &str) {
    let mut stderr = io::stderr().lock();
    writeln!(stderr, "{line}").unwrap();
}

#[test]
fn a_peer_that_is_missing_or_another_is_spoken_of() {
    assert_eq!(remark(Party::Nginx, Some("1.22"), "1.22"), None);
    assert!(remark(Party::Nginx, None, "1.22").unwrap().starts_with("SKIPPED: nginx"));
    let other = remark(Party::Haproxy, Some("2.8"), "2.6").unwrap();
    assert_eq!(other, "NOT AS LISTED: this is haproxy 2.8, and what is listed is of 2.6");
}

#[test]
fn every_row_is_whole_and_has_its_own_id() {
    assert_none(&requirements::row_problems(&row::all()));
}

#[test]
fn every_difference_is_of_a_row_and_has_its_reason() {
    assert_none(&differences::read().problems(&row::all()));
}

#[test]
fn every_requirement_has_its_rows_or_its_reason_and_every_row_its_requirement() {
    assert_none(&requirements::problems(&row::all()));
}
