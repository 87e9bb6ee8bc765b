//! The stage: addresses, fleet files, and the processes of one fleet at a time, started from this executable. It knows
//! the command lines of a cell and of a router, and nothing of the load.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use cofferdam_model::TenantId;
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep, timeout_at};

use super::fleet_file::{self, BadTenants, CellAddress, Layout, cell_id};
use super::processes::{Processes, Program};
use super::tenants;

/// How many cells the fleet has.
const N_CELLS: usize = 8;

/// How long after its death a cell is started again.
pub(crate) const RESTART_AFTER: Duration = Duration::from_secs(2);

/// How long a process may take until it is ready.
const MAX_START: Duration = Duration::from_secs(30);

/// Where a router listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RouterAddress {
    /// For requests.
    pub(crate) data: SocketAddr,
    /// For operators.
    pub(crate) admin: SocketAddr,
    /// For probes and metrics.
    pub(crate) probe: SocketAddr,
}

/// Everything that outlives a fleet.
#[derive(Debug)]
pub(crate) struct Stage {
    exe: PathBuf,
    folder: PathBuf,
    cells: Vec<CellAddress>,
    router: RouterAddress,
    /// The bad tenants.
    pub(crate) bad: BadTenants,
    /// The tenants that may be hurt.
    pub(crate) tenants: Vec<TenantId>,
    _reserved: Vec<TcpSocket>,
}

impl Stage {
    /// Reserves addresses, finds the tenants, and writes the fleet files of all layouts into `folder`.
    pub(crate) fn build(folder: &Path) -> anyhow::Result<Self> {
        let (mut reserved, mut cells) = (Vec::new(), Vec::with_capacity(N_CELLS));
        for _ in 0..N_CELLS {
            cells.push(CellAddress { data: reserve(&mut reserved)?, probe: reserve(&mut reserved)? });
        }
        let [data, admin, probe] =
            [reserve(&mut reserved)?, reserve(&mut reserved)?, reserve(&mut reserved)?];
        let mut stage = Self {
            exe: std::env::current_exe().context("could not find this executable")?,
            folder: folder.to_owned(),
            cells,
            router: RouterAddress { data, admin, probe },
            bad: BadTenants { noisy: tenants::named("noisy")?, poisonous: tenants::named("poisonous")? },
            tenants: Vec::new(),
            _reserved: reserved,
        };
        // Only the table knows who the tenants are, and only then can their pins be written.
        stage.write(Layout::Shuffle)?;
        stage.tenants = tenants::walk(&tenants::placement(&stage.file(Layout::Shuffle))?)?;
        stage.write(Layout::Pool)?;
        stage.write(Layout::FixedPairs)?;
        stage.write(Layout::Guarded)?;
        Ok(stage)
    }

    /// The fleet file of a layout.
    pub(crate) fn file(&self, layout: Layout) -> PathBuf {
        self.folder.join(format!("{}.yaml", layout.as_str()))
    }

    /// Where the router of any fleet is.
    pub(crate) fn router(&self) -> RouterAddress {
        self.router
    }

    /// The tenants whose cells the poisonous one takes, all of them.
    pub(crate) fn covered(&self, layout: Layout) -> anyhow::Result<Vec<TenantId>> {
        let (placement, bad) = (tenants::placement(&self.file(layout))?, &self.bad.poisonous);
        Ok(match layout {
            Layout::Guarded => tenants::covered_by_home(&placement, &self.tenants, bad),
            _ => tenants::covered(&placement, &self.tenants, bad),
        })
    }

    /// The tenants that are watched: with a guard the poisonous one is too, since nothing but itself should be hurt.
    pub(crate) fn watched(&self, layout: Layout) -> Vec<TenantId> {
        let bad = (layout == Layout::Guarded).then_some(self.bad.poisonous);
        self.tenants.iter().copied().chain(bad).collect()
    }

    /// Starts the cells and then the router of a layout, and waits until all of them are ready.
    pub(crate) async fn start(&self, layout: Layout, processes: &mut Processes) -> anyhow::Result<()> {
        let client =
            reqwest::Client::builder().no_proxy().build().context("could not set up the HTTP client")?;
        let cells: Vec<_> = (0..self.cells.len()).map(|index| self.cell(layout, index)).collect();
        for cell in &cells {
            processes.start(cell.clone())?;
        }
        for (cell, address) in cells.iter().zip(&self.cells) {
            wait_until_ready(&client, cell, address.probe).await?;
        }
        let router = self.router_program(layout);
        processes.start(router.clone())?;
        wait_until_ready(&client, &router, self.router.probe).await
    }

    /// Waits until the poisonous tenant's second cell is ready again.
    pub(crate) async fn second_cell_is_back(&self, layout: Layout) -> anyhow::Result<()> {
        let placement = tenants::placement(&self.file(layout))?;
        let second = placement.place(&self.bad.poisonous).shard.cells().get(1).map_or(0, |cell| cell.get());
        let id = placement.cells()[second].as_str();
        let index = (0..N_CELLS).find(|index| cell_id(*index) == id).unwrap_or_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        wait_until_ready(&client, &self.cell(layout, index), self.cells[index].probe).await
    }

    fn write(&self, layout: Layout) -> anyhow::Result<()> {
        let text = fleet_file::text(layout, &self.cells, &self.bad, &self.tenants);
        let path = self.file(layout);
        std::fs::write(&path, text).with_context(|| format!("could not write {}", path.display()))
    }

    fn cell(&self, layout: Layout, index: usize) -> Program {
        let CellAddress { data, probe } = self.cells[index];
        let id = cell_id(index);
        let own = [
            "--cell",
            &id,
            "--listen",
            &data.to_string(),
            "--probe-listen",
            &probe.to_string(),
            "--allow-poison",
        ];
        self.program("cell", &id, layout, &own, Some(RESTART_AFTER))
    }

    fn router_program(&self, layout: Layout) -> Program {
        let RouterAddress { data, admin, probe } = self.router;
        let [data, admin, probe] = [data, admin, probe].map(|address| address.to_string());
        let own = ["--listen", &data, "--admin", &admin, "--probe-listen", &probe];
        self.program("router", "router", layout, &own, None)
    }

    fn program(
        &self,
        subcommand: &str,
        name: &str,
        layout: Layout,
        own: &[&str],
        restart_after: Option<Duration>,
    ) -> Program {
        let file = self.file(layout).display().to_string();
        // Where the demonstration is gone, nobody is left to drain for.
        let leaving = ["--until-stdin-closes", "--drain-grace", "0s", "--drain-deadline", "0s"];
        let shared = leaving.into_iter().chain(["--log", "warn"]);
        let arguments = [subcommand, "--fleet", &file].into_iter().chain(own.iter().copied()).chain(shared);
        Program {
            name: name.to_owned(),
            exe: self.exe.clone(),
            arguments: arguments.map(str::to_owned).collect(),
            log: self.folder.join(format!("{name}.log")),
            restart_after,
        }
    }
}

/// A free port of this machine that stays free for those who start to listen there: a bound socket that does not
/// listen takes no connections, keeps others from getting the port by chance while a cell is dead, and keeps the
/// kernel from using it for an outgoing connection.
fn reserve(reserved: &mut Vec<TcpSocket>) -> io::Result<SocketAddr> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    reserved.push(socket);
    Ok(address)
}

async fn wait_until_ready(
    client: &reqwest::Client,
    program: &Program,
    probe: SocketAddr,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + MAX_START;
    let ready = async {
        loop {
            let answer = client.get(format!("http://{probe}/readyz")).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    if timeout_at(deadline, ready).await.is_err() {
        bail!("{} was not ready within {MAX_START:?}{}", program.name, program.last_words());
    }
    Ok(())
}
