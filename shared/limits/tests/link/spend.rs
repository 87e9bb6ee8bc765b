//! Calls whose executions can be counted: each takes one of a quota whose window lasts for longer than any test.

use std::time::Duration;

use cofferdam_limits::redis::link::{Link, LinkError};
use cofferdam_limits::redis::{Call, Dealing, Fleet, Op, Reply, Report, Script, Session, Window};
use cofferdam_model::{Alphabet, TenantId};

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A link that loses no call only because the machine is busy.
pub(crate) fn open(url: &str) -> Link {
    Link::open_with_timeout(url.parse().unwrap(), Script::sync(), PATIENCE)
}

/// The same, once it stands.
pub(crate) async fn connected(url: &str) -> Link {
    let link = open(url);
    if tokio::time::timeout(PATIENCE, link.connected()).await.is_err() {
        panic!("no connection within {PATIENCE:?}: {:?}", link.state());
    }
    link
}

pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| panic!("not within {PATIENCE:?}: {what}"))
}

/// Polls until something is so.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    within(what, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

/// Takes one of a tenant's.
pub(crate) async fn spend(link: &Link, tenant: &str) -> Result<(), LinkError> {
    let call = call(tenant, 1);
    let value = link.call(&call).await?;
    let replies = call.read(&value).unwrap();
    assert!(matches!(replies.ops[..], [Reply::Window(window)] if window.granted == 1), "{replies:?}");
    Ok(())
}

/// How many of a tenant's were taken.
pub(crate) async fn spent(link: &Link, tenant: &str) -> u64 {
    let call = call(tenant, 0);
    let value = link.call(&call).await.unwrap();
    let replies = call.read(&value).unwrap();
    let [Reply::Window(window)] = replies.ops[..] else { panic!("{replies:?}") };
    window.used
}

/// A call that takes so many of a tenant's.
pub(crate) fn call(tenant: &str, want: u32) -> Call {
    let fleet = Fleet::parse("f").unwrap();
    let tenant = TenantId::parse(tenant.as_bytes(), &Alphabet::default()).unwrap();
    let session = Session::parse("session1").unwrap();
    let mut builder = Call::builder(fleet.epoch(fleet.bucket(&tenant)), &session, Duration::from_secs(6));
    builder.op(&fleet.window(WINDOW_S, &tenant), quota(Report::Spent(0), want));
    builder.build().unwrap()
}

/// Until the year 2033.
pub(crate) const WINDOW_S: u32 = 1_000_000_000;

pub(crate) fn quota(report: Report, want: u32) -> Op {
    Op::Window(Window {
        window_s: WINDOW_S,
        limit: 100_000,
        report,
        want,
        min: want,
        dealing: Dealing::PLAIN,
    })
}
