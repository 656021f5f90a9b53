//! Sockets of the tree: where a parent listens, how a child calls it, and the proof of the job key on both sides.

use crate::invite::Invite;
use crate::link::Link;
use crate::pollset::PollSet;
use crate::settings;
use base::log;
use channel::tcp::listen_at;
use protocol::control::handshake::{self, ANSWER, CHALLENGE, PROOF};
use protocol::control::sealed::Seals;
use protocol::control::tree::Launcher;
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Calls that the kernel keeps for a listener.
const BACKLOG: i32 = 1024;

/// Listens for node agents, at the address and on the ports that `launcher` allows; where to call.
pub fn listen(launcher: &Launcher) -> std::result::Result<(TcpListener, Vec<SocketAddr>), String> {
    let ports = settings::parse_ports(&launcher.ports)?;
    let only = listen_at::address_of(&launcher.listen)?;
    let failed = |e: Error| format!("cannot listen for node agents: {e}");
    let listener = sys::sock::listen(only, ports, 0, BACKLOG).map_err(failed)?;
    let at = listener.local_addr().map_err(failed)?;
    Ok((listener, if only.is_some() { vec![at] } else { own_addresses(at.port()) }))
}

/// Every address under which others may reach this host, those of the loopback interface last.
fn own_addresses(port: u16) -> Vec<SocketAddr> {
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

/// Calls the parent: all of its addresses, a little apart, then the launcher's stdio, then the addresses again until time is up.
pub fn call_parent(invite: &Invite) -> std::result::Result<Link, String> {
    let deadline = Instant::now() + Duration::from_secs(u64::from(invite.timeout_s));
    let mut pause = Duration::from_millis(100);
    let mut first_causes = None;
    loop {
        let first = first_causes.is_none();
        // Without a nonce there is nobody at the other end.
        let carried = first && invite.nonce != [0; 16] && stdio_is_usable();
        match call_any(invite, if carried { BEFORE_STDIO } else { PATIENCE }) {
            Ok(link) => return Ok(link),
            Err(causes) => first_causes.get_or_insert(causes),
        };
        if carried {
            return over_stdio(invite).map_err(|e| format!("standard input and output of the launcher: {e}"));
        }
        if Instant::now() + pause > deadline {
            break;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(2));
    }
    Err(format!("cannot reach the parent ({})", first_causes.unwrap_or_default()))
}

/// Between two attempts: an address whose packets vanish costs no more.
const STAGGER: Duration = Duration::from_millis(50);
/// After the last attempt, if the launcher's stdio is there as well.
const BEFORE_STDIO: Duration = Duration::from_millis(500);
/// After the last attempt, if there is no other way; also what a parent that has begun to talk may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// One address that is being called.
struct Attempt {
    address: SocketAddr,
    state: State,
}

enum State {
    /// Waits until the socket is writable.
    Connecting(TcpStream),
    /// Reads the parent's challenge, then its proof, which needs ours.
    Talking { stream: TcpStream, got: Vec<u8>, answer: Option<[u8; ANSWER]> },
    /// Has led nowhere.
    Failed(String),
}

/// Calls every address; the first that proves the key is the parent. Else what came of each.
fn call_any(invite: &Invite, patience: Duration) -> std::result::Result<Link, String> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut next_at = Instant::now();
    let mut set = PollSet::default();
    loop {
        let now = Instant::now();
        let alone = attempts.iter().all(|a| matches!(a.state, State::Failed(_)));
        if attempts.len() < invite.parents.len() && (now >= next_at || alone) {
            attempts.push(Attempt::new(invite.parents[attempts.len()]));
            next_at = now + STAGGER;
        }
        let talks = attempts.iter().any(|a| matches!(a.state, State::Talking { .. }));
        let all_begun = attempts.len() == invite.parents.len();
        // The last attempt began one stagger before `next_at`.
        let end = next_at - STAGGER + if talks { PATIENCE } else { patience };
        let all_failed = attempts.iter().all(|a| matches!(a.state, State::Failed(_)));
        if all_begun && (all_failed || now >= end) {
            return Err(attempts.iter().map(Attempt::describe).collect::<Vec<_>>().join("; "));
        }
        set.clear();
        set.until(if all_begun { end } else { next_at });
        attempts.iter().for_each(|a| a.register(&mut set));
        if all_failed && !all_begun {
            continue;
        }
        set.wait().map_err(|e| e.to_string())?;
        for at in 0..attempts.len() {
            if let Some((stream, seals)) = attempts[at].advance(invite, &set) {
                let others = attempts.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, a)| a.describe());
                let others = others.collect::<Vec<_>>().join("; ");
                if !others.is_empty() {
                    log!(Info, "reached the parent at {}; skipped {others}", attempts[at].address);
                }
                let link = prepare(&stream).and_then(|()| Link::over_socket(stream.into()));
                return link.map(|link| link.sealed(seals).first_is_due()).map_err(|e| e.to_string());
            }
        }
    }
}

impl Attempt {
    fn new(address: SocketAddr) -> Attempt {
        let state = sys::sock::connect(address).map_or_else(|e| State::Failed(e.to_string()), State::Connecting);
        Attempt { address, state }
    }

    fn describe(&self) -> String {
        let why = match &self.state {
            State::Connecting(_) => "no answer",
            State::Talking { got, .. } if got.is_empty() => "connected, but nobody speaks there",
            State::Talking { .. } => "the conversation stopped",
            State::Failed(why) => why,
        };
        format!("{}: {why}", self.address)
    }

    fn register(&self, set: &mut PollSet) {
        match &self.state {
            State::Connecting(stream) => set.add(stream, false, true),
            State::Talking { stream, .. } => set.add(stream, true, false),
            State::Failed(_) => {}
        }
    }

    /// Does what is possible; the stream and its seals, when the parent has proved to be it.
    fn advance(&mut self, invite: &Invite, set: &PollSet) -> Option<(TcpStream, Seals)> {
        match self.step(invite, set) {
            Ok(done) => done,
            Err(e) => {
                self.state = State::Failed(e.to_string());
                None
            }
        }
    }

    fn step(&mut self, invite: &Invite, set: &PollSet) -> Result<Option<(TcpStream, Seals)>> {
        match &mut self.state {
            State::Connecting(stream) if set.writable(&*stream) => {
                if let Some(e) = stream.take_error()? {
                    return Err(e);
                }
                // The socket is duplicated so that the state can be replaced; the first descriptor goes with it.
                let stream = stream.try_clone()?;
                self.state = State::Talking { stream, got: Vec::new(), answer: None };
                Ok(None)
            }
            State::Talking { stream, got, answer: answered } if set.readable(&*stream) => {
                let wanted = if answered.is_none() { CHALLENGE } else { CHALLENGE + PROOF };
                let mut bytes = [0; CHALLENGE + PROOF];
                // Not a byte more: what follows the proof is the link's.
                match stream.read(&mut bytes[..wanted - got.len()]) {
                    Ok(0) => return Err(Error::other("it hung up")),
                    Ok(n) => got.extend_from_slice(&bytes[..n]),
                    Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(e) => return Err(e),
                }
                let Some(challenge) = got.first_chunk::<CHALLENGE>().copied() else { return Ok(None) };
                let Some(sent) = answered else {
                    let words = answer(invite, &challenge)?;
                    stream.write_all(&words)?;
                    *answered = Some(words);
                    return Ok(None);
                };
                let Some(proof) = got[CHALLENGE..].first_chunk::<PROOF>() else { return Ok(None) };
                handshake::check_proof(invite.key, &challenge, sent, proof).map_err(|e| Error::other(e.origin))?;
                let seals = Seals::of_child(invite.key, &challenge, sent);
                stream.try_clone().map(|stream| Some((stream, seals)))
            }
            _ => Ok(None),
        }
    }
}

fn answer(invite: &Invite, challenge: &[u8; CHALLENGE]) -> Result<[u8; ANSWER]> {
    let mut nonce = [0; 16];
    sys::process::random(&mut nonce);
    handshake::answer(invite.key, challenge, invite.node, nonce).map_err(|e| Error::other(e.origin))
}

/// What every connection of the tree wants of TCP.
pub fn prepare(stream: &TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    match settings::NODE_TIMEOUT.value() {
        0 => Ok(()),
        seconds => sys::process::keep_alive(stream, seconds as i32),
    }
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
    let seals = Seals::of_child(invite.key, &challenge, &answer);
    Link::over(input.into(), output.into()).map(|link| link.sealed(seals).first_is_due())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invite(parents: Vec<SocketAddr>) -> Invite {
        Invite { node: 3, parents, key: handshake::Key([7; 16]), nonce: [0; 16], timeout_s: 5 }
    }

    /// A parent that takes one call; true if the caller has proved the key.
    fn parent() -> (SocketAddr, std::thread::JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&handshake::challenge([1; 16])).unwrap();
            let mut answer = [0; ANSWER];
            stream.read_exact(&mut answer).unwrap();
            let Ok((3, proof)) = handshake::check_answer(handshake::Key([7; 16]), [1; 16], &answer) else {
                return false;
            };
            stream.write_all(&proof).is_ok()
        });
        (address, served)
    }

    #[test]
    fn the_parent_is_found_behind_addresses_that_lead_nowhere() {
        // A port where nobody listens, somebody who never speaks, and one who speaks nonsense.
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let babbler = TcpListener::bind("127.0.0.1:0").unwrap();
        let babble = babbler.local_addr().unwrap();
        let babbling = std::thread::spawn(move || babbler.accept().map(|(mut s, _)| s.write_all(&[b'x'; 200])));
        let (right, served) = parent();
        let all = vec![closed, silent.local_addr().unwrap(), babble, right];
        assert!(call_any(&invite(all), PATIENCE).is_ok());
        assert!(served.join().unwrap());
        let _ = babbling.join();
    }

    #[test]
    fn each_address_is_named_when_none_answers() {
        let closed = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).unwrap();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let why = call_any(&invite(vec![closed, closed]), PATIENCE).err().unwrap();
        assert_eq!(why.matches("refused").count(), 2, "{why}");
        assert!(call_any(&invite(vec![]), PATIENCE).is_err());
        drop(silent);
    }

    #[test]
    fn this_host_is_local() {
        assert!(is_local("localhost"));
        assert!(is_local("127.0.0.1"));
        assert!(!is_local("192.0.2.1"));
        assert!(!is_local("no-such-host.invalid"));
        assert!(own_addresses(5).contains(&"127.0.0.1:5".parse().unwrap()));
    }
}
