//! Sockets of the tree: where a parent listens, how a child calls it, and the proof of the job key on both sides.

use crate::invite::Invite;
use crate::link::Link;
use protocol::control::handshake::{self, ANSWER, CHALLENGE, PROOF};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Listens on every address of this host, on the first free port of `ports`.
pub fn listen(ports: RangeInclusive<u16>) -> Result<TcpListener> {
    let mut last = Error::from(ErrorKind::AddrInUse);
    for port in ports {
        for any in ["[::]", "0.0.0.0"] {
            match TcpListener::bind(format!("{any}:{port}")) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return Ok(listener);
                }
                Err(e) => last = e,
            }
        }
    }
    Err(last)
}

/// Every address under which others may reach this host, those of the loopback interface last.
pub fn own_addresses(port: u16) -> Vec<SocketAddr> {
    let mut all = Vec::new();
    let trie = std::fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut last = None;
    for line in trie.lines() {
        if let Some(text) = line.trim_start().strip_prefix("|-- ") {
            last = text.trim().parse::<IpAddr>().ok();
        } else if line.contains("/32 host LOCAL") {
            all.extend(last);
        }
    }
    for line in std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default().lines() {
        let raw = line.split(' ').next().and_then(|hex| u128::from_str_radix(hex, 16).ok());
        // Link-local addresses mean nothing without an interface of the reader's.
        all.extend(raw.filter(|raw| raw >> 118 != 0xfe80 >> 6).map(|raw| IpAddr::V6(raw.into())));
    }
    all.push(IpAddr::from([127, 0, 0, 1]));
    all.sort_by_key(|ip| (ip.is_loopback(), ip.is_ipv6(), *ip));
    all.dedup();
    all.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
}

/// Whether `host` is this machine.
pub fn is_local(host: &str) -> bool {
    use std::net::{ToSocketAddrs, UdpSocket};
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    if host == "localhost" || host == own || own.split('.').next() == Some(host) {
        return true;
    }
    // An address to which a socket can be bound is one of ours.
    (host, 0).to_socket_addrs().is_ok_and(|mut all| all.any(|address| UdpSocket::bind(address).is_ok()))
}

/// Calls the parent: each of its addresses in turn, then the launcher's stdio, then the addresses again until time is up.
pub fn call_parent(invite: &Invite) -> std::result::Result<Link, String> {
    let deadline = Instant::now() + Duration::from_secs(u64::from(invite.timeout_s));
    let mut pause = Duration::from_millis(100);
    let mut causes = Vec::new();
    for round in 0.. {
        for address in &invite.parents {
            match call(invite, *address) {
                Ok(link) => return Ok(link),
                Err(e) if round == 0 => causes.push(format!("{address}: {e}")),
                Err(_) => {}
            }
        }
        if round == 0 && stdio_is_usable() {
            return over_stdio(invite).map_err(|e| format!("standard input and output of the launcher: {e}"));
        }
        if Instant::now() + pause > deadline {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(2));
    }
    Err(format!("cannot reach the parent ({})", causes.join("; ")))
}

fn call(invite: &Invite, address: SocketAddr) -> Result<Link> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut challenge = [0; CHALLENGE];
    stream.read_exact(&mut challenge)?;
    let answer = answer(invite, &challenge)?;
    stream.write_all(&answer)?;
    let mut proof = [0; PROOF];
    stream.read_exact(&mut proof)?;
    handshake::check_proof(invite.key, &challenge, &answer, &proof).map_err(|e| Error::other(e.origin))?;
    prepare(&stream)?;
    Link::over_socket(OwnedFd::from(stream))
}

fn answer(invite: &Invite, challenge: &[u8; CHALLENGE]) -> Result<[u8; ANSWER]> {
    let mut nonce = [0; 16];
    sys::process::random(&mut nonce);
    handshake::answer(invite.key, challenge, invite.node, nonce).map_err(|e| Error::other(e.origin))
}

/// What every connection of the tree wants of TCP.
pub fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(None)?;
    stream.set_nodelay(true)?;
    sys::process::keep_alive(stream, 15)
}

fn stdio_is_usable() -> bool {
    use std::io::IsTerminal;
    use std::os::fd::AsFd;
    let output = std::io::stdout();
    !output.is_terminal() && !std::io::stdin().is_terminal() && !sys::process::is_regular_file(output.as_fd())
}

fn over_stdio(invite: &Invite) -> Result<Link> {
    use std::os::fd::AsFd;
    let input = File::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(std::io::stdout().as_fd().try_clone_to_owned()?);
    let challenge = handshake::challenge(invite.nonce);
    let answer = answer(invite, &challenge)?;
    (&output).write_all(&answer)?;
    let mut proof = [0; PROOF];
    (&input).read_exact(&mut proof)?;
    handshake::check_proof(invite.key, &challenge, &answer, &proof).map_err(|e| Error::other(e.origin))?;
    Link::over(input.into(), output.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_local() {
        assert!(is_local("localhost"));
        assert!(is_local("127.0.0.1"));
        assert!(!is_local("192.0.2.1"));
        assert!(!is_local("no-such-host.invalid"));
        assert!(own_addresses(5).contains(&"127.0.0.1:5".parse().unwrap()));
    }
}
