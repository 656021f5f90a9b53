//! Ports of MPI (MPI-5.0, 11.9): where a process of one job waits for one of another, and what the two tell each other first.
//!
//! A port name is `ferrule-port:` with a random secret and the TCP addresses of a listener. Whoever has the name may connect, and nobody else: both
//! ends prove that they know the secret, and all that follows is sealed (`protocol::control::{handshake, sealed}`). The kernel keeps callers
//! until the process accepts them. Nothing here blocks.

use crate::tcp;
use base::{Result, ensure, fail, hex, log};
use protocol::control::frame::{self, Splitter, TREE_LIMIT};
use protocol::control::handshake::{Handshake, Key, Step, challenge};
use protocol::control::sealed::Seals;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};
use sys::sock;

/// Room for a port's name, with the terminating zero: `MPI_MAX_PORT_NAME` of the MPICH ABI, which is less than the standard's.
pub const MAX_PORT_NAME: usize = 256;

const PREFIX: &str = "ferrule-port:";
/// Between two addresses that are tried.
const STAGGER: Duration = Duration::from_millis(100);
/// What a caller says in place of a node's number.
const CALLER: u32 = u32::MAX;

/// A port that is open.
pub struct Port {
    listener: TcpListener,
    key: Key,
    name: String,
}

impl Port {
    /// Opens one.
    pub fn open() -> Result<Port> {
        let (listener, mut addresses) = match tcp::listen_for_jobs() {
            Ok(opened) => opened,
            Err(error) => {
                log!(Error, "cannot open a port: {error} (FERRULE_PORT_RANGE, FERRULE_LISTEN)");
                fail!(ERR_OTHER, "cannot listen for other jobs");
            }
        };
        // An address of the loopback interface may be somebody else's on the caller's host.
        addresses.sort_by_key(|address| address.ip().is_loopback());
        let key = Key(random());
        let name = name_of(key, &addresses);
        Ok(Port { listener, key, name })
    }

    /// Its name, for `MPI_Comm_connect`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next caller, if there is one. It has proven nothing yet.
    pub fn accept(&self) -> Result<Option<Meeting>> {
        match sock::accept(&self.listener) {
            Ok((stream, _)) => Ok(Some(Meeting::of_callee(stream, self.key))),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // A caller that has gone, or an interrupted call.
            Err(error) if matches!(error.raw_os_error(), Some(103 | 107 | 4)) => Ok(None),
            Err(error) => {
                log!(Error, "cannot accept a connection at a port: {error} (see ulimit -n)");
                fail!(ERR_OTHER, "cannot accept a connection at a port");
            }
        }
    }
}

fn name_of(key: Key, addresses: &[SocketAddr]) -> String {
    let mut name = format!("{PREFIX}{}", hex::encode(&key.0));
    for address in addresses.iter().map(|address| format!("@{address}")) {
        if name.len() + address.len() < MAX_PORT_NAME {
            name += &address;
        }
    }
    name
}

/// Secret and addresses of a port; none if it is no name of one.
fn parse(name: &[u8]) -> Option<(Key, Vec<SocketAddr>)> {
    let rest = str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
    let mut parts = rest.split('@');
    let secret = hex::decode(parts.next()?)?.try_into().ok()?;
    let addresses = parts.map(|address| address.parse().ok()).collect::<Option<Vec<SocketAddr>>>()?;
    Some((Key(secret), addresses)).filter(|(_, all)| !all.is_empty())
}

/// Calls a port: its addresses in turn, until one of them is that of the port.
pub struct Call {
    key: Key,
    untried: std::vec::IntoIter<SocketAddr>,
    next_at: Instant,
    connecting: Vec<(TcpStream, SocketAddr)>,
    why: String,
}

impl Call {
    /// Begins.
    pub fn begin(name: &[u8]) -> Result<Call> {
        let Some((key, addresses)) = parse(name) else { fail!(ERR_PORT, "this is not the name of a port") };
        Ok(Call {
            key,
            untried: addresses.into_iter(),
            next_at: Instant::now(),
            connecting: Vec::new(),
            why: String::new(),
        })
    }

    /// Whoever listens at one of the addresses; nothing has been proven. An error if nobody does, at any of them.
    pub fn poll(&mut self) -> Result<Option<Meeting>> {
        let now = Instant::now();
        if now >= self.next_at
            && let Some(address) = self.untried.next()
        {
            self.next_at = now + STAGGER;
            match sock::connect(address) {
                Ok(stream) => self.connecting.push((stream, address)),
                Err(error) => self.note(address, &error.to_string()),
            }
        }
        for at in 0..self.connecting.len() {
            if !sock::wait_one(self.connecting[at].0.as_fd(), false, true, 0).unwrap_or(true) {
                continue;
            }
            let (stream, address) = self.connecting.swap_remove(at);
            match stream.take_error() {
                Ok(None) => return Ok(Some(Meeting::of_caller(stream, self.key))),
                Ok(Some(error)) | Err(error) => self.note(address, &error.to_string()),
            }
            self.next_at = now;
            return Ok(None);
        }
        if self.connecting.is_empty() && self.untried.as_slice().is_empty() {
            log!(Info, "no port answers: {}", self.why);
            fail!(ERR_PORT, "nobody listens at the port: it is closed, or can't be reached from here");
        }
        Ok(None)
    }

    fn note(&mut self, address: SocketAddr, why: &str) {
        self.why += &format!("{address}: {why}; ");
    }

    /// Who was met is not the port: another address may be.
    pub fn failed(&mut self, why: &str) {
        self.why += &format!("{why}; ");
        self.next_at = Instant::now();
    }
}

enum Stage {
    Greeting(Handshake),
    Open(Box<Seals>),
}

/// A connection between the leaders of two groups that connect.
pub struct Meeting {
    stream: TcpStream,
    key: Key,
    stage: Stage,
    /// When the handshake is given up; the caller waits for as long as the callee lets it.
    deadline: Option<Instant>,
    output: Vec<u8>,
    /// Bytes of the handshake.
    input: Vec<u8>,
    splitter: Splitter,
}

impl Meeting {
    fn of_callee(stream: TcpStream, key: Key) -> Meeting {
        let nonce = random();
        let deadline = Instant::now() + Duration::from_millis(tcp::TCP_HELLO_TIMEOUT_MS.value());
        let output = challenge(nonce).to_vec();
        Meeting { output, ..Meeting::new(stream, key, Handshake::of_parent(nonce), Some(deadline)) }
    }

    fn of_caller(stream: TcpStream, key: Key) -> Meeting {
        Meeting::new(stream, key, Handshake::of_child(CALLER, random()), None)
    }

    fn new(stream: TcpStream, key: Key, handshake: Handshake, deadline: Option<Instant>) -> Meeting {
        let _ = sys::process::keep_alive(&stream, 30);
        let (stage, splitter) = (Stage::Greeting(handshake), Splitter::default());
        Meeting { stream, key, stage, deadline, output: Vec::new(), input: Vec::new(), splitter }
    }

    /// Whether the other end has proven that it knows the port's secret.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Sends bytes to the other end, which has proven itself.
    pub fn send(&mut self, body: &[u8]) -> Result {
        let Stage::Open(seals) = &mut self.stage else { fail!(ERR_INTERN, "the handshake of a port isn't over") };
        ensure!(!body.is_empty() && body.len() < TREE_LIMIT / 2, ERR_OTHER, "too many processes connect");
        let mut message = (body.len() as u32).to_le_bytes().to_vec();
        message.extend_from_slice(body);
        seals.seal(&message, &mut self.output);
        Ok(())
    }

    /// Whether the kernel has everything.
    pub fn is_flushed(&self) -> bool {
        self.output.is_empty()
    }

    /// What the other end says next. An error if it is gone, or is not who it should be.
    pub fn poll(&mut self) -> Result<Option<Vec<u8>>> {
        self.flush()?;
        loop {
            while let Some(step) = self.step()? {
                if let Some(body) = step {
                    return Ok(Some(body));
                }
            }
            if !self.fill()? {
                break;
            }
        }
        self.flush()?;
        let late = !self.is_open() && self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        ensure!(!late, ERR_PORT, "who has called the port says nothing (FERRULE_TCP_HELLO_TIMEOUT_MS)");
        Ok(None)
    }

    fn flush(&mut self) -> Result {
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(n) => drop(self.output.drain(..n)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => fail!(ERR_PORT, "the other end of a port's connection is gone"),
            }
        }
        Ok(())
    }

    /// Reads what is there; false if nothing is.
    fn fill(&mut self) -> Result<bool> {
        let mut bytes = [0; 16 << 10];
        match self.stream.read(&mut bytes) {
            Ok(0) => fail!(ERR_PORT, "the other end of a port's connection is gone"),
            Ok(n) if self.is_open() => self.splitter.feed(&bytes[..n]),
            Ok(n) => self.input.extend_from_slice(&bytes[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => fail!(ERR_PORT, "the other end of a port's connection is gone"),
        }
        Ok(true)
    }

    /// One step with the bytes that are there: none if there are too few, else a message if it was one.
    fn step(&mut self) -> Result<Option<Option<Vec<u8>>>> {
        match &mut self.stage {
            Stage::Greeting(handshake) => {
                let taken = handshake.take(&self.input);
                self.input.drain(..taken);
                match handshake.step(|_| self.key)? {
                    Step::Wait => return Ok(None),
                    Step::Answer(answer) => self.output.extend_from_slice(&answer),
                    Step::Met(met) => {
                        self.output.extend_from_slice(&met.last);
                        self.stage = Stage::Open(Box::new(met.seals));
                        self.splitter.feed(&std::mem::take(&mut self.input));
                    }
                }
            }
            Stage::Open(seals) => {
                let Some(body) = self.splitter.next_frame(TREE_LIMIT)? else { return Ok(None) };
                let mut body = body.to_vec();
                seals.open(&mut body)?;
                return Ok(Some(Some(body)));
            }
        }
        Ok(Some(None))
    }
}

/// Random bytes, for the secret of a connection.
pub fn random() -> [u8; 16] {
    sys::process::random()
}

/// Sends as many bytes over a socket of the program as it receives, and waits for that; the socket stays open.
pub fn swap_words(fd: RawFd, mine: &[u8]) -> Result<Vec<u8>> {
    ensure!(fd >= 0, ERR_ARG, "this is not a socket");
    // SAFETY: the program has passed the descriptor for the time of this call; one that isn't open fails to be duplicated.
    let Ok(copy) = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned() else {
        fail!(ERR_ARG, "this is not a socket")
    };
    let mut stream = File::from(copy);
    let mut theirs = vec![0; mine.len()];
    let (mut sent, mut have) = (0, 0);
    while sent < mine.len() || have < theirs.len() {
        let ready = sock::wait_one(stream.as_fd(), true, sent < mine.len(), 1000);
        ensure!(ready.is_ok(), ERR_ARG, "the socket is broken");
        match stream.write(&mine[sent..]) {
            Ok(n) => sent += n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => fail!(ERR_OTHER, "the other end of the socket is gone"),
        }
        match stream.read(&mut theirs[have..]) {
            Ok(0) if have < theirs.len() => fail!(ERR_OTHER, "the other end of the socket is gone"),
            Ok(n) => have += n,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => fail!(ERR_OTHER, "the other end of the socket is gone"),
        }
    }
    Ok(theirs)
}

/// Length of a frame's header, which [`Meeting::send`] writes.
const _: () = assert!(frame::HEADER == 4);

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs both ends until each has got a message, or one fails.
    fn talk(a: &mut Meeting, b: &mut Meeting) -> Result<(Vec<u8>, Vec<u8>)> {
        let (mut from_a, mut from_b) = (None, None);
        let (mut a_said, mut b_said) = (false, false);
        loop {
            from_b = from_b.or(a.poll()?);
            from_a = from_a.or(b.poll()?);
            if a.is_open() && !std::mem::replace(&mut a_said, true) {
                a.send(b"from a")?;
            }
            if b.is_open() && !std::mem::replace(&mut b_said, true) {
                b.send(&vec![7; 1 << 20])?;
            }
            if let (Some(a), Some(b)) = (&from_a, &from_b) {
                return Ok((a.clone(), b.clone()));
            }
        }
    }

    fn meet(port: &Port, name: &str) -> (Meeting, Meeting) {
        let mut call = Call::begin(name.as_bytes()).unwrap();
        let caller = loop {
            if let Some(meeting) = call.poll().unwrap() {
                break meeting;
            }
        };
        loop {
            if let Some(callee) = port.accept().unwrap() {
                return (callee, caller);
            }
        }
    }

    #[test]
    fn who_has_the_name_may_connect() {
        let port = Port::open().unwrap();
        let (mut callee, mut caller) = meet(&port, port.name());
        let (a, b) = talk(&mut callee, &mut caller).unwrap();
        assert_eq!((a.as_slice(), b), (&b"from a"[..], vec![7; 1 << 20]));
    }

    #[test]
    fn who_has_a_wrong_secret_may_not() {
        let port = Port::open().unwrap();
        let digit = PREFIX.len();
        let other = if port.name().as_bytes()[digit] == b'0' { "1" } else { "0" };
        let mut wrong = port.name().to_string();
        wrong.replace_range(digit..=digit, other);
        let (mut callee, mut caller) = meet(&port, &wrong);
        assert!(talk(&mut callee, &mut caller).is_err());
    }

    #[test]
    fn a_closed_port_is_an_error() {
        let port = Port::open().unwrap();
        let name = port.name().to_string();
        drop(port);
        let mut call = Call::begin(name.as_bytes()).unwrap();
        let error = loop {
            match call.poll() {
                Ok(met) => assert!(met.is_none()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.class, base::Class::ERR_PORT);
    }

    #[test]
    fn names_are_checked() {
        let key = Key([0xab; 16]);
        let address: SocketAddr = "[fe80::1%3]:99".parse().unwrap();
        let name = name_of(key, &[address, "10.0.0.1:80".parse().unwrap()]);
        assert_eq!(parse(name.as_bytes()), Some((key, vec![address, "10.0.0.1:80".parse().unwrap()])));
        let many = vec![address; 500];
        assert!(name_of(key, &many).len() < MAX_PORT_NAME);
        for wrong in ["", "ferrule-port:", "ferrule-port:00@1.2.3.4:5", &name[1..], &format!("{name}@x"), &name[..45]] {
            assert!(Call::begin(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
