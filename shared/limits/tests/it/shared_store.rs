//! The store in Redis as a subject of the contract: a real server, whose time is in the test's hand.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::redis::{Connection, cmd};
use cofferdam_limits::redis::link::Link;
use cofferdam_limits::redis::{Fleet, Mode, RedisStore, Script, Session, Sharing};
use cofferdam_limits::{LimitStore, ManualClock};
use cofferdam_model::TenantId;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::redis_container::RedisContainer;
use crate::redis_server::{RedisServer, begin_epochs};
use crate::subject::{START_US, Subject};

/// The runtime on which every store calls its server, in a thread of its own.
static CALLING: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    std::thread::spawn(move || runtime.block_on(std::future::pending::<()>()));
    handle
});

/// A server whose time is in the test's hand, and on which everybody's epoch began long ago.
pub(crate) struct HeldServer {
    pub(crate) clock: ManualClock,
    connection: Mutex<Connection>,
    server: Server,
    fleet: Fleet,
    /// How long a call waits for its answer, in the time of the machine: a busy one keeps answers back for a while, and that is
    /// no store that is away.
    patience: Duration,
}

/// Where a server runs: as a process of its test, or in a container that several fleets share.
enum Server {
    Process(RedisServer),
    Container(Arc<RedisContainer>),
}

/// One router's store, with a server of its own.
pub(crate) struct Shared {
    held: HeldServer,
    store: Arc<RedisStore>,
}

/// It asks for each request.
pub(crate) struct RedisExact(Shared);

/// It borrows in blocks.
pub(crate) struct RedisLease(Shared);

/// It asks for each request, in a container.
pub(crate) struct RedisInContainer(Shared);

/// The container that the contract runs over, for as long as it does, and how many fleets were there.
static CONTAINER: Mutex<Option<(Arc<RedisContainer>, u32)>> = Mutex::new(None);

/// Has [`RedisInContainer`] be in this one while `contract` runs.
pub(crate) fn within(container: RedisContainer, contract: impl FnOnce()) {
    *CONTAINER.lock() = Some((Arc::new(container), 0));
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(contract));
    // A static is never dropped, and the container would stay.
    *CONTAINER.lock() = None;
    ended.unwrap_or_else(|why| std::panic::resume_unwind(why));
}

impl Server {
    fn url(&self) -> String {
        match self {
            Self::Process(server) => server.url(),
            Self::Container(container) => container.url(),
        }
    }

    fn signal(&self, signal: impl FnOnce(&RedisServer)) {
        match self {
            Self::Process(server) => signal(server),
            Self::Container(_) => panic!("the container's server is others' as well"),
        }
    }
}

impl HeldServer {
    pub(crate) fn start() -> Self {
        let server = RedisServer::start();
        Self::on(server.connect(), Server::Process(server), Fleet::parse("f").unwrap())
    }

    /// One that is given up where it says nothing for a while.
    pub(crate) fn that_may_be_away() -> Self {
        Self { patience: Duration::from_secs(2), ..Self::start() }
    }

    /// A fleet of its own on the server in the container.
    fn in_container() -> Self {
        let mut running = CONTAINER.lock();
        let (container, n_fleets) = running.as_mut().unwrap();
        *n_fleets += 1;
        let fleet = Fleet::parse(&format!("f{n_fleets}")).unwrap();
        Self::on(container.connect(), Server::Container(Arc::clone(container)), fleet)
    }

    fn on(mut connection: Connection, server: Server, fleet: Fleet) -> Self {
        begin_epochs(&mut connection, &fleet);
        let (clock, connection) = (ManualClock::at(START_US), Mutex::new(connection));
        let held = Self { clock, connection, server, fleet, patience: Duration::from_secs(600) };
        held.set_us(START_US);
        held
    }

    /// A router's store in this mode, as session `name`.
    pub(crate) fn open(&self, mode: Mode, name: &str) -> Arc<RedisStore> {
        self.open_for(cofferdam_limits::DEFAULT_TENANTS, mode, name)
    }

    /// The same, with room for so many tenants.
    pub(crate) fn open_for(&self, max_tenants: usize, mode: Mode, name: &str) -> Arc<RedisStore> {
        let _entered = CALLING.enter();
        let script = Script::with_clock(include_str!("clock_for_all.lua"));
        let link = Link::open_with_timeout(self.server.url().parse().unwrap(), script, self.patience);
        connected(link.clone());
        let budget = Duration::from_secs(600);
        let sharing = Sharing { mode, budget, routers: 2, max_tenants, ..Sharing::new(self.fleet.clone()) };
        let session = Session::parse(name).unwrap();
        Arc::new(RedisStore::start(sharing, link, session, self.clock.clone().into()))
    }

    pub(crate) fn set_us(&self, now_us: u64) {
        cmd("SET").arg("clock").arg(now_us).exec(&mut self.connection.lock()).unwrap();
        self.clock.set_us(now_us);
    }

    /// Has a call of `session` for the tenant's permits overtake all that it makes from now on.
    pub(crate) fn overtake(&self, tenant: &TenantId, session: &str) {
        let (key, ends_us) = (self.fleet.permits(tenant), self.clock.now_us() + 6_000_000);
        let field = format!("0:{ends_us}:{}", 1_u64 << 50);
        cmd("HSET").arg(key.as_str()).arg(session).arg(field).exec(&mut self.connection.lock()).unwrap();
    }

    /// How many routers hear what the session `name` is asked to return.
    pub(crate) fn n_hearing(&self, name: &str) -> usize {
        let channel = format!("{{{}:recall}}{name}", self.fleet);
        let mut asked = cmd("PUBSUB");
        let (_, n): (String, usize) =
            asked.arg("NUMSUB").arg(channel).query(&mut self.connection.lock()).unwrap();
        n
    }

    /// Nobody may send or hear messages any more.
    pub(crate) fn deafen(&self) {
        let mut set = cmd("ACL");
        set.arg("SETUSER").arg("default").arg("resetchannels").exec(&mut self.connection.lock()).unwrap();
    }

    /// When the permits of `session` end in the store.
    pub(crate) fn permits_end_us(&self, tenant: &TenantId, session: &str) -> u64 {
        let mut asked = cmd("HGET");
        asked.arg(self.fleet.permits(tenant).as_str()).arg(session);
        let field: String = asked.query(&mut self.connection.lock()).unwrap();
        field.split(':').nth(1).unwrap().parse().unwrap()
    }

    /// The level of a tenant's bucket, in parts of a token.
    pub(crate) fn level(&self, tenant: &TenantId) -> i64 {
        let mut asked = cmd("HGET");
        asked.arg(self.fleet.tokens(tenant).as_str()).arg("l").query(&mut self.connection.lock()).unwrap()
    }

    /// The server says nothing.
    pub(crate) fn pause(&self) {
        self.server.signal(RedisServer::pause);
    }

    /// And goes on.
    pub(crate) fn resume(&self) {
        self.server.signal(RedisServer::resume);
    }

    /// The server forgets everything but the time.
    pub(crate) fn wipe(&self) {
        let mut commands = ::redis::pipe();
        commands.atomic().cmd("FLUSHALL").ignore();
        commands.cmd("SET").arg("clock").arg(self.clock.now_us()).ignore();
        commands.exec(&mut self.connection.lock()).unwrap();
    }
}

/// Waits for the connection, from a thread that has no runtime.
fn connected(link: Link) {
    let (done, is_done) = std::sync::mpsc::channel();
    CALLING.spawn(async move {
        link.connected().await;
        done.send(()).unwrap();
    });
    is_done.recv().unwrap();
}

impl Shared {
    fn new(held: HeldServer, mode: Mode) -> Self {
        let store = held.open(mode, "contract");
        Self { held, store }
    }
}

macro_rules! subject {
    ($name:ident, $held:expr, $mode:expr) => {
        impl Subject for $name {
            const N_TRUTHS: u32 = 1;

            fn new() -> Self {
                Self(Shared::new($held, $mode))
            }

            fn store(&self) -> Arc<dyn LimitStore> {
                self.0.store.clone()
            }

            fn set_us(&self, now_us: u64) {
                // What was given back before is given back at that time.
                self.settle();
                self.0.held.set_us(now_us);
            }

            fn settle(&self) {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(self.0.store.settled());
            }
        }
    };
}

subject!(RedisExact, HeldServer::start(), Mode::Exact);
subject!(RedisLease, HeldServer::start(), Mode::Lease);
subject!(RedisInContainer, HeldServer::in_container(), Mode::Exact);
