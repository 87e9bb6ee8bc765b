//! The tenants' load and the client's own counters. They know tenants by name only: where a tenant is, and who should
//! be hurt, is computed elsewhere.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::Context;
use cofferdam_model::TenantId;
use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::open_loop::{Answer, Client, Pace, Sent, Stream};

/// The time from one request of a tenant to its next: 10 a second.
const PERIOD: Duration = Duration::from_millis(100);

/// A client that sends so much later than it should has not had the machine: nor have cells and router.
const LATE: Duration = Duration::from_millis(200);

/// All tenants' requests.
#[derive(Debug)]
pub(crate) struct Load {
    tenants: Vec<(TenantId, Stream)>,
    loss: watch::Receiver<Option<Instant>>,
}

/// One tenant's requests and what became of them.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Whose they were.
    pub(crate) tenant: TenantId,
    /// All of them, in no order.
    pub(crate) sent: Vec<Sent>,
}

/// How many requests of a window succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Success {
    /// Answered with a whole 2xx, in time.
    pub(crate) succeeded: u64,
    /// Due in the window.
    pub(crate) scheduled: u64,
    /// Those of them that were sent so much later that the machine is to blame for what became of them.
    pub(crate) late: u64,
}

impl Load {
    /// Starts the load. The tenants take turns, so that the whole is as even as each.
    pub(crate) fn start(client: &Client, tenants: &[TenantId]) -> Self {
        let (lost, loss) = watch::channel(None);
        let (now, turn) = (Instant::now(), PERIOD / tenants.len().max(1) as u32);
        let start = |(tenant, turns): (&TenantId, u32)| {
            let (client, lost, tenant) = (client.clone(), lost.clone(), *tenant);
            let pace = Pace { first: now + turn * turns, period: PERIOD };
            let send = move |scheduled| count(client.clone(), tenant, scheduled, lost.clone());
            (tenant, Stream::start(pace, send))
        };
        Self { tenants: tenants.iter().zip(0..).map(start).collect(), loss }
    }

    /// Waits until a request is lost that was due at `since` or later, and says when that was seen.
    pub(crate) async fn first_loss(&mut self, since: Instant) -> anyhow::Result<Instant> {
        let lost = self.loss.wait_for(|lost| lost.is_some_and(|scheduled| scheduled >= since)).await;
        lost.context("the load ended")?;
        Ok(Instant::now())
    }

    /// Goes on until `last`, and waits for every answer.
    pub(crate) async fn end_at(self, last: Instant) -> anyhow::Result<Vec<Tally>> {
        let end = async |(tenant, stream): (TenantId, Stream)| {
            anyhow::Ok(Tally { tenant, sent: stream.end_at(last).await? })
        };
        try_join_all(self.tenants.into_iter().map(end)).await
    }
}

async fn count(
    client: Client,
    tenant: TenantId,
    scheduled: Instant,
    lost: watch::Sender<Option<Instant>>,
) -> Answer {
    let answer = client.get(tenant, "/", scheduled).await;
    if answer != Answer::Success {
        lost.send_replace(Some(scheduled));
    }
    answer
}

impl Tally {
    /// The tenant's success over the requests that were due in `window`.
    pub(crate) fn success(&self, window: &RangeInclusive<Instant>) -> Success {
        let due = self.sent.iter().filter(|sent| window.contains(&sent.scheduled));
        due.fold(Success::default(), |sum, sent| Success {
            succeeded: sum.succeeded + u64::from(sent.answer == Answer::Success),
            scheduled: sum.scheduled + 1,
            late: sum.late + u64::from(sent.late >= LATE),
        })
    }
}
