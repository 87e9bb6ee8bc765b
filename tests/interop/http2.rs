//! hyper-h2, frame by frame: `clients/h2_client.py`. What it does not manage with any server (a frame after GOAWAY is an
//! error to it, that of an answer included) is tried with curl.

use crate::front::Front;
use crate::program;

async fn h2(front: &Front, check: &str) {
    program::check("h2_client.py", check, &[&front.url("")]).await;
}

#[tokio::test]
async fn h2_has_a_hundred_streams_at_once() {
    let front = Front::sample().await;
    h2(&front, "has_a_hundred_streams").await;
    front.idle().await;
}

#[tokio::test]
async fn h2_opens_its_windows_little_by_little() {
    let front = Front::sample().await;
    h2(&front, "opens_its_windows_little_by_little").await;
    front.idle().await;
}

#[tokio::test]
async fn h2_pings_names_priorities_sends_many_fields_and_says_goodbye() {
    let front = Front::sample().await;
    for check in ["pings", "names_priorities", "sends_many_fields", "says_goodbye"] {
        h2(&front, check).await;
    }
}

#[tokio::test]
async fn h2_resets_streams_and_what_they_held_comes_back() {
    let front = Front::sample().await;
    h2(&front, "resets_streams").await;
    front.idle().await;
}

#[tokio::test]
async fn h2_is_refused_before_its_upload_has_ended() {
    let front = Front::sample().await;
    h2(&front, "is_refused_before_its_upload_has_ended").await;
    front.idle().await;
}

#[tokio::test]
async fn h2_sees_and_sends_trailers() {
    let front = Front::python("threads.py").await;
    for check in ["sees_trailers", "sends_trailers", "uploads_too_much_without_a_length"] {
        h2(&front, check).await;
    }
    front.idle().await;
}
