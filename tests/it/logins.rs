//! Schemes of authentication that log in a connection: what one tenant's request has logged in serves no other's.

use std::collections::BTreeSet;

use tokio::io::{AsyncWriteExt, BufReader};

use crate::support::agents::TestFleet;
use crate::support::files::{PINS, fleet};
use crate::support::message::read_head;
use crate::support::raw::{self, with_fields};
use crate::support::routers::TestRouter;
use crate::support::scripted::{Scripted, answer};

/// A backend that answers with the number of the connection, and with these fields.
async fn numbering(answered: &'static str) -> Scripted {
    Scripted::raw(move |stream, n| async move {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(_)) = read_head(&mut stream).await {
            if stream.write_all(&answer("200 OK", answered, &n.to_string())).await.is_err() {
                return;
            }
        }
    })
    .await
}

/// How many connections of a backend's serve three requests, the first of them with these fields, each with this answer: through
/// a router, and through an agent alone.
async fn costs(fields: &str, answered: &'static str) -> (usize, usize) {
    let (cell, other) = (numbering(answered).await, numbering(answered).await);
    let router = TestRouter::start(&fleet(&[cell.address, other.address], PINS));
    let agents = TestFleet::before(PINS, [numbering(answered).await, numbering(answered).await]).await;
    let alone = |fields: &str| format!("GET / HTTP/1.1\r\nhost: a\r\ncofferdam-tenant: acme\r\n{fields}\r\n");
    let (mut by_router, mut by_agent) = (BTreeSet::new(), BTreeSet::new());
    for fields in [fields, "", ""] {
        let answer = router.ask(with_fields("GET", "/", "acme", fields)).await;
        assert_eq!(answer.status(), 200);
        by_router.insert(answer.text());
        let answer = raw::ask(agents.cells[0].address, alone(fields)).await;
        assert_eq!(answer.status(), 200);
        by_agent.insert(answer.text());
    }
    (by_router.len(), by_agent.len())
}

#[tokio::test]
async fn a_connection_that_a_request_may_have_logged_in_is_not_used_again() {
    for scheme in ["Negotiate YII=", "NTLM TlR=", "negotiate", "nTLM x"] {
        let costs = costs(&format!("authorization: {scheme}\r\n"), "").await;
        assert_eq!(costs, (2, 2), "{scheme}");
    }
}

#[tokio::test]
async fn nor_one_whose_backend_asks_for_such_a_login() {
    for answered in [
        "www-authenticate: Negotiate\r\n",
        "www-authenticate: Basic realm=\"x, y\", ntlm\r\n",
        "www-authenticate: Bearer\r\nwww-authenticate: NTLM TlR=\r\n",
        "proxy-authenticate: Negotiate\r\n",
    ] {
        let costs = costs("", answered).await;
        assert_eq!(costs, (3, 3), "{answered}");
    }
}

#[tokio::test]
async fn every_other_login_is_a_requests_own_and_keeps_its_connection() {
    for (fields, answered) in [
        ("authorization: Bearer Negotiate\r\n", "www-authenticate: Basic realm=\"NTLM\"\r\n"),
        (
            "authorization: NegotiateX x\r\n",
            "www-authenticate: Digest realm=\"a\", qop=\"Negotiate, NTLM\"\r\n",
        ),
    ] {
        let costs = costs(fields, answered).await;
        assert_eq!(costs, (1, 1), "{fields}{answered}");
    }
}
