//! nginx and HAProxy before the same scripted upstreams: one process of each, with a port for every row. They are asked
//! where they are installed, and only for what they do: their answers are no measure of right.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use super::ours::Clocks;
use super::row::{Party, Row};
use crate::support::eventually;

const NGINX: &str = include_str!("peers/nginx.conf");
const HAPROXY: &str = include_str!("peers/haproxy.cfg");

/// A process of a peer's.
#[derive(Debug)]
pub(crate) struct Peer {
    child: Child,
    /// Where it listens for each upstream.
    pub(crate) fronts: Vec<SocketAddr>,
    _folder: TempDir,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command. Where Debian has it is not on everybody's path.
fn command(peer: Party) -> Command {
    let at = Path::new("/usr/sbin").join(peer.name());
    if at.exists() { Command::new(at) } else { Command::new(peer.name()) }
}

/// The version that is installed, such as `1.22`.
pub(crate) fn version(peer: Party) -> Option<String> {
    let output = command(peer).arg("-v").output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let number = text.split(|c: char| !c.is_ascii_digit() && c != '.').find(|word| word.contains('.'))?;
    Some(number.split('.').take(2).collect::<Vec<_>>().join("."))
}

/// Starts a peer before the upstreams of these rows.
pub(crate) async fn start(peer: Party, rows: &[Row], upstreams: &[SocketAddr]) -> Peer {
    // A port can be taken between its choice and its use; then everything is chosen anew.
    for _ in 0..5 {
        if let Some(peer) = try_start(peer, rows, upstreams).await {
            return peer;
        }
    }
    panic!("{} did not start in five attempts", peer.name());
}

async fn try_start(peer: Party, rows: &[Row], upstreams: &[SocketAddr]) -> Option<Peer> {
    let folder = tempfile::tempdir().unwrap();
    let listeners: Vec<_> = upstreams.iter().map(|_| bind()).collect();
    let fronts: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
    let arguments = match peer {
        Party::Nginx => ["-p", "{folder}", "-c", "{file}"],
        _ => ["-q", "-db", "-f", "{file}"],
    };
    let file = folder.path().join("configuration");
    fs::write(&file, configuration(peer, folder.path(), rows, &fronts, upstreams)).unwrap();
    drop(listeners);
    let put = |argument: &str| {
        argument
            .replace("{folder}", folder.path().to_str().unwrap())
            .replace("{file}", file.to_str().unwrap())
    };
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let mut command = command(peer);
    command.args(arguments.map(put)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // From here on, dropping the peer ends its process.
    let mut peer = Peer { child: command.spawn().unwrap(), fronts, _folder: folder };
    let is_up = eventually("a peer that listens", async || {
        // One that fails to bind a port may have bound the last one when it goes.
        let mut open = true;
        for front in &peer.fronts {
            open &= tokio::net::TcpStream::connect(front).await.is_ok();
        }
        let ended = peer.child.try_wait().unwrap().is_some();
        (ended || open).then_some(!ended)
    })
    .await;
    is_up.then_some(peer)
}

/// A port that is free now, and that no connection is given on its way out: those have higher ones.
fn bind() -> TcpListener {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let nth = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id().wrapping_mul(331));
        let port = 10_000 + u16::try_from(nth % 20_000).expect("a port");
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener;
        }
    }
}

/// The template with its lines between `# each` and `# end` written out for every row.
fn configuration(
    peer: Party,
    folder: &Path,
    rows: &[Row],
    fronts: &[SocketAddr],
    upstreams: &[SocketAddr],
) -> String {
    let template = if peer == Party::Nginx { NGINX } else { HAPROXY };
    let (before, rest) = template.split_once("# each\n").expect("where the rows begin");
    let (each, after) = rest.split_once("# end\n").expect("where the rows end");
    let rows =
        rows.iter().zip(fronts).zip(upstreams).enumerate().map(|(number, ((row, front), upstream))| {
            // HAProxy finds out by itself.
            let protocol = if row.in_frames { " http2" } else { "" };
            let clocks = Clocks::of(row, peer);
            each.replace("{silence}", &format!("{}s", clocks.silence.as_secs()))
                .replace("{hang}", &format!("{}ms", clocks.hang.as_millis()))
                .replace("{number}", &number.to_string())
                .replace("{protocol}", protocol)
                .replace("{front}", &front.to_string())
                .replace("{upstream}", &upstream.to_string())
        });
    let rows: String = rows.collect();
    [before, &rows, after].concat().replace("{folder}", folder.to_str().unwrap())
}
