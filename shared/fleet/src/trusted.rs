//! Networks whose peers are believed.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use crate::node::Node;

/// A list of networks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trusted(Vec<IpNet>);

/// Why text is not a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Not an address with a prefix length.
    #[error("{0:?} is not a network such as 10.0.0.0/8 or fd00::/8")]
    Syntax(String),
    /// A mistake in the address or in the prefix length: to guess which would trust the wrong peers.
    #[error("network {0} has bits set behind its prefix: expected {1}")]
    HostBits(IpNet, IpNet),
    /// An IPv4 network in IPv6 clothes.
    #[error("network {0} holds IPv4 addresses: expected an IPv4 network")]
    Mapped(IpNet),
}

impl Trusted {
    /// This machine alone: 127.0.0.0/8 and ::1.
    pub fn loopback() -> Self {
        let nets = ["127.0.0.0/8", "::1/128"];
        Self(nets.iter().filter_map(|net| net.parse().ok()).collect())
    }

    /// Whether a peer is in one of the networks. `::ffff:a.b.c.d` counts as the IPv4 address that it carries.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|net| net.contains(&peer))
    }

    pub(crate) fn read(node: &Node<'_>) -> Self {
        let items = node.filled_list("a list of networks such as 10.0.0.0/8");
        let read = |item: &Node<'_>| {
            let net = item.read("a network such as 10.0.0.0/8", network)?;
            if net.prefix_len() == 0 {
                item.mark.warn("every peer may say which tenant it is");
            }
            Some(net)
        };
        Self(items.iter().filter_map(read).collect())
    }
}

impl fmt::Display for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nets: Vec<_> = self.0.iter().map(IpNet::to_string).collect();
        f.write_str(&nets.join(", "))
    }
}

impl FromStr for Trusted {
    type Err = NetworkError;

    /// Reads networks with commas between them, as a flag gives them.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        text.split(',').map(|net| network(net.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let net: IpNet = text.parse().map_err(|_| NetworkError::Syntax(text.to_owned()))?;
    if net.trunc() != net {
        return Err(NetworkError::HostBits(net, net.trunc()));
    }
    match net {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => Err(NetworkError::Mapped(net)),
        _ => Ok(net),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted(nets: &[&str]) -> Trusted {
        Trusted(nets.iter().map(|net| network(net).unwrap()).collect())
    }

    #[test]
    fn a_mapped_peer_counts_as_the_ipv4_address_it_carries() {
        let trusted = trusted(&["10.0.0.0/8"]);
        assert!(trusted.trusts("10.1.2.3".parse().unwrap()));
        assert!(trusted.trusts("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!trusted.trusts("::ffff:11.1.2.3".parse().unwrap()));
        assert!(!trusted.trusts("::10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn a_flag_lists_networks_with_commas() {
        assert_eq!("10.0.0.0/8, fd00::/8".parse(), Ok(trusted(&["10.0.0.0/8", "fd00::/8"])));
        assert!("10.0.0.0/8,".parse::<Trusted>().is_err() && "".parse::<Trusted>().is_err());
    }

    #[test]
    fn loopback_is_both_families() {
        for peer in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(Trusted::loopback().trusts(peer.parse().unwrap()), "{peer}");
        }
        assert!(!Trusted::loopback().trusts("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn a_doubtful_network_is_refused() {
        let message = |text: &str| network(text).unwrap_err().to_string();
        assert_eq!(message("10.0.0.1"), "\"10.0.0.1\" is not a network such as 10.0.0.0/8 or fd00::/8");
        assert_eq!(
            message("10.0.0.1/8"),
            "network 10.0.0.1/8 has bits set behind its prefix: expected 10.0.0.0/8"
        );
        assert_eq!(
            message("::ffff:10.0.0.0/104"),
            "network ::ffff:10.0.0.0/104 holds IPv4 addresses: expected an IPv4 network"
        );
    }
}
