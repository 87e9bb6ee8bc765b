//! Backends that are not ours, each behind an agent.

use serde_json::Value;

use crate::front::Front;
use crate::support::eventually;
use crate::support::message::Framing;
use crate::support::raw::{self, Client};

/// Asks again and again, since the connections to the backend are kept as well.
async fn sees_what_is_asked(front: &Front) {
    let mut client = Client::connect(front.address()).await;
    for n in 0..50 {
        let answer = client.ask(raw::get(&format!("/some/{n}"), "acme")).await;
        assert_eq!(answer.status(), 200, "{answer:?}");
        let told: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((&told["method"], &told["path"]), (&"GET".into(), &format!("/some/{n}").into()));
        assert_eq!(told["fields"]["cofferdam-tenant"], "acme", "{told}");
        // By the router, and by the agent.
        assert_eq!(told["fields"]["x-forwarded-for"], "127.0.0.1, 127.0.0.1", "{told}");
    }
    front.idle().await;
}

#[tokio::test]
async fn a_python_backend_of_threads_sees_what_is_asked() {
    sees_what_is_asked(&Front::python("threads.py").await).await;
}

#[tokio::test]
async fn an_asynchronous_python_backend_sees_what_is_asked() {
    sees_what_is_asked(&Front::python("asgi.py").await).await;
}

#[tokio::test]
async fn a_python_backend_on_a_unix_socket_sees_what_is_asked_and_echoes_uploads() {
    let front = Front::python_on_a_unix_socket("asgi.py").await;
    sees_what_is_asked(&front).await;
    let body = vec![b'x'; 1 << 20];
    let answer = raw::ask(front.address(), raw::post("/echo", "acme", &body)).await;
    assert!(answer.status() == 200 && answer.body == body, "{:?}", answer.head);
}

#[tokio::test]
async fn a_python_backend_learns_that_its_client_went_away() {
    let front = Front::python("asgi.py").await;
    let mut client = Client::connect(front.address()).await;
    client.send(raw::get("/events", "acme")).await;
    let head = client.head().await;
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    let mut framing = head.response_framing(false);
    assert_eq!(framing, Framing::Chunked);
    assert_eq!(client.part(&mut framing).await.unwrap(), b"data: tick\n\n");
    drop(client);
    eventually("the backend sees its client gone", async || {
        let answer = raw::ask(front.address(), raw::get("/gone", "acme")).await;
        (answer.text() == r#"{"gone": 1}"#).then_some(())
    })
    .await;
    front.idle().await;
}

#[tokio::test]
async fn a_wsgi_backend_sees_no_field_of_a_clients_as_ours() {
    // It makes one variable of `cofferdam-tenant` and `cofferdam_tenant`.
    let front = Front::python("wsgi.py").await;
    let forged = "cofferdam_tenant: victim\r\nCofferdam_Class: forged\r\nx_tenant_id: victim\r\nx_forwarded_for: 6.6.6.6\r\n\
                  X-Forwarded_Proto: https\r\nx_real_ip: 6.6.6.6\r\ncontent_length: 7\r\nx_kept: 1\r\n";
    let answer = raw::ask(front.address(), raw::with_fields("GET", "/", "acme", forged)).await;
    assert_eq!(answer.status(), 200, "{answer:?}");
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    for (variable, value) in [
        ("HTTP_COFFERDAM_TENANT", "acme"),
        ("HTTP_COFFERDAM_CLASS", "default"),
        ("HTTP_X_TENANT_ID", "acme"),
        ("HTTP_X_FORWARDED_FOR", "127.0.0.1, 127.0.0.1"),
        ("HTTP_X_FORWARDED_PROTO", "http"),
        ("HTTP_X_KEPT", "1"),
    ] {
        assert_eq!(told[variable], value, "{variable} in {told}");
    }
    assert_eq!((&told["HTTP_X_REAL_IP"], &told["HTTP_CONTENT_LENGTH"]), (&Value::Null, &Value::Null));
}
