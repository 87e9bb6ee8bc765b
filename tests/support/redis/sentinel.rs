//! A master, a replica, and three sentinels that watch them.

use std::collections::HashMap;
use std::fs;

use ::redis::{Value, cmd, from_redis_value};
use tempfile::TempDir;

use super::{Keeper, RedisServer, free_port, keep, wait_for};

/// The name of what is watched.
pub(crate) const SERVICE: &str = "limits";

/// What the sentinels watch, and they.
pub(crate) struct Watched {
    /// The first one is the master at the beginning.
    pub(crate) servers: [RedisServer; 2],
    ports: [u16; 3],
    _sentinels: Vec<Keeper>,
    _folder: TempDir,
}

impl Watched {
    pub(crate) fn start() -> Self {
        let quick = ["--repl-diskless-sync-delay", "0", "--repl-timeout", "2"];
        let master = RedisServer::start_with(&quick);
        let port = master.port().to_string();
        let replica = RedisServer::start_with(&[&quick[..], &["--replicaof", "127.0.0.1", &port]].concat());
        let folder = tempfile::tempdir().unwrap();
        let ports = [(); 3].map(|()| free_port());
        let mut sentinels = Vec::new();
        for (index, port) in ports.iter().enumerate() {
            let file = folder.path().join(format!("{index}.conf"));
            fs::write(&file, config(index, &ports, [&master, &replica])).unwrap();
            let mut command = std::process::Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "redis-server"]).arg(&file).arg("--sentinel");
            command.args(["--port", &port.to_string()]).stdin(std::process::Stdio::null());
            command.current_dir(folder.path()).stdout(std::process::Stdio::null());
            sentinels.push(keep(command).unwrap().1);
        }
        let watched = Self { servers: [master, replica], ports, _sentinels: sentinels, _folder: folder };
        watched.until_ready();
        watched
    }

    /// Waits until the replica follows, and every sentinel knows it and the others.
    fn until_ready(&self) {
        let knows = |port: u16| {
            let master =
                ::redis::Client::open(("127.0.0.1", port)).and_then(|client| client.get_connection());
            let master = master.and_then(|mut connection| {
                cmd("SENTINEL").arg("MASTER").arg(SERVICE).query::<HashMap<String, String>>(&mut connection)
            });
            let is = |master: &HashMap<String, String>, name: &str, n: &str| {
                master.get(name).is_some_and(|is| is == n)
            };
            master.is_ok_and(|master| {
                is(&master, "num-other-sentinels", "2")
                    && is(&master, "num-slaves", "1")
                    && is(&master, "flags", "master")
            })
        };
        wait_for("a replica that follows", || {
            let info: String = cmd("INFO").arg("replication").query(&mut self.servers[1].connect()).unwrap();
            info.contains("master_link_status:up")
        });
        wait_for("sentinels that know", || self.ports.iter().all(|port| knows(*port)));
    }

    /// Has the sentinels change the master though it is well.
    pub(crate) fn fail_over(&self) -> ::redis::RedisResult<()> {
        let mut connection = ::redis::Client::open(("127.0.0.1", self.ports[0]))?.get_connection()?;
        cmd("SENTINEL").arg("FAILOVER").arg(SERVICE).exec(&mut connection)
    }

    /// `master` or `slave`, as the server says itself. Nothing where it does not answer: whoever steps down closes connections.
    pub(crate) fn role_of(&self, server: usize) -> Option<String> {
        let client = ::redis::Client::open(self.servers[server].unix_url()).unwrap();
        let role: Vec<Value> = cmd("ROLE").query(&mut client.get_connection().ok()?).ok()?;
        from_redis_value(role.into_iter().next()?).ok()
    }

    /// The URL of the service, by all sentinels.
    pub(crate) fn url(&self) -> String {
        let places: Vec<_> = self.ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-sentinel://{}/{SERVICE}", places.join(","))
    }
}

/// They know each other and the replica from the beginning, which they would else find out in some seconds.
fn config(index: usize, ports: &[u16; 3], [master, replica]: [&RedisServer; 2]) -> String {
    let id = |index: usize| format!("{:040x}", index + 1);
    let mut text = format!(
        "bind 127.0.0.1\nsentinel myid {}\nsentinel monitor {SERVICE} 127.0.0.1 {} 2\n\
         sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 2000\n\
         sentinel known-replica {SERVICE} 127.0.0.1 {}\n",
        id(index),
        master.port(),
        replica.port()
    );
    for (other, port) in ports.iter().enumerate().filter(|(other, _)| *other != index) {
        text += &format!("sentinel known-sentinel {SERVICE} 127.0.0.1 {port} {}\n", id(other));
    }
    text
}
