//! A real Redis in a container for one test, where this machine has an engine. It knows no script and no key.

#![allow(dead_code, reason = "each binary of tests that includes this file has its own part of it")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use testcontainers::clients::Cli;
use testcontainers::{Container, GenericImage};

const NAME: &str = "redis";
const TAG: &str = "7-bookworm";

/// The longest that a server's start is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that runs until it is dropped.
pub(crate) struct RedisContainer {
    container: Container<'static, GenericImage>,
    password: String,
}

impl RedisContainer {
    /// A server that evicts nothing and keeps nothing; `None`, said past the test's captured output, where there is no
    /// engine to run it.
    pub(crate) fn start(test: &str) -> Option<Self> {
        if let Err(why) = has_engine() {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: there is no container engine ({why})");
            return None;
        }
        // Its port is open to whoever reaches this machine, for as long as the test runs.
        let password = format!("{:032x}", rand::random::<u128>());
        let image = GenericImage::new(NAME, TAG).with_exposed_port(6379);
        let arguments =
            ["redis-server", "--requirepass", &password, "--save", "", "--maxmemory-policy", "noeviction"];
        let container = client().run((image, arguments.map(str::to_owned).to_vec()));
        let server = Self { container, password };
        server.wait();
        Some(server)
    }

    /// Its address, as the client takes it.
    pub(crate) fn url(&self) -> String {
        let port = self.container.get_host_port_ipv4(6379);
        format!("redis://:{}@127.0.0.1:{port}", self.password)
    }

    /// A connection that blocks.
    pub(crate) fn connect(&self) -> ::redis::Connection {
        ::redis::Client::open(self.url()).unwrap().get_connection().unwrap()
    }

    /// Until it answers: the port is open before the server is.
    fn wait(&self) {
        let client = ::redis::Client::open(self.url()).unwrap();
        let ping =
            || -> ::redis::RedisResult<()> { ::redis::cmd("PING").exec(&mut client.get_connection()?) };
        let started = Instant::now();
        while let Err(error) = ping() {
            assert!(started.elapsed() < PATIENCE, "the container does not answer: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Whether there is an engine, found out once.
fn has_engine() -> Result<(), &'static str> {
    static ENGINE: OnceLock<Result<(), String>> = OnceLock::new();
    let ask = || {
        let output = Command::new("docker").arg("info").stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(why) }
    };
    ENGINE.get_or_init(ask).as_ref().copied().map_err(String::as_str)
}

/// The client, once the image is there.
fn client() -> &'static Cli {
    static CLIENT: OnceLock<Cli> = OnceLock::new();
    CLIENT.get_or_init(|| {
        let script = "deploy/offline-images.sh";
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let root = folders.into_iter().find(|folder| folder.join(script).exists()).unwrap();
        let made = Command::new(root.join(script)).arg(format!("{NAME}:{TAG}")).status().unwrap();
        assert!(made.success(), "there is no image of Redis: see {script}");
        Cli::default()
    })
}
