//! Sockets of the tree: where a parent listens, how a child calls it, and the proof of the job key on both sides.

use crate::invite::Invite;
use crate::link::Link;
use crate::pollset::PollSet;
use crate::settings;
use base::log;
use channel::handshake;
use channel::tcp::listen_at;
use protocol::control::handshake::{Handshake, challenge};
use protocol::control::sealed::Seals;
use protocol::control::tree::Launcher;
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Listens for node agents, at the address and on the ports that `launcher` allows; where to call.
pub fn listen(launcher: &Launcher) -> std::result::Result<(TcpListener, Vec<SocketAddr>), String> {
    let ports = listen_at::ports_of(&launcher.ports)?;
    let only = listen_at::address_of(&launcher.listen)?;
    listen_at::listen(only, ports, 0).map_err(|e| format!("cannot listen for node agents: {e}"))
}

/// Whether `host` is this machine.
pub fn is_local(host: &str) -> bool {
    use std::net::{ToSocketAddrs, UdpSocket};
    let own = sys::process::host_name();
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
    Talking(TcpStream, Handshake),
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
        let talks = attempts.iter().any(|a| matches!(a.state, State::Talking(..)));
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
            State::Talking(_, handshake) if handshake.is_silent() => "connected, but nobody speaks there",
            State::Talking(..) => "the conversation stopped",
            State::Failed(why) => why,
        };
        format!("{}: {why}", self.address)
    }

    fn register(&self, set: &mut PollSet) {
        match &self.state {
            State::Connecting(stream) => set.add(stream, false, true),
            State::Talking(stream, _) => set.add(stream, true, false),
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
                self.state = State::Talking(stream.try_clone()?, child(invite));
                Ok(None)
            }
            State::Talking(stream, handshake) if set.readable(&*stream) => {
                let met = handshake::drive(&*stream, &*stream, handshake, |_| invite.key)?;
                met.map(|met| Ok((stream.try_clone()?, met.seals))).transpose()
            }
            _ => Ok(None),
        }
    }
}

fn child(invite: &Invite) -> Handshake {
    Handshake::of_child(invite.node, sys::process::random())
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
    let mut child = child(invite);
    // The challenge has come with the invitation.
    child.take(&challenge(invite.nonce));
    let met = handshake::drive(&input, &output, &mut child, |_| invite.key)?.ok_or(ErrorKind::WouldBlock)?;
    Link::over(input.into(), output.into()).map(|link| link.sealed(met.seals).first_is_due())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::control::handshake::Key;
    use std::io::Write;

    fn invite(parents: Vec<SocketAddr>) -> Invite {
        Invite { node: 3, parents, key: Key([7; 16]), nonce: [0; 16], timeout_s: 5 }
    }

    /// A parent that takes one call; true if the caller has proved the key.
    fn parent() -> (SocketAddr, std::thread::JoinHandle<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&challenge([1; 16])).unwrap();
            let met = handshake::drive(&stream, &stream, &mut Handshake::of_parent([1; 16]), |_| Key([7; 16]));
            met.is_ok_and(|met| met.is_some_and(|met| met.node == 3 && stream.write_all(&met.last).is_ok()))
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
    }
}
