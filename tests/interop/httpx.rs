//! httpx, blocking and asynchronous, over both versions: `clients/httpx_client.py`.

use crate::front::Front;
use crate::program;

async fn httpx(check: &str) {
    let front = Front::sample().await;
    program::check("httpx_client.py", check, &[&front.url("")]).await;
    front.idle().await;
}

#[tokio::test]
async fn httpx_is_answered_in_both_versions() {
    httpx("is_answered").await;
}

#[tokio::test]
async fn httpx_streams_what_a_generator_yields_and_what_is_answered() {
    httpx("streams_both_ways").await;
    httpx("streams_asynchronously").await;
}

#[tokio::test]
async fn httpx_asks_a_hundred_things_at_once() {
    httpx("asks_a_hundred_things_at_once").await;
}

#[tokio::test]
async fn httpx_gives_up_and_what_it_held_comes_back() {
    httpx("gives_up_and_goes_on").await;
}

#[tokio::test]
async fn httpx_sees_tenants_of_one_connection_limited_each_by_itself() {
    httpx("tenants_on_one_connection_are_limited_each_by_itself").await;
}
