//! A Redis of this program's own, and routers' stores on it.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{DEFAULT_TTL, Fleet, RedisStore, Script, Session, Sharing};
use cofferdam_limits::{Clock, Limits};
use tokio::runtime::Handle;

/// A server that ends with this program, and the runtime on which stores call it.
pub(crate) struct Server {
    child: Child,
    port: u16,
    calling: Handle,
}

/// One router's engine, and the store beneath it.
pub(crate) struct Router {
    pub(crate) limits: Limits,
    pub(crate) store: Arc<RedisStore>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut command = Command::new("redis-server");
        command.args(["--bind", "127.0.0.1", "--save", "", "--maxmemory-policy", "noeviction", "--port"]);
        let child = command.arg(port.to_string()).stdout(Stdio::null()).spawn().unwrap();
        let calling = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = Self { child, port, calling: calling.handle().clone() };
        std::thread::spawn(move || calling.block_on(std::future::pending::<()>()));
        // The first to come begins every slot's epoch; then the store learns for as long as a session lives.
        let first = server.router("warm");
        std::thread::sleep(DEFAULT_TTL + Duration::from_secs(1));
        drop(first);
        server
    }

    /// A router of two, connected.
    pub(crate) fn router(&self, name: &str) -> Router {
        let _entered = self.calling.enter();
        let link = Link::open(format!("redis://127.0.0.1:{}", self.port).parse().unwrap(), Script::sync());
        let begun = Instant::now();
        while !link.state().is_connected() {
            assert!(begun.elapsed() < Duration::from_secs(20), "Redis does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
        // A busy machine is no failure of the store.
        let budget = Duration::from_millis(100);
        let sharing = Sharing {
            routers: 2,
            budget,
            max_tenants: 1_000_000,
            ..Sharing::new(Fleet::parse("bench").unwrap())
        };
        let session = Session::parse(&format!("{name}0000000000")[..14]).unwrap();
        let store = Arc::new(RedisStore::start(sharing, link, session, Clock::suspending()));
        Router { limits: Limits::new(store.clone(), budget), store }
    }

    /// Bytes that Redis has in use.
    pub(crate) fn used_memory(&self) -> u64 {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let info: String = redis::cmd("INFO").arg("memory").query(&mut connection).unwrap();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.unwrap().trim().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
