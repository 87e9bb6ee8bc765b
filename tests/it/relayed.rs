//! The relay that other tests inject faults with does what they say of it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::relay::{Relay, Way, Weather};
use crate::support::{ANY, eventually, within};

/// Both ends of a connection through a relay.
struct Ends {
    relay: Relay,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Ends {
    async fn meet() -> Self {
        let listener = TcpListener::bind(ANY).await.unwrap();
        let relay = Relay::before(listener.local_addr().unwrap()).await;
        let client = TcpStream::connect(relay.address).await.unwrap();
        let (server, _) = within("the other end", listener.accept()).await.unwrap();
        Self { relay, listener, client, server }
    }

    /// Sends both ways.
    async fn send(&mut self, request: &[u8], answer: &[u8]) {
        self.client.write_all(request).await.unwrap();
        self.server.write_all(answer).await.unwrap();
    }
}

async fn arrives(stream: &mut TcpStream, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    within("what was sent", stream.read_exact(&mut bytes)).await.unwrap();
    assert_eq!(bytes, expected);
}

/// Whether nothing has come. What was let through would have overtaken what `arrives` waited for.
fn is_silent(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn what_is_held_in_one_direction_goes_on_in_order_when_the_weather_clears() {
    let mut ends = Ends::meet().await;
    ends.relay.set(Weather::Held(Way::Requests));
    ends.send(b"one", b"1").await;
    arrives(&mut ends.client, b"1").await;
    assert!(is_silent(&ends.server));
    ends.client.write_all(b"two").await.unwrap();
    ends.relay.set(Weather::Held(Way::Answers));
    arrives(&mut ends.server, b"onetwo").await;
    ends.server.write_all(b"2").await.unwrap();
    ends.client.write_all(b"three").await.unwrap();
    arrives(&mut ends.server, b"three").await;
    assert!(is_silent(&ends.client));
    ends.relay.set(Weather::Clear);
    arrives(&mut ends.client, b"2").await;
}

#[tokio::test]
async fn what_is_held_both_ways_is_late_and_not_lost() {
    let mut ends = Ends::meet().await;
    ends.relay.set(Weather::Held(Way::Both));
    ends.send(b"request", b"answer").await;
    // Another connection through another relay takes both ways meanwhile.
    let mut other = Ends::meet().await;
    other.send(b"x", b"y").await;
    arrives(&mut other.server, b"x").await;
    arrives(&mut other.client, b"y").await;
    assert!(is_silent(&ends.client) && is_silent(&ends.server));
    ends.relay.set(Weather::Clear);
    arrives(&mut ends.server, b"request").await;
    arrives(&mut ends.client, b"answer").await;
}

#[tokio::test]
async fn a_link_that_is_cut_ends_what_stands_and_takes_new_connections_once_it_is_restored() {
    let mut ends = Ends::meet().await;
    ends.relay.set(Weather::Cut);
    assert_eq!(within("the client's end", ends.client.read(&mut [0])).await.unwrap_or(0), 0);
    assert_eq!(within("the server's end", ends.server.read(&mut [0])).await.unwrap_or(0), 0);
    let mut refused = TcpStream::connect(ends.relay.address).await.unwrap();
    assert_eq!(within("an end at once", refused.read(&mut [0])).await.unwrap_or(0), 0);
    ends.relay.set(Weather::Clear);
    eventually("a connection that lasts", async || {
        let mut client = TcpStream::connect(ends.relay.address).await.ok()?;
        client.write_all(b"again").await.ok()?;
        let (mut server, _) = ends.listener.accept().await.ok()?;
        let mut bytes = [0; 5];
        (server.read_exact(&mut bytes).await.ok()? == 5 && &bytes == b"again").then_some(())
    })
    .await;
}
