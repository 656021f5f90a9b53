//! How a peer that sleeps is woken.

use std::net::{SocketAddr, UdpSocket};
use std::rc::Rc;
use sys::wake::Bell;

/// The most addresses of a peer at which it is rung.
const ADDRESSES_MAX: usize = 4;

/// A way to wake a peer.
#[derive(Debug)]
pub(super) enum Waker {
    /// Under this kernel.
    Bell(Bell),
    /// Under another one of this host: an empty datagram to each of its addresses, as nobody can know which one leads there. It can get lost.
    Datagram(Rc<UdpSocket>, Vec<SocketAddr>),
}

impl Waker {
    /// To the peer that listens at these TCP addresses: its doorbell has the same port.
    pub(super) fn at(socket: &Rc<UdpSocket>, addresses: &[SocketAddr]) -> Waker {
        let is_v6 = socket.local_addr().is_ok_and(|a| a.is_ipv6());
        let fits = addresses.iter().filter(|a| is_v6 || a.is_ipv4()).take(ADDRESSES_MAX);
        let mapped = |a: &SocketAddr| match a {
            SocketAddr::V4(v4) if is_v6 => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
            other => *other,
        };
        Waker::Datagram(Rc::clone(socket), fits.map(mapped).collect())
    }

    /// Wakes the peer.
    pub(super) fn ring(&self) {
        match self {
            Waker::Bell(bell) => bell.ring(),
            // What doesn't arrive only makes the peer sleep a little longer.
            Waker::Datagram(socket, addresses) => {
                addresses.iter().for_each(|address| drop(socket.send_to(&[], address)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_reach_either_family() {
        for local in ["127.0.0.1:0", "[::]:0"] {
            let Ok(peer) = UdpSocket::bind("127.0.0.1:0") else { return };
            let Ok(own) = UdpSocket::bind(local) else { continue };
            let v6 = "[::1]:9".parse().unwrap();
            let waker = Waker::at(&Rc::new(own), &[v6, peer.local_addr().unwrap()]);
            waker.ring();
            peer.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
            assert_eq!(peer.recv(&mut [0; 8]).unwrap(), 0, "{local}");
        }
    }
}
