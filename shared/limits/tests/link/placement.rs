//! What routers have in common of their placement: the file that was accepted last, and how far a release is, on real servers.

use cofferdam_limits::redis::{
    AcceptedBook, AcceptedFile, Fleet, ReleaseBook, ReleaseName, ReleaseProgress, ReleaseState, ReleaseTerms,
};

use crate::redis_server::RedisServer;
use crate::redis_server::cluster::RedisCluster;
use crate::spend::connected;

fn fleet() -> Fleet {
    Fleet::parse("f").unwrap()
}

fn file(revision: u64, digest: &str, text: &str) -> AcceptedFile {
    AcceptedFile { revision, digest: digest.to_owned(), text: text.to_owned() }
}

#[tokio::test]
async fn the_highest_revision_stays_and_its_text_is_changed_by_whoever_amends_it() {
    let server = RedisServer::start();
    let book = AcceptedBook::new(connected(&server.url()).await, &fleet());
    assert_eq!(book.look().await, Ok(None));
    let nine = file(9, "aa", "first");
    assert_eq!(book.offer(&nine).await, Ok(Some(nine.clone())));
    for other in [file(8, "bb", "older"), file(9, "bb", "another table"), file(9, "aa", "another text")] {
        assert_eq!(book.offer(&other).await, Ok(Some(nine.clone())));
    }
    for other in [file(8, "aa", "older"), file(9, "bb", "another table")] {
        assert_eq!(book.amend(&other).await, Ok(Some(nine.clone())));
    }
    let amended = file(9, "aa", "amended");
    assert_eq!(book.amend(&amended).await, Ok(Some(amended.clone())));
    // Ten is above nine, though "10" is below "9"; and so are numbers that no double holds.
    for revision in [10, 1 << 53, (1 << 53) + 1, u64::MAX] {
        let next = file(revision, "cc", "next");
        assert_eq!(book.offer(&next).await, Ok(Some(next.clone())));
        assert_eq!(book.look().await, Ok(Some(next)));
    }
}

#[tokio::test]
async fn both_are_kept_by_a_cluster() {
    let cluster = RedisCluster::of(3);
    let link = connected(&cluster.url()).await;
    let (accepted, release) = (AcceptedBook::new(link.clone(), &fleet()), ReleaseBook::new(link, &fleet()));
    let one = file(1, "aa", "text");
    assert_eq!(accepted.offer(&one).await, Ok(Some(one)));
    let name = ReleaseName { digest: "aa".to_owned(), began: u64::MAX };
    let terms = ReleaseTerms { name: name.clone(), total: 100, per_minute: 1 };
    let progress = |n_orders| ReleaseProgress { n_loose: 7, n_orders };
    let state = |n_orders| Ok(Some(ReleaseState { terms: terms.clone(), progress: progress(n_orders) }));
    assert_eq!(release.look().await, Ok(None));
    assert_eq!(release.begin(&terms, progress(0)).await, state(0));
    assert_eq!(release.stop(&name).await, state(1));
    assert_eq!(release.look().await, state(1));
    assert_eq!(release.go(&name).await, state(2));
}
