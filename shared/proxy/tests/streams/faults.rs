//! Which faults say that nothing was executed, and which leave it open.

use cofferdam_proxy::upstream::{AnswerError, SendFault, UpstreamBodyError};
use h2::Reason;
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;

use crate::script::{Script, frame, get, ok, read_head};

/// GOAWAY: the last stream that was looked at, and an error code.
fn go_away(last: u8, code: u8) -> Vec<u8> {
    frame(7, 0, 0, &[0, 0, 0, last, 0, 0, 0, code])
}

#[tokio::test]
async fn a_stream_that_was_refused_was_not_executed() {
    let (script, upstream) = Script::new().await;
    for (reason, unsent) in
        [(Reason::REFUSED_STREAM, true), (Reason::INTERNAL_ERROR, false), (Reason::CANCEL, false)]
    {
        let (fault, _peer) = tokio::join!(
            async {
                let lease = upstream.stream(true).await.unwrap();
                crate::script::send(lease, http::Method::GET).await.unwrap_err()
            },
            async {
                let mut peer = script.accept().await;
                peer.request().await.1.send_reset(reason);
                peer
            }
        );
        assert_eq!(matches!(fault, SendFault::Unsent), unsent, "{fault:?}");
        assert_eq!(matches!(fault, SendFault::Lost(_)), !unsent, "{fault:?}");
    }
}

#[tokio::test]
async fn what_a_goaway_does_not_count_was_not_executed_and_what_it_counts_may_have_been() {
    for (last, code, unsent) in [(0, 0, true), (0, 2, true), (1, 0, false), (1, 2, false)] {
        let (script, upstream) = Script::new().await;
        let (fault, ()) = tokio::join!(get(&upstream), async {
            let mut socket = script.raw().await;
            read_head(&mut socket).await;
            socket.write_all(&go_away(last, code)).await.unwrap();
        });
        let fault = fault.unwrap_err();
        assert_eq!(matches!(fault, SendFault::Unsent), unsent, "{last} {code}: {fault:?}");
        assert_eq!(matches!(fault, SendFault::Lost(_)), !unsent, "{last} {code}: {fault:?}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_before_an_answer_is_lost() {
    let (script, upstream) = Script::new().await;
    let (fault, ()) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        read_head(&mut socket).await;
    });
    assert!(matches!(fault, Err(SendFault::Lost(_))), "{fault:?}");
}

#[tokio::test]
async fn a_connection_that_ended_before_anything_was_written_has_executed_nothing() {
    let (script, upstream) = Script::new().await;
    let (lease, socket) = tokio::join!(upstream.stream(false), script.raw());
    let lease = lease.unwrap();
    // Its acknowledgement of our settings has gone by the time that this is heard.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    socket.set_zero_linger().unwrap();
    drop(socket);
    let fault = crate::script::send(lease, http::Method::POST).await;
    assert!(matches!(fault, Err(SendFault::Unsent)), "{fault:?}");
}

#[tokio::test]
async fn an_answer_without_a_status_is_malformed() {
    let (script, upstream) = Script::new().await;
    let (fault, _socket) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        read_head(&mut socket).await;
        // A field literal without indexing, and no pseudo-field.
        socket.write_all(&frame(1, 5, 1, b"\x00\x01a\x01b")).await.unwrap();
        socket
    });
    let fault = fault.unwrap_err();
    assert!(matches!(fault, SendFault::Malformed(AnswerError::Stream(1))), "{fault:?}");
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_after_what_came_of_it() {
    let (script, upstream) = Script::new().await;
    for reason in [Some(Reason::INTERNAL_ERROR), Some(Reason::CANCEL), Some(Reason::NO_ERROR), None] {
        let (response, (peer, mut body)) = tokio::join!(
            async {
                let lease = upstream.stream(true).await.unwrap();
                crate::script::send(lease, http::Method::GET).await.unwrap()
            },
            async {
                let mut peer = script.accept().await;
                let mut body = ok(&mut peer.request().await.1);
                body.send_data("some".into(), false).unwrap();
                (peer, body)
            }
        );
        let mut answer = response.into_body();
        assert_eq!(answer.frame().await.unwrap().unwrap().into_data().unwrap(), "some");
        match reason {
            Some(reason) => body.send_reset(reason),
            None => peer.cut(),
        }
        let error = answer.frame().await.unwrap().unwrap_err();
        assert!(matches!(error, UpstreamBodyError::Broken(_)), "{reason:?}: {error:?}");
        assert!(answer.frame().await.is_none());
    }
}

#[tokio::test]
async fn a_body_shorter_than_its_length_is_malformed() {
    let (script, upstream) = Script::new().await;
    let (response, _socket) = tokio::join!(get(&upstream), async {
        let mut socket = script.raw().await;
        read_head(&mut socket).await;
        // `:status: 200` by its index, and `content-length: 9` as a literal of an indexed name.
        let bytes = [frame(1, 4, 1, b"\x88\x0f\x0d\x019"), frame(0, 1, 1, b"short")].concat();
        socket.write_all(&bytes).await.unwrap();
        socket
    });
    let error = response.unwrap().into_body().collect().await.unwrap_err();
    assert!(matches!(error, UpstreamBodyError::Malformed), "{error:?}");
}
