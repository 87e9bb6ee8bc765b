//! The acts, in order: one tenant goes bad under one layout, while all others go about their business. Each act ends
//! with who was hurt, measured, beside who should be, computed.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::ensure;
use cofferdam_model::TenantId;
use tokio::time::{Instant, sleep, timeout};

use super::fleet_file::Layout;
use super::load::{Load, Tally};
use super::open_loop::{Answer, By, Client, Pace, Sent, Stream};
use super::processes::Processes;
use super::stage::{RESTART_AFTER, Stage};
use super::verdict::{Verdict, judge};

/// The acts of the demonstration.
pub(crate) const ACTS: [Act; 5] = [
    Act { trouble: Trouble::Noise, layout: Layout::Shuffle },
    Act { trouble: Trouble::Poison, layout: Layout::Pool },
    Act { trouble: Trouble::Poison, layout: Layout::FixedPairs },
    Act { trouble: Trouble::Poison, layout: Layout::Shuffle },
    Act { trouble: Trouble::Poison, layout: Layout::Guarded },
];

/// About how long an act takes, for the progress bar.
pub(crate) const ABOUT: Duration = Duration::from_millis(7300);

/// How long the fleet serves before anything bad happens.
const WARM_UP: Duration = Duration::from_secs(1);

/// How long is measured, at least.
const WINDOW: Duration = Duration::from_millis(5500);

/// After the first loss, the fleet gets this long to settle in its trouble.
const SETTLE: Duration = Duration::from_millis(500);

/// With a guard, the first poison is carried to a second cell as ever. Once that is back, the router gets this long to see it.
const SETTLE_GUARDED: Duration = Duration::from_secs(2);

/// If nobody lost anything this long after the first poison, nobody will.
const MAX_UNTIL_LOSS: Duration = Duration::from_secs(3);

/// Twenty poison requests a second.
const POISON_PERIOD: Duration = Duration::from_millis(50);

/// Two hundred slow requests a second.
const NOISE_PERIOD: Duration = Duration::from_millis(5);

/// A request that a cell works on for a second.
const NOISE_PATH: &str = "/slow?ms=1000";

/// One tenant's misbehaviour under one layout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Act {
    trouble: Trouble,
    layout: Layout,
}

/// What a bad tenant does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Floods a slow route.
    Noise,
    /// Sends requests that kill the process that serves them.
    Poison,
}

/// What an act showed.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// What the bad tenant did.
    pub(crate) trouble: Trouble,
    /// How tenants shared the cells.
    pub(crate) layout: Layout,
    /// How many tenants could be hurt.
    pub(crate) n_tenants: usize,
    /// Who should be hurt, computed.
    pub(crate) expected: Vec<TenantId>,
    /// Who was, measured.
    pub(crate) verdict: Verdict,
    /// What became of the bad tenant's own requests.
    pub(crate) own: Own,
    /// How often a process of a cell died.
    pub(crate) n_deaths: u32,
}

/// A bad tenant's own requests, which count for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Own {
    /// How many there were.
    pub(crate) n_sent: usize,
    /// How many succeeded.
    pub(crate) n_succeeded: usize,
    /// How many were held with a 429 by the limits of the tenant's plan.
    pub(crate) n_over_limit: usize,
    /// How many were held with a 429 by the tenant's compartment in a cell.
    pub(crate) n_over_share: usize,
}

impl Trouble {
    /// The word in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Noise => "noisy",
            Self::Poison => "poison",
        }
    }

    /// What the tenant does, in words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::Noise => "floods a slow route",
            Self::Poison => "sends poison",
        }
    }
}

impl Act {
    /// The act in words.
    pub(crate) fn describe(&self) -> String {
        format!("one tenant {}, {}", self.trouble.describe(), self.layout.name())
    }

    /// Performs the act on a fleet of its own, which is still up at the end.
    pub(crate) async fn perform(&self, stage: &Stage, processes: &mut Processes) -> anyhow::Result<Outcome> {
        stage.start(self.layout, processes).await?;
        let client = Client::new(stage.router().data)?;
        let watched = stage.watched(self.layout);
        let load = Load::start(&client, &watched);
        sleep(WARM_UP).await;
        let (seen, expected) = match self.trouble {
            Trouble::Noise => (noise(&client, stage.bad.noisy, load).await?, Vec::new()),
            Trouble::Poison => {
                let settled = async {
                    if self.layout == Layout::Guarded {
                        sleep(RESTART_AFTER).await;
                        stage.second_cell_is_back(self.layout).await?;
                        sleep(SETTLE_GUARDED).await;
                    } else {
                        sleep(SETTLE).await;
                    }
                    Ok(())
                };
                (poison(&client, stage.bad.poisonous, load, settled).await?, stage.covered(self.layout)?)
            }
        };
        Ok(Outcome {
            trouble: self.trouble,
            layout: self.layout,
            n_tenants: watched.len(),
            verdict: judge(&seen.tallies, &seen.window, &expected),
            expected,
            own: Own::count(&seen.own),
            n_deaths: processes.n_deaths(),
        })
    }
}

/// What was seen while a tenant was bad.
struct Seen {
    tallies: Vec<Tally>,
    window: RangeInclusive<Instant>,
    own: Vec<Sent>,
}

/// Floods a slow route for a window.
async fn noise(client: &Client, noisy: TenantId, load: Load) -> anyhow::Result<Seen> {
    let (from, stream) = misbehave(client, noisy, NOISE_PATH, NOISE_PERIOD);
    let to = from + WINDOW;
    let own = stream.end_at(to).await?;
    Ok(Seen { tallies: load.end_at(to).await?, window: from..=to, own })
}

/// Sends poison until a window is over that begins when the fleet has `settled` after the first loss.
async fn poison(
    client: &Client,
    poisonous: TenantId,
    mut load: Load,
    settled: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Seen> {
    let (began, stream) = misbehave(client, poisonous, "/poison", POISON_PERIOD);
    let loss = timeout(MAX_UNTIL_LOSS, load.first_loss(began)).await;
    loss.unwrap_or_else(|_| Ok(Instant::now()))?;
    settled.await?;
    let from = Instant::now();
    let own = stream.end_at(from + WINDOW).await?;
    let to = own.iter().map(|sent| sent.scheduled).max().unwrap_or(from);
    ensure!(to >= from + WINDOW, "poison ended before the window did");
    Ok(Seen { tallies: load.end_at(to).await?, window: from..=to, own })
}

fn misbehave(client: &Client, tenant: TenantId, path: &'static str, period: Duration) -> (Instant, Stream) {
    let (client, first) = (client.clone(), Instant::now());
    let send = move |scheduled| {
        let client = client.clone();
        async move { client.get(tenant, path, scheduled).await }
    };
    (first, Stream::start(Pace { first, period }, send))
}

impl Own {
    fn count(sent: &[Sent]) -> Self {
        let n = |answer| sent.iter().filter(|sent| sent.answer == answer).count();
        Self {
            n_sent: sent.len(),
            n_succeeded: n(Answer::Success),
            n_over_limit: n(Answer::Held(By::Limit)),
            n_over_share: n(Answer::Held(By::Compartment)),
        }
    }
}
