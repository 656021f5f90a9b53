//! A connection that is not introduced yet: the handshake of [`super::hello`] over a non-blocking socket.
//!
//! ```text
//! dialled:  Connecting ─► AwaitChallenge ─► Proposed ─(prove)─► AwaitAnswer ─► Open
//! accepted: AwaitHello ─► AwaitProof ─► Proposed ─(accept)─► Open
//! ```
//! A proposed connection waits for the coordinator, which keeps one of several to the same peer. Messages of the handshake
//! are so small that a fresh socket takes them whole; one that doesn't is given up.

use super::hello::{
    self, ANSWER_BYTES, CHALLENGE_BYTES, HELLO_BYTES, Identity, LinkId, PROOF_BYTES, Stranger, Terms, Verdict,
};
use super::record::Seals;
use super::security::Security;
use super::stream::Stream;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use sys::sock::{self, Piece};

/// Why a handshake came to nothing.
#[derive(Debug)]
pub enum Failure {
    /// The other end is not who it should be.
    Stranger(Stranger),
    /// The network says no.
    Network(String),
    /// Nobody listens there.
    Refused(String),
}

/// How far a handshake is.
#[derive(Debug)]
pub enum Progress {
    /// It waits for the other end.
    Waiting,
    /// Both ends could agree: see [`Pending::settle`].
    Proposed(LinkId),
    /// Frames may travel.
    Open(LinkId),
    /// The peer has no use for a connection any more.
    Over(LinkId),
    /// It has failed.
    Failed(Failure),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Connecting,
    AwaitChallenge,
    AwaitHello,
    AwaitProof,
    Proposed,
    AwaitAnswer,
}

/// A connection in its handshake.
pub struct Pending {
    stream: TcpStream,
    /// The other end's address.
    pub address: SocketAddr,
    /// The link for which it was dialled; for accepted connections, the one that it claims to be for.
    pub link: Option<LinkId>,
    /// Whether this side dialled.
    pub dialled: bool,
    /// When it is given up.
    pub deadline: Instant,
    phase: Phase,
    hello: [u8; HELLO_BYTES],
    /// The listener's.
    nonce: [u8; 16],
    /// What the other end says about the link, once it has proven who it is.
    pub terms: Terms,
    input: [u8; HELLO_BYTES],
    have: usize,
}

impl Pending {
    /// The peer of `link` is being dialled at `address`.
    pub fn dialled(id: &Identity, stream: TcpStream, link: LinkId, address: SocketAddr, deadline: Instant) -> Pending {
        let hello = hello::hello(id, link, &sys::process::random());
        Pending::new(stream, address, Phase::Connecting, deadline, hello, Some(link))
    }

    /// Somebody has dialled us.
    pub fn accepted(stream: TcpStream, address: SocketAddr, deadline: Instant) -> Pending {
        Pending::new(stream, address, Phase::AwaitHello, deadline, [0; HELLO_BYTES], None)
    }

    fn new(
        stream: TcpStream,
        address: SocketAddr,
        phase: Phase,
        deadline: Instant,
        hello: [u8; HELLO_BYTES],
        link: Option<LinkId>,
    ) -> Pending {
        let dialled = phase == Phase::Connecting;
        let (nonce, terms, input) = ([0; 16], Terms::default(), [0; HELLO_BYTES]);
        Pending { stream, address, link, dialled, deadline, phase, hello, nonce, terms, input, have: 0 }
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether it waits to be writable rather than readable.
    pub fn awaits_writing(&self) -> bool {
        self.phase == Phase::Connecting
    }

    /// Whether both ends could agree.
    pub fn is_proposed(&self) -> bool {
        self.phase == Phase::Proposed
    }

    /// Whether this side has sent its proof: the peer may have accepted.
    pub fn is_proven(&self) -> bool {
        self.phase == Phase::AwaitAnswer
    }

    /// The stream of an open connection.
    pub fn into_stream(self, id: &Identity) -> Stream {
        if id.security == Security::None {
            return self.stream.into();
        }
        let secret = hello::secret(id, &self.hello, &self.nonce);
        Stream::sealed(self.stream, Seals::new(id.security, &secret, self.dialled))
    }

    /// Goes on as far as possible.
    pub fn advance(&mut self, id: &Identity) -> Progress {
        match self.step(id) {
            Ok(progress) => progress,
            Err(failure) => Progress::Failed(failure),
        }
    }

    fn step(&mut self, id: &Identity) -> Result<Progress, Failure> {
        if self.phase == Phase::Connecting {
            if !sock::wait_one(self.fd(), false, true, 0).map_err(network)? {
                return Ok(Progress::Waiting);
            }
            if let Some(error) = self.stream.take_error().map_err(network)? {
                return Err(network(error));
            }
            self.write(&self.hello)?;
            self.phase = Phase::AwaitChallenge;
        }
        match self.phase {
            Phase::Connecting | Phase::AwaitChallenge => {
                let Some(challenge) = self.read::<CHALLENGE_BYTES>()? else { return Ok(Progress::Waiting) };
                self.nonce = hello::check_challenge(id, &self.hello, &challenge).map_err(Failure::Stranger)?;
                self.phase = Phase::Proposed;
                self.proposed()
            }
            Phase::AwaitHello => {
                let Some(hello) = self.read::<HELLO_BYTES>()? else { return Ok(Progress::Waiting) };
                self.link = Some(hello::check_hello(id, &hello).map_err(Failure::Stranger)?);
                (self.hello, self.nonce) = (hello, sys::process::random());
                self.write(&hello::challenge(id, &hello, &self.nonce))?;
                hello::check_security(id, &hello).map_err(Failure::Stranger)?;
                self.phase = Phase::AwaitProof;
                Ok(Progress::Waiting)
            }
            Phase::AwaitProof => {
                let Some(proof) = self.read::<PROOF_BYTES>()? else { return Ok(Progress::Waiting) };
                self.terms = hello::check_proof(id, &self.hello, &self.nonce, &proof).map_err(Failure::Stranger)?;
                self.phase = Phase::Proposed;
                self.proposed()
            }
            Phase::Proposed => self.watch_end(),
            Phase::AwaitAnswer => {
                let Some(answer) = self.read::<ANSWER_BYTES>()? else { return Ok(Progress::Waiting) };
                let (verdict, terms) =
                    hello::check_answer(id, &self.hello, &self.nonce, &answer).map_err(Failure::Stranger)?;
                self.terms = terms;
                let link = self.link.ok_or(Failure::Stranger(Stranger::Garbage))?;
                Ok(if verdict == Verdict::Accepted { Progress::Open(link) } else { Progress::Over(link) })
            }
        }
    }

    fn proposed(&self) -> Result<Progress, Failure> {
        self.link.map(Progress::Proposed).ok_or(Failure::Stranger(Stranger::Garbage))
    }

    /// A proposed connection has nothing to say; all that can come is its end.
    fn watch_end(&mut self) -> Result<Progress, Failure> {
        match self.read::<1>()? {
            None => Ok(Progress::Waiting),
            Some(_) => Err(Failure::Stranger(Stranger::Garbage)),
        }
    }

    /// This connection is to be kept: sends the proof, or accepts, with our terms.
    pub fn settle(&mut self, id: &Identity, terms: Terms) -> Progress {
        if !self.dialled {
            return self.answer(id, Verdict::Accepted, terms);
        }
        if let Err(failure) = self.write(&hello::proof(id, &self.hello, &self.nonce, terms)) {
            return Progress::Failed(failure);
        }
        self.phase = Phase::AwaitAnswer;
        Progress::Waiting
    }

    /// Tells a peer that has proven itself what becomes of its connection.
    pub fn answer(&mut self, id: &Identity, verdict: Verdict, terms: Terms) -> Progress {
        match (self.write(&hello::answer(id, &self.hello, &self.nonce, verdict, terms)), self.link) {
            (Err(failure), _) => Progress::Failed(failure),
            (Ok(()), Some(link)) => Progress::Open(link),
            (Ok(()), None) => Progress::Failed(Failure::Stranger(Stranger::Garbage)),
        }
    }

    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        // SAFETY: the piece is a slice.
        match unsafe { sock::send(self.fd(), &[Piece::new(bytes.as_ptr(), bytes.len())]) } {
            Ok(n) if n == bytes.len() => Ok(()),
            Ok(_) => Err(Failure::Network("the socket takes nothing".into())),
            Err(error) => Err(network(error)),
        }
    }

    /// Reads a message of exactly `N` bytes, no byte more; `None` until it is complete.
    fn read<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Failure> {
        while self.have < N {
            let room = &mut self.input[self.have..N];
            let piece = Piece::new(room.as_mut_ptr(), room.len());
            // SAFETY: the piece is part of `input`, to which no reference is in use.
            match unsafe { sock::receive(self.stream.as_fd(), &[piece]) } {
                Ok(0) if self.have > 0 => return Err(Failure::Stranger(Stranger::Truncated)),
                Ok(0) => return Err(Failure::Stranger(Stranger::Left)),
                Ok(n) => self.have += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(network(e)),
            }
        }
        self.have = 0;
        Ok(self.input.first_chunk::<N>().copied())
    }
}

fn network(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused(error.to_string()),
        _ => Failure::Network(error.to_string()),
    }
}
