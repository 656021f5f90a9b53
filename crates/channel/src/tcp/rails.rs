//! Rails: which of a host's network interfaces a link uses, when a pair of hosts is joined by several (decision 0034).
//!
//! A rail is a local address and an address of the peer in the same network. With two or more of them, links are dealt to rails, and each is dialled from its
//! rail's address and interface. With fewer, everything is as without rails. The choice is pure; what happens when a rail fails is in `health.rs`.

use super::{classes, listen_at};
use base::log;
use std::net::{IpAddr, SocketAddr};
use sys::sock::{self, Local};

base::config! {
    /// Network interfaces that are used at once for a peer: auto for those that have a network in common with it, but none of less than half the speed of the
    /// fastest; off; or a list of interfaces, addresses or networks of this host (eth1,10.2.0.0/16).
    RAILS: text = "auto";
    /// How long a rail may leave what was sent unanswered; then its links go over another one that answers.
    RAIL_TIMEOUT_MS: u64 = 2000, 100..=3600000, "ms";
}

/// An interface of this host.
#[derive(Clone, Debug)]
pub(super) struct Nic {
    interface: String,
    /// Its addresses, those of IPv4 first.
    addresses: Vec<Local>,
    /// How far it is from the processors of this process, as the kernel counts; 0 if it doesn't tell.
    distance: u32,
    /// Mbit/s, if it tells.
    speed: Option<u64>,
}

/// What joins this host and that of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rail {
    pub interface: String,
    pub local: IpAddr,
    pub remote: SocketAddr,
    distance: u32,
}

impl std::fmt::Display for Rail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} to {})", self.interface, self.local, self.remote.ip())
    }
}

/// The interfaces that may be rails, as the setting says.
pub(super) fn nics() -> Vec<Nic> {
    let wanted = RAILS.value().trim();
    if wanted == "off" {
        return Vec::new();
    }
    let here = sock::local_networks().unwrap_or_default();
    match wanted {
        "auto" => fast_ones(group(here.into_iter().filter(|local| !local.address.is_loopback()))),
        list => {
            let (named, missing) = named(list, &here);
            if !missing.is_empty() {
                log!(
                    Warn,
                    "FERRULE_RAILS={list}: this host has no interface, address or network {}",
                    missing.join(", ")
                );
            }
            group(named.into_iter())
        }
    }
}

/// The addresses that a list names, and the words of it that name none.
fn named(list: &str, here: &[Local]) -> (Vec<Local>, Vec<String>) {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let network = listen_at::network(word);
        let is_meant = |local: &&Local| match network {
            Some((network, bits)) => listen_at::is_in(local.address, network, bits),
            None => local.interface == word,
        };
        let before = found.len();
        found.extend(here.iter().filter(is_meant).cloned());
        if found.len() == before {
            missing.push(word.to_string());
        }
    }
    (found, missing)
}

fn group(addresses: impl Iterator<Item = Local>) -> Vec<Nic> {
    let mut nics: Vec<Nic> = Vec::new();
    for local in addresses {
        match nics.iter_mut().find(|nic| nic.interface == local.interface) {
            Some(nic) if nic.addresses.contains(&local) => {}
            Some(nic) => nic.addresses.push(local),
            None => nics.push(Nic {
                distance: distance(&local.interface),
                speed: classes::speed_of(&local.interface),
                interface: local.interface.clone(),
                addresses: vec![local],
            }),
        }
    }
    for nic in &mut nics {
        nic.addresses.sort_by_key(|local| (local.address.is_ipv6(), local.address));
    }
    nics
}

/// How far an interface is from the processors of this process.
fn distance(interface: &str) -> u32 {
    let read = |path: String| std::fs::read_to_string(path).ok();
    let node =
        read(format!("/sys/class/net/{interface}/device/numa_node")).and_then(|text| text.trim().parse::<usize>().ok());
    let (Some(node), Some(home)) = (node, sys::topology::home_node()) else { return 0 };
    let distances = read(format!("/sys/devices/system/node/node{home}/distance")).unwrap_or_default();
    distances.split_whitespace().nth(node).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Leaves out interfaces of less than half the speed of the fastest; one that tells no speed stays.
fn fast_ones(mut nics: Vec<Nic>) -> Vec<Nic> {
    let fastest = nics.iter().filter_map(|nic| nic.speed).max().unwrap_or(0);
    nics.retain(|nic| nic.speed.is_none_or(|speed| speed * 2 >= fastest));
    nics
}

/// The rails to a peer that listens at `remote`, at most one for each interface and for each of its addresses; none if there is only one.
pub(super) fn rails(nics: &[Nic], remote: &[SocketAddr]) -> Vec<Rail> {
    let mut free: Vec<SocketAddr> = remote.to_vec();
    free.sort();
    // An address that this host has itself leads to this host.
    free.retain(|there| !nics.iter().flat_map(|nic| &nic.addresses).any(|local| local.address == there.ip()));
    let mut nics: Vec<&Nic> = nics.iter().collect();
    // Networks are apart from each other, so both ends see them in the order of their own addresses.
    nics.sort_by_key(|nic| nic.addresses.first().map(|local| local.address));
    let mut found = Vec::new();
    for nic in nics {
        let joined = nic.addresses.iter().find_map(|local| {
            let at = free.iter().position(|there| listen_at::is_in(there.ip(), local.address, local.prefix))?;
            Some((local, free.remove(at)))
        });
        if let Some((local, remote)) = joined {
            let interface = nic.interface.clone();
            found.push(Rail { interface, local: local.address, remote, distance: nic.distance });
        }
    }
    if found.len() < 2 { Vec::new() } else { found }
}

/// The rail of the link `number` of a pair that has `links`: among the nearest if there are enough of them, else among all; pairs begin with each in turn.
pub(super) fn home(rails: &[Rail], number: usize, links: usize, pair: u64) -> usize {
    let nearest = rails.iter().map(|rail| rail.distance).min().unwrap_or(0);
    let near: Vec<usize> = (0..rails.len()).filter(|at| rails[*at].distance == nearest).collect();
    let turn = number + (pair % rails.len().max(1) as u64) as usize;
    if links <= near.len() { near[turn % near.len()] } else { turn % rails.len().max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(interface: &str, networks: &[&str], distance: u32) -> Nic {
        let addresses = networks.iter().map(|text| {
            let (address, prefix) = text.split_once('/').unwrap();
            Local { interface: interface.into(), address: address.parse().unwrap(), prefix: prefix.parse().unwrap() }
        });
        Nic { interface: interface.into(), addresses: addresses.collect(), distance, speed: None }
    }

    fn at(addresses: &[&str]) -> Vec<SocketAddr> {
        addresses.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 7)).collect()
    }

    fn pairs(nics: &[Nic], remote: &[&str]) -> Vec<(String, String)> {
        rails(nics, &at(remote))
            .into_iter()
            .map(|rail| (rail.local.to_string(), rail.remote.ip().to_string()))
            .collect()
    }

    #[test]
    fn rails_are_the_networks_in_common() {
        let nics = [
            nic("eth1", &["10.2.0.1/16", "fd00:2::1/64"], 0),
            nic("eth0", &["10.1.0.1/24"], 0),
            nic("eth2", &["fd00:3::1/64"], 0),
            nic("docker0", &["172.17.0.1/16"], 0),
        ];
        let wanted = [("10.1.0.1", "10.1.0.2"), ("10.2.0.1", "10.2.9.9"), ("fd00:3::1", "fd00:3::2")];
        let wanted = wanted.map(|(a, b)| (a.to_string(), b.to_string()));
        let remote = ["fd00:3::2", "fd00:2::2", "10.2.9.9", "172.17.0.1", "10.1.0.2", "192.168.0.1"];
        assert_eq!(pairs(&nics, &remote), wanted, "one for each interface, and none to an address of this host");
        assert!(pairs(&nics, &["10.1.0.2", "192.168.0.1"]).is_empty(), "one rail is none");
        assert!(pairs(&[], &["10.1.0.2"]).is_empty());
    }

    #[test]
    fn two_interfaces_in_one_network_meet_two_of_the_peer() {
        let ours = [nic("b", &["10.0.0.9/8"], 0), nic("a", &["10.0.0.1/8"], 0)];
        let theirs = [nic("x", &["10.0.0.2/8"], 0), nic("y", &["10.0.0.8/8"], 0)];
        let there = pairs(&theirs, &["10.0.0.9", "10.0.0.1"]);
        let swapped: Vec<_> = there.into_iter().map(|(a, b)| (b, a)).collect();
        assert_eq!(pairs(&ours, &["10.0.0.8", "10.0.0.2"]), swapped, "both sides make the same pairs");
    }

    #[test]
    fn links_are_dealt_to_rails() {
        let rails =
            rails(&[nic("a", &["10.1.0.1/16"], 10), nic("b", &["10.2.0.1/16"], 20)], &at(&["10.1.0.2", "10.2.0.2"]));
        assert_eq!([0, 1, 2, 3].map(|number| home(&rails, number, 4, 0)), [0, 1, 0, 1]);
        assert_eq!([0, 1].map(|number| home(&rails, number, 2, 3)), [1, 0], "pairs begin with each in turn");
        assert_eq!([0, 1, 2].map(|pair| home(&rails, 0, 1, pair)), [0; 3], "the nearest, if one is enough");
    }

    #[test]
    fn slow_interfaces_are_left_out() {
        let speeds = [Some(1000), Some(100_000), Some(50_000), None];
        let nics = speeds.map(|speed| Nic { speed, ..nic("x", &["10.0.0.1/8"], 0) });
        let left: Vec<_> = fast_ones(nics.into()).into_iter().map(|nic| nic.speed).collect();
        assert_eq!(left, [Some(100_000), Some(50_000), None]);
    }

    #[test]
    fn lists_name_interfaces_addresses_and_networks() {
        let here = ["10.1.0.1/16", "10.2.0.1/16", "10.3.0.1/16"].map(|text| nic("x", &[text], 0).addresses.remove(0));
        let [mut a, b, c] = here;
        a.interface = "ib0".into();
        let here = [a, b, c];
        let (found, missing) = named("10.3.0.1, ib0,10.2.0.0/16,eth7", &here);
        assert_eq!(found, [here[2].clone(), here[0].clone(), here[1].clone()]);
        assert_eq!(missing, ["eth7"]);
    }
}
