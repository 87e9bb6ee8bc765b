//! A cluster of real servers on this machine.

use ::redis::{Cmd, Value, cmd};

use super::{RedisServer, free_port, wait_for};

/// Masters that share the slots evenly, each with as many replicas.
pub(crate) struct RedisCluster {
    pub(crate) nodes: Vec<RedisServer>,
    n_masters: usize,
}

impl RedisCluster {
    /// Masters alone.
    pub(crate) fn of(n_masters: usize) -> Self {
        Self::with_replicas(n_masters, 0)
    }

    /// Masters, which come first in `nodes`, and so many replicas of each: node `n` follows node `n % n_masters`.
    pub(crate) fn with_replicas(n_masters: usize, n_replicas: usize) -> Self {
        let nodes: Vec<_> = (0..n_masters * (1 + n_replicas)).map(|_| node()).collect();
        let cluster = Self { nodes, n_masters };
        cluster.share_slots();
        cluster.introduce();
        cluster.until("everybody knows everybody", |info| {
            info.contains(&format!("cluster_known_nodes:{}\r", cluster.nodes.len()))
        });
        cluster.replicate();
        cluster.until_ok();
        cluster
    }

    /// The URL of the cluster, by all of its nodes.
    pub(crate) fn url(&self) -> String {
        let places: Vec<_> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis-cluster://{}", places.join(","))
    }

    /// Waits until every node that runs finds all well.
    pub(crate) fn until_ok(&self) {
        self.until("the cluster is well", |info| info.contains("cluster_state:ok"));
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            wait_for("a replica follows its master", || {
                let info: String = ask(node, cmd("INFO").arg("replication"));
                !info.contains("role:slave") || info.contains("master_link_status:up")
            });
        }
    }

    /// The node that has a slot now, by what it says itself.
    pub(crate) fn master_of(&self, slot: u16) -> usize {
        let is_master = |node: &RedisServer| {
            let ranges: Vec<Vec<Value>> = ask(node, cmd("CLUSTER").arg("SLOTS"));
            ranges.iter().any(|range| {
                let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &range[..] else {
                    panic!("{range:?}")
                };
                let is_in = (*first..=*last).contains(&i64::from(slot));
                is_in && master[1] == Value::Int(node.port().into())
            })
        };
        let found = self.nodes.iter().position(|node| node.is_running() && is_master(node));
        found.unwrap()
    }

    /// Begins to move a slot: what is not there any more is asked for at its new master.
    pub(crate) fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let id = |node: usize| ask::<String>(&self.nodes[node], cmd("CLUSTER").arg("MYID"));
        let set = |node: usize, state: &str, other: usize| {
            let mut set = cmd("CLUSTER");
            ask::<()>(&self.nodes[node], set.arg("SETSLOT").arg(slot).arg(state).arg(id(other)));
        };
        set(to, "IMPORTING", from);
        set(from, "MIGRATING", to);
    }

    /// Moves every key of a slot.
    pub(crate) fn move_keys(&self, slot: u16, from: usize, to: usize) {
        let mut keys = cmd("CLUSTER");
        let keys: Vec<String> = ask(&self.nodes[from], keys.arg("GETKEYSINSLOT").arg(slot).arg(1000));
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(self.nodes[to].port()).arg("").arg(0).arg(1000).arg("KEYS").arg(keys);
        ask::<()>(&self.nodes[from], &migrate);
    }

    /// The slot is its new master's.
    pub(crate) fn end_move(&self, slot: u16, to: usize) {
        let id: String = ask(&self.nodes[to], cmd("CLUSTER").arg("MYID"));
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg("NODE").arg(id);
        // First where it is new, so that nobody is sent to where it is not known.
        ask::<()>(&self.nodes[to], &set);
        self.nodes.iter().for_each(|node| ask::<()>(node, &set));
    }

    fn share_slots(&self) {
        for (index, master) in self.nodes[..self.n_masters].iter().enumerate() {
            let border = |index: usize| index * 16384 / self.n_masters;
            let range = (border(index), border(index + 1) - 1);
            ask::<()>(master, cmd("CLUSTER").arg("ADDSLOTSRANGE").arg(range.0).arg(range.1));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            ask::<()>(node, cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(index + 1));
        }
    }

    fn introduce(&self) {
        for node in &self.nodes[1..] {
            let first = &self.nodes[0];
            let meet =
                cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(first.port()).arg(bus(first)).to_owned();
            ask::<()>(node, &meet);
        }
    }

    fn replicate(&self) {
        for (index, replica) in self.nodes.iter().enumerate().skip(self.n_masters) {
            let master: String = ask(&self.nodes[index % self.n_masters], cmd("CLUSTER").arg("MYID"));
            let mut replicate = cmd("CLUSTER");
            replicate.arg("REPLICATE").arg(master);
            // Refused for as long as the replica has not heard of its master.
            wait_for("a replica knows its master", || replicate.exec(&mut replica.connect()).is_ok());
        }
    }

    fn until(&self, what: &str, is_so: impl Fn(&str) -> bool) {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            wait_for(what, || is_so(&ask::<String>(node, cmd("CLUSTER").arg("INFO"))));
        }
    }
}

fn node() -> RedisServer {
    let bus = free_port().to_string();
    let arguments = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout", "500"];
    RedisServer::start_with(&[&arguments[..], &["--repl-diskless-sync-delay", "0"]].concat())
}

fn bus(node: &RedisServer) -> &str {
    let at = node.arguments.iter().position(|argument| argument == "--cluster-port").unwrap();
    &node.arguments[at + 1]
}

fn ask<T: ::redis::FromRedisValue>(node: &RedisServer, cmd: &Cmd) -> T {
    cmd.query(&mut node.connect()).unwrap()
}
