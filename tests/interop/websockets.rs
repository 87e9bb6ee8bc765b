//! The websockets library on both sides of router and agent: `clients/websockets_client.py` and
//! `backends/websocket_echo.py`.

use crate::front::Front;
use crate::program;

async fn websockets(checks: &[&str]) {
    let front = Front::python("websocket_echo.py").await;
    for check in checks {
        program::check("websockets_client.py", check, &[&front.url("")]).await;
    }
    front.idle().await;
}

#[tokio::test]
async fn websockets_exchange_messages_of_every_kind() {
    websockets(&["exchanges_messages", "streams_both_ways_at_once"]).await;
}

#[tokio::test]
async fn websockets_ping_and_agree_on_a_subprotocol() {
    websockets(&["pings_and_is_pinged", "agrees_on_a_subprotocol"]).await;
}

#[tokio::test]
async fn websockets_close_with_a_code_both_ways_or_vanish() {
    websockets(&["closes_and_is_closed", "vanishes"]).await;
}

#[tokio::test]
async fn websockets_are_refused_by_the_backend_and_by_limits() {
    websockets(&["is_refused"]).await;
}

#[tokio::test]
async fn websockets_are_many() {
    websockets(&["has_many_connections"]).await;
}
