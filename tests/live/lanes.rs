//! Sends the requests of all lanes, each lane one after the other, and notes what became of them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::exact::{Outcome, Said};
use crate::pattern::Step;

/// The longest that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

type Clients = Client<HttpConnector, Empty<Bytes>>;

/// Where the routers are that take requests now. It may change while lanes run.
pub(crate) type Routers = Arc<Mutex<Vec<SocketAddr>>>;

/// Runs all lanes to their end. Requests of a lane are of one tenant, and lanes take the tenants in turn; one lane alone takes
/// them in turn with each request.
pub(crate) async fn run(lanes: Vec<Vec<Step>>, tenants: &[String], routers: &Routers) -> Vec<Outcome> {
    let clients: Clients = Client::builder(TokioExecutor::new()).build(connector());
    let outcomes = Arc::<Mutex<Vec<Outcome>>>::default();
    let mut running = JoinSet::new();
    for (lane, steps) in lanes.into_iter().enumerate() {
        let (clients, outcomes) = (clients.clone(), Arc::clone(&outcomes));
        let (tenants, routers) = (tenants.to_vec(), Arc::clone(routers));
        running.spawn(async move {
            for (nth, step) in steps.into_iter().enumerate() {
                sleep(step.pause).await;
                let address = {
                    let routers = routers.lock().unwrap();
                    routers[step.router % routers.len()]
                };
                let tenant = &tenants[(lane + nth) % tenants.len()];
                let sent = Instant::now();
                let said = timeout(PATIENCE, ask(&clients, address, tenant, step.hold)).await;
                let said = said.unwrap_or_else(|_| Said::Failed("no answer in time".to_owned()));
                let outcome = Outcome { router: step.router, sent, answered: Instant::now(), said };
                outcomes.lock().unwrap().push(outcome);
            }
        });
    }
    running.join_all().await;
    std::mem::take(&mut *outcomes.lock().unwrap())
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}

async fn ask(clients: &Clients, address: SocketAddr, tenant: &str, hold: Duration) -> Said {
    let request =
        Request::get(format!("http://{address}/{}", hold.as_millis())).header("x-tenant-id", tenant);
    let failed = |error: &dyn std::error::Error| Said::Failed(error.to_string());
    let answer = match clients.request(request.body(Empty::new()).unwrap()).await {
        Ok(answer) => answer,
        Err(error) => return failed(&error),
    };
    let status = answer.status().as_u16();
    let body = match answer.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return failed(&error),
    };
    let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
    let kind = problem["type"].as_str().unwrap_or_default();
    let kind = kind.rsplit(':').next().unwrap_or_default();
    let limits = ["tenant_rate", "tenant_concurrency", "route_rate", "fleet_rate", "fleet_concurrency"];
    match status {
        200 => Said::Admitted,
        _ if limits.contains(&kind) => Said::Refused,
        _ => Said::Failed(format!("{status} {kind}")),
    }
}
