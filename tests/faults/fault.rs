//! The faults: how each strikes, how long it lasts, how it ends, and how much may be in flight because of it.

use std::time::Duration;

use ::redis::cmd;
use cofferdam_limits::redis::Fleet;
use cofferdam_model::{Alphabet, TenantId};
use rustix::process::Signal;

use crate::backend::WATCHED;
use crate::scene::{LIMIT, N_ROUTERS, Scene};
use crate::support::redis::RedisServer;
use crate::support::relay::{Way, Weather};

/// The share of one router that decides by itself.
const SHARE: usize = LIMIT.div_ceil(N_ROUTERS);
/// Longer than a session lives unrenewed.
const BEYOND_TTL: Duration = Duration::from_secs(8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    RedisStopped,
    RedisKilled,
    FlushAll,
    ScriptFlush,
    ClusterFailover,
    MasterStopped,
    LinkCut,
    LinkHeld,
    RouterPaused,
    RouterKilled,
}

impl Fault {
    pub(crate) const ALL: [Self; 11] = [
        Self::Nothing,
        Self::RedisStopped,
        Self::RedisKilled,
        Self::FlushAll,
        Self::ScriptFlush,
        Self::ClusterFailover,
        Self::MasterStopped,
        Self::LinkCut,
        Self::LinkHeld,
        Self::RouterPaused,
        Self::RouterKilled,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::RedisStopped => "redis stopped, then continued",
            Self::RedisKilled => "redis killed, restarted empty",
            Self::FlushAll => "FLUSHALL",
            Self::ScriptFlush => "SCRIPT FLUSH",
            Self::ClusterFailover => "cluster failover",
            Self::MasterStopped => "one master of a cluster stopped, then continued",
            Self::LinkCut => "link of one router cut",
            Self::LinkHeld => "link of one router silent",
            Self::RouterPaused => "router paused beyond its TTL",
            Self::RouterKilled => "router killed",
        }
    }

    pub(crate) fn needs_cluster(self) -> bool {
        matches!(self, Self::ClusterFailover | Self::MasterStopped)
    }

    /// How long until it is healed; nothing where it is over at once.
    pub(crate) fn lasts(self) -> Duration {
        match self {
            Self::RedisStopped | Self::RedisKilled | Self::MasterStopped | Self::LinkCut | Self::LinkHeld => {
                Duration::from_secs(5)
            }
            Self::RouterPaused => BEYOND_TTL,
            _ => Duration::ZERO,
        }
    }

    /// What may be in flight, as `shared/limits` promises it.
    pub(crate) fn bound(self) -> usize {
        match self {
            Self::Nothing | Self::ScriptFlush | Self::RouterKilled => LIMIT,
            // A router that held nothing may use its share beside what the others hold.
            Self::RedisStopped
            | Self::RedisKilled
            | Self::FlushAll
            | Self::ClusterFailover
            | Self::MasterStopped
            | Self::LinkCut
            | Self::LinkHeld => LIMIT + (N_ROUTERS - 1) * SHARE,
            // And what the paused one held, which may have been all.
            Self::RouterPaused => 2 * LIMIT,
        }
    }

    /// The router whose own requests it cannot but fail.
    pub(crate) fn victim(self) -> Option<usize> {
        matches!(self, Self::RouterPaused | Self::RouterKilled).then_some(0)
    }

    pub(crate) fn strike(self, scene: &mut Scene) {
        match self {
            Self::Nothing => {}
            Self::RedisStopped => scene.redis().pause(),
            Self::RedisKilled => scene.redis().kill(),
            Self::FlushAll => cmd("FLUSHALL").exec(&mut scene.redis().connect()).unwrap(),
            Self::ScriptFlush => cmd("SCRIPT").arg("FLUSH").exec(&mut scene.redis().connect()).unwrap(),
            Self::ClusterFailover => {
                for replica in &scene.cluster().nodes[3..] {
                    cmd("CLUSTER").arg("FAILOVER").exec(&mut replica.connect()).unwrap();
                }
            }
            Self::MasterStopped => scene.cluster().nodes[watched_master(scene)].pause(),
            Self::LinkCut => weather(scene, Weather::Cut),
            Self::LinkHeld => weather(scene, Weather::Held(Way::Both)),
            Self::RouterPaused => scene.routers[0].process.signal(Signal::STOP),
            Self::RouterKilled => scene.routers[0].process.signal(Signal::KILL),
        }
    }

    pub(crate) fn heal(self, scene: &mut Scene) {
        match self {
            Self::RedisStopped => scene.redis().resume(),
            // Another one is the master by now.
            Self::MasterStopped => scene.cluster().nodes.iter().for_each(RedisServer::resume),
            Self::RedisKilled => scene.redis().start_again(),
            Self::LinkCut | Self::LinkHeld => weather(scene, Weather::Clear),
            Self::RouterPaused => scene.routers[0].process.signal(Signal::CONT),
            _ => {}
        }
    }
}

/// Which node has what is counted of the greedy tenant.
fn watched_master(scene: &Scene) -> usize {
    let tenant = TenantId::parse(WATCHED.as_bytes(), &Alphabet::default()).unwrap();
    let key = Fleet::parse("test").unwrap().permits(&tenant);
    let cluster = scene.cluster();
    let slot = cmd("CLUSTER").arg("KEYSLOT").arg(key.as_str()).query(&mut cluster.nodes[0].connect());
    cluster.master_of(slot.unwrap())
}

fn weather(scene: &Scene, weather: Weather) {
    scene.routers[0].link.as_ref().unwrap().set(weather);
}
