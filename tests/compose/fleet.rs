//! A fleet of containers under a name of its own, which goes with everything it has made when it is dropped.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::engine::{self, compose, must, run};
use crate::support::eventually;
use crate::support::metrics::scrape;
use crate::support::raw::{self, with_fields};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const EXE: &str = env!("CARGO_BIN_EXE_cofferdam");

/// What the names of projects and images of tests begin with; the number of the test's process follows.
const NAME: &str = "cofferdam-test-";

/// A fleet, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Fleet {
    name: String,
    /// A copy of `deploy`, whose files may be edited.
    folder: TempDir,
}

/// How many fleets this process has made.
static N_MADE: AtomicUsize = AtomicUsize::new(0);

/// Where a fleet is found on loopback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(crate) balancer: SocketAddr,
    pub(crate) routers: [PublishedRouter; 2],
}

/// Where one of its routers is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PublishedRouter {
    pub(crate) data: SocketAddr,
    pub(crate) probes: SocketAddr,
}

impl Fleet {
    /// Makes the images that are not there, and starts every container.
    pub(crate) fn up() -> Self {
        let fleet = Self::built();
        must(fleet.compose().args(["up", "--detach", "--no-build"]));
        fleet
    }

    /// Makes the images that are not there, and starts nothing.
    pub(crate) fn built() -> Self {
        sweep();
        must(&mut Command::new(format!("{ROOT}/deploy/offline-images.sh")));
        let nth = N_MADE.fetch_add(1, Ordering::SeqCst);
        let folder = tempfile::tempdir().unwrap();
        must(Command::new("cp").args(["-r", &format!("{ROOT}/deploy")]).arg(folder.path()));
        // The containers have another user.
        must(Command::new("chmod").args(["-R", "a+rX"]).arg(folder.path()));
        let fleet = Self { name: format!("{NAME}{}-{nth}", std::process::id()), folder };
        fleet.build();
        fleet
    }

    /// The image's name, which is the project's as well.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Puts an edited fleet file in the place of the one that the containers see, as an editor does.
    pub(crate) fn edit(&self, edit: impl FnOnce(&str) -> String) {
        let at = |name: &str| self.folder.path().join("deploy/compose").join(name);
        let text = std::fs::read_to_string(at("fleet.yaml")).unwrap();
        std::fs::write(at("next"), edit(&text)).unwrap();
        std::fs::rename(at("next"), at("fleet.yaml")).unwrap();
    }

    /// What a service's containers have logged.
    pub(crate) fn logs(&self, service: &str) -> String {
        must(self.compose().args(["logs", "--no-color", service]))
    }

    /// The health of a service's container, as the engine sees it.
    pub(crate) fn health(&self, service: &str) -> String {
        engine::health(&must(self.compose().args(["ps", "-q", service])))
    }

    /// The image of the binary under test. Where Debian 12 cannot run that, the image is built from source.
    fn build(&self) {
        let prebuilt = run(Command::new(format!("{ROOT}/deploy/image.sh")).args([EXE, &self.name]));
        if let Err(error) = prebuilt {
            eprintln!("{error}\nfrom source, then");
            let file = format!("{ROOT}/deploy/Dockerfile");
            must(Command::new("docker").args(["build", "-q", "-t", &self.name, "-f", &file, ROOT]));
        }
    }

    /// Waits until every part serves and knows of the others.
    pub(crate) async fn ready(&self) -> Published {
        let published = Published {
            balancer: self.published("balancer", 7000),
            routers: ["router-a", "router-b"].map(|router| PublishedRouter {
                data: self.published(router, 7000),
                probes: self.published(router, 7002),
            }),
        };
        for PublishedRouter { probes, .. } in published.routers {
            eventually("a router that knows four cells", async || {
                (serves(probes, "/readyz").await
                    && scrape(probes).await.sum("cofferdam_router_cell_up", &[]) == 4.0)
                    .then_some(())
            })
            .await;
        }
        eventually("a balancer that knows both routers", async || {
            serves(published.balancer, "/").await;
            for PublishedRouter { probes, .. } in published.routers {
                if scrape(probes).await.sum("cofferdam_router_requests_total", &["outcome=\"success\""])
                    == 0.0
                {
                    return None;
                }
            }
            Some(())
        })
        .await;
        published
    }

    /// Ends a service's container as a machine that loses its power.
    pub(crate) fn kill(&self, service: &str) {
        must(self.compose().args(["kill", service]));
    }

    /// Where a service's port is published.
    fn published(&self, service: &str, port: u16) -> SocketAddr {
        must(self.compose().args(["port", service, &port.to_string()])).parse().unwrap()
    }

    fn file(&self) -> String {
        let copy = self.folder.path().join("deploy/compose.yaml");
        copy.to_str().unwrap().to_owned()
    }

    fn compose(&self) -> Command {
        let mut command = compose();
        command.args(["--project-name", &self.name, "--file", &self.file()]);
        command.env("COFFERDAM_IMAGE", &self.name);
        // It is the counting that is tested, and not how fast a busy machine is.
        command.env("COFFERDAM_STORE_BUDGET", "2s");
        // The engine chooses every port.
        for port in ["PORT", "ROUTER_A_PORT", "ROUTER_A_PROBES", "ROUTER_B_PORT", "ROUTER_B_PROBES"] {
            command.env(format!("COFFERDAM_{port}"), "");
        }
        command
    }

    fn down(&self) {
        // Nobody waits for what would be drained.
        let _ = run(self.compose().arg("kill"));
        if let Err(error) = run(self.compose().args(["down", "--volumes", "--remove-orphans"])) {
            eprintln!("{error}");
        }
        let _ = run(Command::new("docker").args(["image", "rm", &self.name]));
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = run(self.compose().args(["logs", "--no-color", "--tail", "40"]));
            eprintln!("{}", logs.unwrap_or_else(|error| error));
        }
        self.down();
    }
}

/// Takes down what tests left behind that were killed.
fn sweep() {
    let label = "com.docker.compose.project";
    let (format, filter) = (format!("{{{{.Label \"{label}\"}}}}"), format!("label={label}"));
    let containers = ["ps", "--all", "--filter", &filter, "--format", &format];
    let images = ["image", "ls", "--format", "{{.Repository}}"];
    let listed = [&containers[..], &images].map(|arguments| must(Command::new("docker").args(arguments)));
    let names: BTreeSet<_> = listed.iter().flat_map(|listed| listed.lines()).collect();
    for name in names {
        let id = name.strip_prefix(NAME).map(|of| of.split('-').next().unwrap_or_default());
        if id.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let folder = tempfile::tempdir().unwrap();
            must(Command::new("cp").args(["-r", &format!("{ROOT}/deploy")]).arg(folder.path()));
            drop(Fleet { name: name.to_owned(), folder });
        }
    }
}

/// Whether a request there is answered by 200. A published port may accept connections before its container does, and
/// closes them then.
async fn serves(at: SocketAddr, path: &str) -> bool {
    if TcpStream::connect(at).await.is_err() {
        return false;
    }
    let mut client = raw::Client::connect(at).await;
    let asked = client.try_send(with_fields("GET", path, "early", "connection: close\r\n")).await;
    asked.is_ok() && client.rest().await.starts_with(b"HTTP/1.1 200 ")
}
