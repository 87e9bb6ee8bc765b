//! Asks sentinels who the master is. Whom most of them name is believed: one that was cut off may name the old one for long.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use ::redis::{Value, cmd, from_redis_value};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

use super::connect::{ConnectError, Entry, connect};
use super::endpoint::Address;

/// How long one of them may take.
const PATIENCE: Duration = Duration::from_millis(300);

/// The sentinels of one service.
#[derive(Debug)]
pub(super) struct Sentinels {
    pub(super) addresses: Vec<Address>,
    pub(super) service: String,
    pub(super) entry: Entry,
}

impl Sentinels {
    /// Asks all of them at once.
    pub(super) async fn master(&self) -> Result<Address, ConnectError> {
        let mut answers: FuturesUnordered<_> =
            self.addresses.iter().map(|address| self.ask(address)).collect();
        let mut votes: HashMap<Address, usize> = HashMap::new();
        let mut reason = String::new();
        while let Some((sentinel, answer)) = answers.next().await {
            match answer {
                Ok(master) => {
                    let n_votes = votes.entry(master.clone()).or_default();
                    *n_votes += 1;
                    if *n_votes > self.addresses.len() / 2 {
                        return Ok(master);
                    }
                }
                Err(error) => reason = format!("{sentinel}: {error}"),
            }
        }
        let most_named = votes.into_iter().max_by_key(|(_, n_votes)| *n_votes);
        most_named
            .map(|(master, _)| master)
            .ok_or(ConnectError::NoMaster { service: self.service.clone(), reason })
    }

    async fn ask<'a>(&'a self, sentinel: &'a Address) -> (&'a Address, Result<Address, ConnectError>) {
        let answer = timeout(PATIENCE, self.master_of(sentinel)).await;
        (sentinel, answer.unwrap_or(Err(ConnectError::Late)))
    }

    async fn master_of(&self, sentinel: &Address) -> Result<Address, ConnectError> {
        let (mut connection, driver) = connect(sentinel, &self.entry).await?;
        let question = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service).to_owned();
        let answer = tokio::select! {
            biased;
            answer = connection.send_packed_command(&question) => answer?.extract_error()?,
            () = driver => return Err(ConnectError::Closed),
        };
        let unknown = || ConnectError::NoMaster {
            service: self.service.clone(),
            reason: format!("{sentinel} does not know it"),
        };
        if answer == Value::Nil {
            return Err(unknown());
        }
        let (host, port): (String, String) = from_redis_value(answer).map_err(|_| unknown())?;
        Ok(Address::Tcp { host, port: port.parse().map_err(|_| unknown())? })
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the master of {:?}", self.service)
    }
}
