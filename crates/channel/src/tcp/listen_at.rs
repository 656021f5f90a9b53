//! Where sockets listen: `FERRULE_LISTEN`, `FERRULE_PORT_RANGE`; and where they can be called.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use sys::sock;

/// Connections that the kernel keeps for us until they are accepted.
const BACKLOG: i32 = 1024;

/// Reads a range of ports, `first-last`; empty stands for any, which is port 0.
pub fn ports_of(text: &str) -> Result<RangeInclusive<u16>, String> {
    if text.trim().is_empty() {
        return Ok(0..=0);
    }
    let (first, last) = text.split_once(['-', ':']).unwrap_or((text, text));
    match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(format!("FERRULE_PORT_RANGE={text} is not of the form first-last")),
    }
}

/// Listens at one address or at all of this host, at a port of `ports`, beginning with the `first`-th; where it can be called, addresses of the loopback interface last.
pub fn listen(
    only: Option<IpAddr>,
    ports: RangeInclusive<u16>,
    first: u32,
) -> io::Result<(TcpListener, Vec<SocketAddr>)> {
    let listener = sock::listen(only, ports, first, BACKLOG)?;
    let at = listener.local_addr()?;
    if only.is_some() {
        return Ok((listener, vec![at]));
    }
    let mut addresses = sock::local_addresses().unwrap_or_default();
    addresses.retain(|a| at.is_ipv6() || a.is_ipv4());
    Ok((listener, addresses.into_iter().map(|a| SocketAddr::new(a, at.port())).collect()))
}

/// The address of this host that `text` names, as in [`super::LISTEN`]; `None` for every address.
pub fn address_of(text: &str) -> Result<Option<IpAddr>, String> {
    match text.trim() {
        "" => Ok(None),
        name => {
            let here =
                sock::interface_addresses().map_err(|e| format!("cannot read the interfaces of this host: {e}"))?;
            find(name, &here).map(Some)
        }
    }
}

/// The first address of `here` that `name` names, one of IPv4 if there is any.
fn find(name: &str, here: &[(String, IpAddr)]) -> Result<IpAddr, String> {
    let network = network(name);
    let named = |(interface, address): &&(String, IpAddr)| match network {
        Some((network, bits)) => is_in(*address, network, bits),
        None => interface == name,
    };
    let mut found: Vec<IpAddr> = here.iter().filter(named).map(|(_, address)| *address).collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found.first().copied().ok_or_else(|| {
        let all: Vec<String> = here.iter().map(|(interface, address)| format!("{interface} {address}")).collect();
        format!("FERRULE_LISTEN={name} is no address, network or interface of this host, which has {}", all.join(", "))
    })
}

/// An address and how many of its bits count.
pub(super) fn network(text: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
    (bits <= most).then_some((address, bits))
}

/// Whether the first `bits` of an address are those of a network.
pub(super) fn is_in(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(n)) => (a.to_bits() ^ n.to_bits()).leading_zeros() >= bits,
        (IpAddr::V6(a), IpAddr::V6(n)) => (a.to_bits() ^ n.to_bits()).leading_zeros() >= bits,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_networks_and_interfaces_are_found() {
        let at = |interface: &str, text: &str| (interface.to_string(), text.parse().unwrap());
        let here = [at("eth0", "fd00::5"), at("eth0", "10.1.2.3"), at("ib0", "10.2.0.9"), at("lo", "127.0.0.1")];
        for (name, wanted) in [
            ("10.2.0.9", "10.2.0.9"),
            ("10.1.0.0/16", "10.1.2.3"),
            ("0.0.0.0/0", "10.1.2.3"),
            ("fd00::/8", "fd00::5"),
            ("fd00::5", "fd00::5"),
            ("eth0", "10.1.2.3"),
            ("lo", "127.0.0.1"),
        ] {
            assert_eq!(find(name, &here).unwrap().to_string(), wanted, "{name}");
        }
        for wrong in ["10.3.0.0/16", "10.2.0.8", "eth1", "10.1.2.3/33", "10.1.2.3/x", "/8"] {
            assert!(find(wrong, &here).unwrap_err().contains("ib0 10.2.0.9"), "{wrong}");
        }
    }

    #[test]
    fn port_ranges_are_read() {
        for (text, wanted) in
            [("", 0..=0), (" ", 0..=0), ("5000-5010", 5000..=5010), ("5000:5000", 5000..=5000), ("5000", 5000..=5000)]
        {
            assert_eq!(ports_of(text), Ok(wanted));
        }
        for wrong in ["5010-5000", "0-1", "x", "1-70000"] {
            assert!(ports_of(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn every_address_of_this_host_can_be_called() {
        let (listener, addresses) = listen(None, 0..=0, 0).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(addresses.contains(&SocketAddr::new([127, 0, 0, 1].into(), port)));
        for address in addresses {
            std::net::TcpStream::connect(address).unwrap();
        }
    }

    #[test]
    fn every_address_is_none() {
        assert_eq!(address_of(" ").unwrap(), None);
        assert_eq!(address_of("127.0.0.0/8").unwrap(), Some([127, 0, 0, 1].into()));
        assert!(address_of("no such").is_err());
    }
}
