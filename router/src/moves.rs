//! Moves of tenants at this router: it holds their requests at its doors, says how many are inside, takes each move as far as it
//! may go, and lets requests in again. What a move is, is kept with what operators override; any router may begin, stop or end one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_limits::redis::RedisStore;
use cofferdam_model::{CellId, TenantId};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::timeout;

use crate::door::Doors;
use crate::overrides::placement::{Asked, Changes, Heard, Move, News, Phase, Record, Refused};
use crate::overrides::{AlterError, Kept};

/// How often it is looked how far moves have come, while there are any.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How often it is said how many requests are inside, while there are some.
const SAY_EVERY: Duration = Duration::from_secs(1);

/// For so long after a move's deadline its tenant's requests still wait: until it is heard how it ended, which takes a moment.
const GRACE: Duration = Duration::from_secs(5);

/// For so long after a move's deadline its tenant's requests are refused where the store is not heard of: whether the move took
/// effect is not known here then, and a request on the old cells could be lost. After that this router goes by what it knows.
const FENCED_FOR: Duration = Duration::from_secs(60);

/// A cell that does not take a connection in this time is dead.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The session of a router that shares its limits with nobody.
const ALONE: &str = "alone";

/// Moves, as one router takes part in them.
#[derive(Debug)]
pub(crate) struct Moves {
    kept: Arc<Kept<Record>>,
    doors: Doors,
    shared: Option<Arc<RedisStore>>,
    changes: Changes,
}

/// A tenant that this router holds.
#[derive(Debug)]
struct Held {
    id: String,
    /// Until then, unless the store says otherwise.
    fenced_until: Instant,
    said: Option<Instant>,
}

/// Why a move does not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotBegun {
    #[error("cell {0} cannot be reached: nobody is moved there")]
    DeadCell(CellId),
    #[error(
        "it is not known which routers live, since the store is away or has just begun: nothing was changed, ask again"
    )]
    Unknown,
    #[error(transparent)]
    Alter(#[from] AlterError<Refused>),
}

impl Moves {
    pub(crate) fn new(
        kept: Arc<Kept<Record>>,
        doors: Doors,
        shared: Option<Arc<RedisStore>>,
        changes: Changes,
    ) -> Self {
        Self { kept, doors, shared, changes }
    }

    /// How many requests of a tenant are inside of this router.
    pub(crate) fn n_inside(&self, tenant: &TenantId) -> u32 {
        self.doors.n_inside(tenant)
    }

    /// Begins a move, which goes on by itself, and returns what tells it from others.
    pub(crate) async fn begin(
        &self,
        tenant: &TenantId,
        asked: &Asked,
        at_most: Duration,
    ) -> Result<String, NotBegun> {
        if let Some(dead) = self.first_dead(asked.to()).await {
            return Err(NotBegun::DeadCell(dead));
        }
        let live = self.live().await.ok_or(NotBegun::Unknown)?;
        let id = format!("{:016x}", rand::random::<u64>());
        self.kept.begin_move(tenant, (asked, at_most), &id, &live).await?;
        Ok(id)
    }

    /// Stops a move that has not taken effect.
    pub(crate) async fn stop(&self, tenant: &TenantId, why: &str) -> Result<(), AlterError<Refused>> {
        self.kept.stop_move(tenant, why).await
    }

    /// The first of these cells that is believed down, or takes no connection. One that the fleet does not have is not judged.
    async fn first_dead(&self, cells: &[CellId]) -> Option<CellId> {
        let fitted = self.kept.fitted();
        for id in cells {
            let Some(cell) = fitted.snapshot.cells.iter().find(|cell| cell.id == *id) else { continue };
            let connected = timeout(CONNECT_TIMEOUT, cell.endpoint.connect()).await;
            if !matches!(connected, Ok(Ok(_))) || !cell.health.is_up(Instant::now()) {
                return Some(id.clone());
            }
        }
        None
    }

    /// The sessions of the routers that live, this one among them; nothing where that is not known.
    async fn live(&self) -> Option<Vec<String>> {
        let Some(store) = &self.shared else { return Some(vec![ALONE.to_owned()]) };
        let live = store.live(self.kept.now_ms()).await.ok().flatten()?;
        live.contains(&self.session()).then_some(live)
    }

    fn session(&self) -> String {
        self.shared.as_ref().map_or_else(|| ALONE.to_owned(), |store| store.session().to_string())
    }

    /// Takes part in all moves, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        self.undo_inherited().await;
        let mut held = HashMap::new();
        loop {
            if self.round(&mut held).await {
                tokio::time::sleep(LOOK_EVERY).await;
                self.kept.catch_up().await;
            } else {
                self.kept.changed().await;
            }
        }
    }

    /// Undoes moves that the process before this one has not taken to their end, where that serves still while it leaves: what it
    /// has inside is not known here.
    async fn undo_inherited(&self) {
        if self.kept.may_change().await {
            return;
        }
        while !self.kept.may_change().await {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let fitted = self.kept.fitted();
        let moving =
            fitted.all().into_iter().filter_map(|(tenant, said)| Some((tenant, said.moving.as_ref()?)));
        for (tenant, it) in moving.filter(|(_, it)| it.phase == Phase::Holding) {
            match self.kept.stop_move(tenant, "another process took the router's place").await {
                Ok(()) => self.tell_end(tenant, &it.id),
                Err(error) => tracing::warn!(%tenant, %error, "could not undo a move"),
            }
        }
    }

    /// Whether there are moves.
    async fn round(&self, held: &mut HashMap<TenantId, Held>) -> bool {
        let fitted = self.kept.settled();
        let moving: Vec<(TenantId, Move)> = fitted
            .all()
            .into_iter()
            .filter_map(|(tenant, said)| Some((*tenant, said.moving.clone()?)))
            .collect();
        let now = Instant::now();
        // Whoever takes this process's place undoes what it finds.
        let may_change = self.kept.may_change().await;
        let goes_on = |tenant: &TenantId, held: &Held| {
            let is_held =
                |(at, it): &(TenantId, Move)| at == tenant && it.id == held.id && it.phase == Phase::Holding;
            may_change && now < held.fenced_until && moving.iter().any(is_held)
        };
        held.retain(|tenant, of| {
            let goes_on = goes_on(tenant, of);
            if !goes_on {
                self.doors.open(tenant);
                let overdue = now >= of.fenced_until;
                tracing::info!(%tenant, overdue, "the tenant's requests are let in again");
            }
            goes_on
        });
        for (tenant, it) in moving.iter().filter(|_| may_change) {
            if is_long_overdue(it, self.kept.now_ms()) {
                // Nobody is held back for it any more, and it is undone as soon as that can be said.
                let news = News { id: &it.id, said: None, live: None, dead: None };
                self.take_further(tenant, news).await;
            } else {
                self.step(tenant, it, held).await;
            }
        }
        !moving.is_empty()
    }

    async fn step(&self, tenant: &TenantId, it: &Move, held: &mut HashMap<TenantId, Held>) {
        let (now, session) = (Instant::now(), self.session());
        let said_last = it.routers.get(&session).copied();
        let heard = match it.phase {
            Phase::LettingIn => Heard::LettingIn,
            Phase::Holding => {
                let left = Duration::from_millis(it.deadline_ms.saturating_sub(self.kept.now_ms()));
                let held = held.entry(*tenant).or_insert_with(|| {
                    self.doors.hold(tenant, left + GRACE);
                    tracing::info!(%tenant, to = it.pin.to.join(","), "the tenant is moved: its requests are held");
                    Held { id: it.id.clone(), fenced_until: now + left + FENCED_FOR, said: None }
                });
                let n = self.doors.n_inside(tenant);
                let is_worth_saying = n == 0 || held.said.is_none_or(|said| now - said >= SAY_EVERY);
                match said_last {
                    Some(last) if !is_worth_saying => last,
                    _ => {
                        held.said = Some(now);
                        Heard::Holding(n)
                    }
                }
            }
        };
        // Who lives is asked for once this router itself is ready.
        let live =
            if heard == Heard::Holding(0) || heard == Heard::LettingIn { self.live().await } else { None };
        let dead = self.believed_down(&it.pin.to);
        let said = (said_last != Some(heard)).then_some((session.as_str(), heard));
        let news = News { id: &it.id, said, live: live.as_deref(), dead: dead.as_deref() };
        if said.is_none() && !it.would_go_on(news.live, self.kept.now_ms()) {
            return;
        }
        self.take_further(tenant, news).await;
    }

    async fn take_further(&self, tenant: &TenantId, news: News<'_>) {
        match self.kept.go_on(tenant, news).await {
            Ok(true) => self.tell_end(tenant, news.id),
            Ok(false) | Err(AlterError::Refused(_)) => {}
            Err(error) => {
                tracing::debug!(%tenant, %error, "could not take part in a move: it is tried again")
            }
        }
    }

    fn believed_down(&self, cells: &[String]) -> Option<String> {
        let fitted = self.kept.fitted();
        let now = Instant::now();
        let is_down = |id: &&String| {
            fitted.snapshot.cells.iter().any(|cell| cell.id.as_str() == **id && !cell.health.is_up(now))
        };
        cells.iter().find(is_down).cloned()
    }

    fn tell_end(&self, tenant: &TenantId, id: &str) {
        let fitted = self.kept.fitted();
        let Some(ended) = fitted.said(tenant).and_then(|said| said.moved.as_ref()) else { return };
        if ended.id != id {
            return;
        }
        let (to, took_ms) = (ended.to.join(","), ended.ended_ms.saturating_sub(ended.since_ms));
        match &ended.undone {
            None => tracing::info!(%tenant, to, took_ms, "the tenant has been moved"),
            Some(why) => {
                tracing::warn!(%tenant, to, took_ms, why, "the tenant was not moved: all is as before")
            }
        }
        self.changes.count_move(ended.undone.is_none());
    }
}

/// Whether a move should have ended so long ago that no router holds the tenant for it any more.
fn is_long_overdue(it: &Move, now_ms: u64) -> bool {
    it.phase == Phase::Holding && now_ms >= it.deadline_ms.saturating_add(FENCED_FOR.as_millis() as u64)
}

/// Shows moves as metrics, read when they are scraped.
#[derive(Debug)]
pub(crate) struct MovesCollector(pub(crate) Arc<Moves>);

impl Collector for MovesCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let fitted = self.0.kept.fitted();
        let moving = fitted.all().iter().filter(|(_, said)| said.moving.is_some()).count();
        for (name, help, value) in [
            ("cofferdam_placement_moving", "Tenants that are being moved", moving as i64),
            (
                "cofferdam_router_held",
                "Requests that wait at this router because their tenant is being moved",
                i64::from(self.0.doors.n_waiting()),
            ),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}
