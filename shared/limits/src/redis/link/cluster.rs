//! A cluster: who has which slot, a connection to every server, and calls that go where their keys lie.
//!
//! It is our own and not that of the `redis` crate, which sends a call again when the connection broke under it, holds
//! all calls back while it finds out about one server, and asks any server when it knows of none. Here a call is sent
//! on only where a server has said that it executed nothing: MOVED and ASK. A server that is away concerns its own slots alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use ::redis::{Value, cmd};
use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::counters::add_one;
use super::endpoint::Address;
use super::error::LinkError;
use super::keeper::{Context, Keeper, Route};
use super::live::{Deadline, Live, Order};
use super::slots::{N_SLOTS, SlotRange, ranges, target};
use crate::redis::breaker::Breaker;

/// How often a call may be sent on before it is given up.
const MAX_REDIRECTIONS: usize = 5;
/// How long a server may take to tell who has what.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often that is asked for while not all is well, and while it is.
const UNSETTLED: Duration = Duration::from_millis(100);
const SETTLED: Duration = Duration::from_secs(10);
/// The least time between two questions.
const PAUSE: Duration = Duration::from_millis(25);
const NOBODY: u16 = u16::MAX;

/// The connections to a cluster. Dropping it ends them.
pub(super) struct Cluster {
    shared: Arc<Shared>,
    task: AbortHandle,
}

struct Shared {
    seeds: Vec<Address>,
    context: Arc<Context>,
    map: ArcSwap<Map>,
    /// Somebody was sent on, or met a server that is away.
    doubt: Notify,
}

/// Every server that is known, and who has which slot.
struct Map {
    members: Vec<Member>,
    /// By slot, the index of its master.
    owners: Box<[AtomicU16]>,
}

/// A server, masters and replicas alike: a replica that takes over is connected already.
#[derive(Clone)]
pub(super) struct Member {
    address: Address,
    pub(super) keeper: Arc<Keeper>,
}

impl Cluster {
    /// Begins on the current runtime.
    pub(super) fn start(seeds: Vec<Address>, context: Arc<Context>) -> Self {
        let members = seeds.iter().map(|seed| Member::start(seed, &context)).collect();
        let map = ArcSwap::from_pointee(Map::new(members, &[]));
        let shared = Arc::new(Shared { seeds, context, map, doubt: Notify::new() });
        let task = tokio::spawn(follow(Arc::clone(&shared))).abort_handle();
        Self { shared, task }
    }

    /// Sends to the server that has `slot`, and to others as long as servers send it on.
    pub(super) async fn send(
        &self,
        slot: Option<u16>,
        order: Order<'_>,
        deadline: Deadline,
    ) -> Result<Value, LinkError> {
        let (map, counters) = (self.shared.map.load_full(), &self.shared.context.counters);
        let mut member = map.member_for(slot).ok_or(LinkError::NotConnected);
        let mut is_asking = false;
        for _ in 0..MAX_REDIRECTIONS {
            let live = member.and_then(|member| member.keeper.live().ok_or(LinkError::NotConnected));
            let live = live.inspect_err(|_| self.shared.doubt.notify_one())?;
            let LinkError::Refused { code, text } =
                (match live.send(order, is_asking, deadline, counters).await {
                    Err(error) if error.is("MOVED") || error.is("ASK") => error,
                    answer => return answer,
                })
            else {
                break;
            };
            add_one(&counters.redirections);
            is_asking = code == "ASK";
            let index = target(&text, &live.address).and_then(|address| map.index_of(&address));
            if !is_asking {
                self.shared.doubt.notify_one();
                if let Some((index, slot)) = index.zip(slot) {
                    map.owners[usize::from(slot)].store(index, Ordering::Relaxed);
                }
            }
            member = index.map(|index| &map.members[usize::from(index)]).ok_or(LinkError::NotConnected);
        }
        Err(LinkError::Unexpected("sent from server to server without end".to_owned()))
    }

    /// The connections that stand, masters and replicas alike.
    pub(super) fn lives(&self) -> Vec<Arc<Live>> {
        self.shared.map.load().members.iter().filter_map(|member| member.keeper.live()).collect()
    }

    /// Whether the master of `slot` answers in time.
    pub(super) fn breaker(&self, slot: u16) -> Option<Arc<Breaker>> {
        let map = self.shared.map.load();
        map.member_for(Some(slot)).map(|member| Arc::clone(&member.keeper.breaker))
    }

    /// How many servers are known.
    pub(super) fn n_members(&self) -> usize {
        self.shared.map.load().members.len()
    }

    /// The masters, and whether every slot has one.
    pub(super) fn masters(&self) -> (Vec<Member>, bool) {
        self.shared.map.load().masters()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Member {
    fn start(address: &Address, context: &Arc<Context>) -> Self {
        let keeper = Keeper::start(Route::Member(address.clone()), Arc::clone(context));
        Self { address: address.clone(), keeper: Arc::new(keeper) }
    }
}

impl Map {
    fn new(members: Vec<Member>, ranges: &[SlotRange]) -> Self {
        let owners: Box<[_]> = (0..N_SLOTS).map(|_| AtomicU16::new(NOBODY)).collect();
        let map = Self { members, owners };
        for range in ranges {
            let owner = map.index_of(&range.servers[0]).unwrap_or(NOBODY);
            for slot in range.first..=range.last {
                map.owners[usize::from(slot)].store(owner, Ordering::Relaxed);
            }
        }
        map
    }

    fn index_of(&self, address: &Address) -> Option<u16> {
        let index = self.members.iter().position(|member| member.address == *address)?;
        u16::try_from(index).ok().filter(|index| *index != NOBODY)
    }

    /// Who has a slot; without one, anybody that can be asked.
    fn member_for(&self, slot: Option<u16>) -> Option<&Member> {
        match slot {
            Some(slot) => {
                self.members.get(usize::from(self.owners[usize::from(slot)].load(Ordering::Relaxed)))
            }
            None => self.members.iter().find(|member| member.keeper.live().is_some()),
        }
    }

    fn masters(&self) -> (Vec<Member>, bool) {
        let mut is_master = vec![false; self.members.len()];
        let mut is_covered = true;
        for owner in &self.owners {
            match is_master.get_mut(usize::from(owner.load(Ordering::Relaxed))) {
                Some(known) => *known = true,
                None => is_covered = false,
            }
        }
        let masters = self.members.iter().zip(is_master).filter(|(_, is_master)| *is_master);
        (masters.map(|(member, _)| member.clone()).collect(), is_covered)
    }
}

/// Follows who has what.
async fn follow(shared: Arc<Shared>) {
    let mut changed = shared.context.changed.subscribe();
    let mut turn = 0;
    loop {
        match shared.ask(turn).await {
            Some(ranges) => shared.take_in(&ranges),
            None if shared.map.load().member_for(None).is_none() => shared.add_seeds(),
            None => {}
        }
        turn += 1;
        // Also told by `take_in`, to others.
        changed.borrow_and_update();
        let (masters, is_covered) = shared.map.load().masters();
        let is_well = is_covered && masters.iter().all(|master| master.keeper.live().is_some());
        let wait = if is_well { SETTLED } else { UNSETTLED };
        tokio::select! {
            () = sleep(wait) => {}
            () = shared.doubt.notified() => {}
            _ = changed.changed() => {}
        }
        sleep(PAUSE).await;
    }
}

impl Shared {
    /// Asks one server of those that are connected, each in its turn: one of them may be cut off from the others.
    async fn ask(&self, turn: usize) -> Option<Vec<SlotRange>> {
        let map = self.map.load_full();
        let connected: Vec<_> = map.members.iter().filter_map(|member| member.keeper.live()).collect();
        let live = connected.get(turn % connected.len().max(1))?;
        let question = cmd("CLUSTER").arg("SLOTS").to_owned();
        let answer = timeout(PATIENCE, live.ask(&question, false, Deadline::after(PATIENCE))).await.ok()?;
        match answer {
            Ok(answer) => ranges(answer, &live.address).filter(|ranges| !ranges.is_empty()),
            Err(error) => {
                tracing::warn!("{} does not say who has which slots: {error}", live.address);
                None
            }
        }
    }

    /// Connections to servers that are still known go on; the seeds end once somebody who was named can be asked.
    fn take_in(&self, ranges: &[SlotRange]) {
        let old = self.map.load_full();
        let mut members: Vec<Member> = Vec::new();
        for address in ranges.iter().flat_map(|range| &range.servers) {
            self.add(&mut members, address, &old);
        }
        if !members.iter().any(|member| member.keeper.live().is_some()) {
            self.seeds.iter().for_each(|seed| self.add(&mut members, seed, &old));
        }
        self.map.store(Arc::new(Map::new(members, ranges)));
        self.context.changed.send_replace(());
    }

    /// Turns to the seeds again, beside everybody who is known.
    fn add_seeds(&self) {
        let old = self.map.load_full();
        let mut members = old.members.clone();
        self.seeds.iter().for_each(|seed| self.add(&mut members, seed, &old));
        if members.len() > old.members.len() {
            let owner = |owner: &AtomicU16| AtomicU16::new(owner.load(Ordering::Relaxed));
            let owners = old.owners.iter().map(owner).collect();
            self.map.store(Arc::new(Map { members, owners }));
        }
    }

    fn add(&self, members: &mut Vec<Member>, address: &Address, old: &Map) {
        if !members.iter().any(|member| member.address == *address) {
            let known = old.members.iter().find(|member| member.address == *address);
            members.push(known.cloned().unwrap_or_else(|| Member::start(address, &self.context)));
        }
    }
}
