//! slowhttptest: clients that hold on to connections by being slow. Others must not notice, and nothing is left behind.

use crate::front::Front;
use crate::program;
use crate::support::eventually;

/// How many connections an attack has.
const N_SLOW: usize = 200;

/// How long it lasts, in seconds.
const SECONDS: &str = "6";

/// The longest that an answer to others may take, in seconds: far above what it takes, and below what an attack lasts.
const MOST: &str = "4";

/// How much memory the router may have with `N_SLOW` answers of 1 MB that nobody takes.
const MAX_MEMORY: u64 = 160 << 20;

/// What an attack holds while it lasts.
#[derive(Clone, Copy, PartialEq)]
enum Holds {
    Connections,
    Requests,
}

/// Attacks one path; the attacker's tenant is in the name of its host, which it asks for as of a proxy.
async fn attack(flags: &[&str], path: &str, holds: Holds) {
    let front = Front::sample().await;
    let (proxy, url) = (front.address().to_string(), format!("http://slow.app.test{path}"));
    let n_slow = N_SLOW.to_string();
    let arguments = ["-c", &n_slow, "-r", &n_slow, "-l", SECONDS, "-p", MOST, "-d", &proxy, "-u", &url];
    let arguments = [&arguments[..], flags].concat();
    let attacked = async {
        let printed = program::printed("slowhttptest", &arguments).await;
        assert!(printed.contains("Hit test time limit"), "the attack ended early: {printed}");
    };
    let others = async {
        // Not all of them come through on a busy machine, and some are through before others come.
        eventually("an attack", async || {
            let held = match holds {
                Holds::Connections => front.n_connections(),
                Holds::Requests => front.metrics().await.sum("cofferdam_limits_in_flight", &[]) as usize,
            };
            (held > N_SLOW / 2).then_some(())
        })
        .await;
        program::check("httpx_client.py", "is_served_in_time", &[&front.url(""), "4", MOST]).await;
    };
    tokio::join!(attacked, others);
    front.idle().await;
    eventually("no connection left", async || (front.n_connections() == 0).then_some(())).await;
    let peak = front.peak_memory();
    assert!(peak < MAX_MEMORY, "the router had {} MiB", peak >> 20);
}

#[tokio::test]
async fn slow_heads_harm_nobody_else() {
    attack(&["-H", "-i", "1"], "/", Holds::Connections).await;
}

#[tokio::test]
async fn slow_bodies_harm_nobody_else() {
    attack(&["-B", "-i", "1", "-s", "100000", "-x", "8"], "/echo", Holds::Requests).await;
}

#[tokio::test]
async fn slow_readers_harm_nobody_else() {
    let slowly = ["-X", "-n", "1", "-w", "10", "-y", "20", "-z", "10", "-k", "3"];
    attack(&slowly, "/bytes?n=1000000", Holds::Requests).await;
}
