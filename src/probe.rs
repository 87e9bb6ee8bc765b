//! `cofferdam probe`: asks a process of this machine whether it is ready, where there is no other client to ask with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::lasting;

/// Ask a process whether it is ready: exit code 0 where it is
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the process answers probes; where that is every interface, it is asked on loopback
    #[arg(long, env = "COFFERDAM_PROBE_LISTEN", default_value = "127.0.0.1:7002")]
    at: SocketAddr,

    /// What is asked for: /readyz, or /healthz for whether it lives at all
    #[arg(long, default_value = "/readyz")]
    path: String,

    /// How long the answer may take
    #[arg(long, default_value = "1s", value_parser = lasting::time)]
    timeout: Duration,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let url = format!("http://{}{}", reachable(args.at), args.path);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = reqwest::Client::builder().timeout(args.timeout).no_proxy().build()?;
        let answer = client.get(&url).send().await.with_context(|| format!("could not ask {url}"))?;
        let status = answer.status();
        let said = answer.text().await.unwrap_or_default();
        ensure!(status.is_success(), "{url} answers {status}: {}", said.trim_end());
        Ok(ExitCode::SUCCESS)
    })
}

/// An address to connect to, for one to listen on.
fn reachable(mut listen: SocketAddr) -> SocketAddr {
    match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listen.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => listen.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_on_every_interface_is_asked_on_loopback() {
        for (listen, asked) in [
            ("0.0.0.0:7002", "127.0.0.1:7002"),
            ("[::]:1", "[::1]:1"),
            ("127.0.0.2:7002", "127.0.0.2:7002"),
            ("10.1.2.3:80", "10.1.2.3:80"),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
