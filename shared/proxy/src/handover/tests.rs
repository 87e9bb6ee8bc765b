//! Both sides against each other, and against what is none of them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::listen;

fn at(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("handover")
}

fn sockets(names: &[&str]) -> Vec<Named> {
    let one = |name: &&str| Named {
        name: (*name).to_owned(),
        listener: listen::one(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap(),
    };
    names.iter().map(one).collect()
}

/// What a running process of this role offers in the folder.
fn offered(folder: &TempDir, role: &str, sockets: Vec<Named>) -> io::Result<Offer> {
    Offer::open(&at(folder), role, sockets, Ownership::default())
}

async fn claimed(path: &Path) -> Claimed {
    claim(path, "test").await.unwrap().expect("somebody listens")
}

#[tokio::test]
async fn a_successor_gets_every_socket_by_name_and_what_waits_in_its_queue() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..300).map(|n| format!("data{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).chain(["admin"]).collect();
    let held = sockets(&names);
    let address = held[0].listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let mut offer = offered(&folder, "test", held).unwrap();
    let claimed = claimed(&at(&folder)).await;
    assert_eq!(claimed.sockets.iter().map(|socket| socket.name.as_str()).collect::<Vec<_>>(), names);
    let listener = claimed.sockets[0].listener.try_clone().unwrap();
    claimed.serving().await.unwrap();
    offer.taken().await;
    assert!(offer.close().await, "it was taken");
    let (mut served, _) = listener.accept().unwrap();
    served.write_all(b"served").unwrap();
    drop(served);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "served");
    assert!(at(&folder).exists(), "the path is the successor's");
}

#[tokio::test]
async fn a_successor_that_goes_before_it_serves_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let offer = offered(&folder, "test", sockets(&["data"])).unwrap();
    drop(claimed(&at(&folder)).await);
    let second = claimed(&at(&folder)).await;
    assert_eq!(second.sockets.len(), 1);
    drop(second);
    assert!(!offer.close().await);
    assert!(!at(&folder).exists(), "the path goes with the offer");
}

#[tokio::test]
async fn a_successor_that_has_connected_is_served_though_the_offer_closes() {
    let folder = tempfile::tempdir().unwrap();
    let offer = offered(&folder, "test", sockets(&["data"])).unwrap();
    // Nothing has run in between: the offer has not accepted yet.
    let stream = std::os::unix::net::UnixStream::connect(at(&folder)).unwrap();
    stream.set_nonblocking(true).unwrap();
    let stream = UnixStream::from_std(stream).unwrap();
    let closing = tokio::spawn(offer.close());
    let sockets = wire::receive_all(&stream, &hello("test")).await.unwrap();
    assert_eq!(sockets.len(), 1);
    wire::send(&stream, "serving", None).await.unwrap();
    assert!(closing.await.unwrap());
}

#[tokio::test]
async fn the_place_of_a_process_that_died_is_nobodys_and_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    assert!(claim(&at(&folder), "test").await.unwrap().is_none(), "nothing there");
    drop(std::os::unix::net::UnixListener::bind(at(&folder)).unwrap());
    assert!(claim(&at(&folder), "test").await.unwrap().is_none(), "nobody there");
    let _offer = offered(&folder, "test", sockets(&["data"])).unwrap();
    assert_eq!(claimed(&at(&folder)).await.sockets.len(), 1);
}

#[tokio::test]
async fn the_path_is_its_owners_alone_and_no_other_file_is_taken_over() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let _offer = offered(&folder, "test", sockets(&["data"])).unwrap();
    assert_eq!(std::fs::metadata(at(&folder)).unwrap().mode() & 0o777, 0o600);
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(Offer::open(&file, "test", Vec::new(), Ownership::default()).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"kept");
}

#[tokio::test]
async fn a_process_of_another_kind_hands_nothing_on() {
    let folder = tempfile::tempdir().unwrap();
    let _offer = offered(&folder, "agent", sockets(&["data"])).unwrap();
    let claimed = claim(&at(&folder), "router").await;
    assert!(matches!(claimed, Err(HandoverError::Hello(..))), "{claimed:?}");
}

/// A running process that is played by hand: its next successor, who has the sockets already.
async fn successor(running: &tokio::net::UnixListener) -> UnixStream {
    let (stream, _) = running.accept().await.unwrap();
    wire::send_all(&stream, &hello("test"), &sockets(&["data"])).await.unwrap();
    stream
}

#[tokio::test]
async fn a_process_that_died_has_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let running = tokio::net::UnixListener::bind(at(&folder)).unwrap();
    let path = at(&folder);
    let (claimed, stream) = tokio::join!(claimed(&path), successor(&running));
    drop((running, stream));
    claimed.serving().await.unwrap();
}

#[tokio::test]
async fn a_process_that_grew_tired_of_waiting_is_asked_again_by_a_successor_that_serves() {
    let folder = tempfile::tempdir().unwrap();
    let running = tokio::net::UnixListener::bind(at(&folder)).unwrap();
    let path = at(&folder);
    let (claimed, stream) = tokio::join!(claimed(&path), successor(&running));
    drop(stream);
    let hears = async {
        let stream = successor(&running).await;
        wire::expect(&stream, "serving").await.unwrap();
        wire::send(&stream, "yours", None).await.unwrap();
    };
    let (served, ()) = tokio::join!(claimed.serving(), hears);
    served.unwrap();
}

#[tokio::test]
async fn a_successor_leaves_to_a_process_that_listens_and_breaks_off_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let running = tokio::net::UnixListener::bind(at(&folder)).unwrap();
    let path = at(&folder);
    let (claimed, stream) = tokio::join!(claimed(&path), successor(&running));
    drop(stream);
    let breaks_off = async {
        loop {
            drop(successor(&running).await);
        }
    };
    let served = tokio::select! {
        served = claimed.serving() => served,
        () = breaks_off => unreachable!(),
    };
    assert!(matches!(served, Err(HandoverError::Kept)), "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_said_it_serves_waits_for_the_word_of_a_stalled_process_however_long() {
    let folder = tempfile::tempdir().unwrap();
    let running = tokio::net::UnixListener::bind(at(&folder)).unwrap();
    let path = at(&folder);
    let (claimed, stream) = tokio::join!(claimed(&path), successor(&running));
    let serving = tokio::spawn(claimed.serving());
    // It may hear at any time, and leave: a successor that is gone by then would leave nobody.
    tokio::time::sleep(100 * PATIENCE).await;
    assert!(!serving.is_finished(), "it has given up");
    wire::expect(&stream, "serving").await.unwrap();
    wire::send(&stream, "yours", None).await.unwrap();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_successor_that_is_gone_before_it_is_heard_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let offer = offered(&folder, "test", sockets(&["data"])).unwrap();
    let stream = UnixStream::connect(at(&folder)).await.unwrap();
    wire::receive_all(&stream, &hello("test")).await.unwrap();
    wire::send(&stream, "serving", None).await.unwrap();
    drop(stream);
    assert!(!offer.close().await);
}

#[tokio::test]
async fn a_process_that_leaves_as_its_successor_comes_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let running = tokio::net::UnixListener::bind(at(&folder)).unwrap();
    let path = at(&folder);
    let leaves = async {
        let (stream, _) = running.accept().await.unwrap();
        drop((running, stream));
    };
    let (claimed, ()) = tokio::join!(claim(&path, "test"), leaves);
    assert!(claimed.unwrap().is_none());
}

#[test]
fn a_process_talks_to_its_own_user_and_to_root() {
    for (peer, own, is_trusted) in
        [(1000, 1000, true), (0, 1000, true), (1001, 1000, false), (1000, 0, false)]
    {
        assert_eq!(check_user(peer, own).is_ok(), is_trusted, "{peer} {own}");
    }
}

#[tokio::test]
async fn what_listens_for_nothing_is_not_taken_for_a_socket() {
    let (from, to) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connected = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let connected = TcpListener::from(std::os::fd::OwnedFd::from(connected));
    let sent = [Named { name: "data".to_owned(), listener: connected }];
    wire::send_all(&from, "hello", &sent).await.unwrap();
    let received = wire::receive_all(&to, "hello").await;
    assert!(matches!(received, Err(HandoverError::NotListening(_))), "{received:?}");
}

#[tokio::test]
async fn what_outlives_a_process_is_nobodys_from_when_sockets_are_handed_on_until_their_successor_has_followed()
 {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Ownership::default(), Ownership::awaited());
    let offer = Offer::open(&at(&folder), "test", sockets(&["data"]), old.clone()).unwrap();
    assert!(old.is_ours().await && !new.is_ours().await);
    // A change that is being made holds the sockets back.
    let held = old.hold().await.unwrap();
    let path = at(&folder);
    let claiming = tokio::spawn(async move { claimed(&path).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!claiming.is_finished());
    drop(held);
    let first = claiming.await.unwrap();
    assert!(!old.is_ours().await && old.hold().await.is_err());
    // Nobody follows: it is taken back.
    drop(first);
    while !old.is_ours().await {
        tokio::task::yield_now().await;
    }
    let second = claimed(&at(&folder)).await;
    second.serving().await.unwrap();
    new.take().await;
    assert!(offer.close().await && !old.is_ours().await && new.hold().await.is_ok());
}
