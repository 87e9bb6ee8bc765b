//! grpcio and its health service on both sides of router and agent: `clients/grpc_client.py` and
//! `backends/grpc_backend.py`.

use crate::front::Front;
use crate::program;

async fn grpc(front: &Front, checks: &[&str]) {
    for check in checks {
        program::check("grpc_client.py", check, &[&front.url("")]).await;
    }
    front.idle().await;
}

async fn front() -> Front {
    Front::python("grpc_backend.py").await
}

#[tokio::test]
async fn grpc_checks_and_watches_health() {
    grpc(&front().await, &["checks_health"]).await;
}

#[tokio::test]
async fn grpc_makes_calls_of_each_kind() {
    grpc(&front().await, &["makes_calls_of_each_kind", "makes_many_calls_at_once"]).await;
}

#[tokio::test]
async fn grpc_carries_metadata_and_trailers() {
    grpc(&front().await, &["carries_metadata_both_ways", "sees_why_a_call_fails"]).await;
}

#[tokio::test]
async fn grpc_deadlines_and_cancellations_reach_the_backend() {
    grpc(&front().await, &["passes_its_deadline", "cancels_a_stream"]).await;
}

#[tokio::test]
async fn grpc_is_told_of_limits_and_of_a_backend_that_is_down_in_its_own_words() {
    let mut front = front().await;
    grpc(&front, &["is_limited"]).await;
    front.end_backend();
    grpc(&front, &["has_no_backend"]).await;
}
