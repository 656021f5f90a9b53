//! One rank as its agent sees it: process, control socket, output pipes.

use super::Agent;
use crate::pollset::PollSet;
use base::{Peer, log};
use protocol::control::frame::{self, Attached, Splitter};
use protocol::control::tree::{Message, Phase, ROOT};
use protocol::control::{Card, JobInfo, ToAgent, ToRank, decode};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};
use sys::process::{Ended, Pid};

use super::output::Stream;

/// Queued bytes above which a rank that doesn't read its control socket is given up, in bytes.
const QUEUE_LIMIT: usize = 64 << 20;

/// A message to a rank and the descriptors that go with its first byte.
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<Rc<OwnedFd>>,
}

/// The rank's control socket.
pub(super) struct Control {
    socket: OwnedFd,
    splitter: Splitter,
    fds: Attached<OwnedFd>,
    queue: VecDeque<Outgoing>,
    queued_bytes: usize,
    /// Too many descriptors of this user were in flight; try again then.
    stalled: Option<Instant>,
}

/// A rank.
pub struct Rank {
    /// World rank.
    pub world: u32,
    /// Process, which also leads its group.
    pub pid: Pid,
    /// How far it has come.
    pub phase: Phase,
    /// How it ended.
    pub ended: Option<Ended>,
    /// It called `MPI_Abort`.
    pub aborted: bool,
    /// What it registered.
    pub card: Option<(Card, Vec<Rc<OwnedFd>>)>,
    /// Number of programs that it has finalized.
    pub generation: u32,
    /// What a next program is told.
    pub info: Box<JobInfo>,
    pub(super) streams: [Stream; 2],
    control: Option<Control>,
}

impl Rank {
    /// A rank that has just been started.
    pub(super) fn new(info: Box<JobInfo>, pid: Pid, socket: OwnedFd, streams: [Stream; 2]) -> Rank {
        let control = Control {
            socket,
            splitter: Splitter::default(),
            fds: Attached::default(),
            queue: VecDeque::new(),
            queued_bytes: 0,
            stalled: None,
        };
        let mut rank = Rank {
            world: info.rank.0,
            pid,
            phase: Phase::Started {},
            ended: None,
            aborted: false,
            card: None,
            generation: 0,
            info,
            streams,
            control: Some(control),
        };
        rank.introduce();
        rank
    }

    fn introduce(&mut self) {
        let job = self.info.clone();
        self.send(&ToRank::Job { job }, Vec::new());
    }

    /// Queues a message and writes what can be written.
    pub fn send(&mut self, message: &ToRank, fds: Vec<Rc<OwnedFd>>) {
        let Some(control) = &mut self.control else { return };
        let bytes = frame::frame(message);
        control.queued_bytes += bytes.len();
        control.queue.push_back(Outgoing { bytes, sent: 0, fds });
        if control.flush().is_err() || control.queued_bytes > QUEUE_LIMIT {
            self.control = None;
        }
    }

    /// Forgets the control socket and the card's descriptors.
    pub fn close_control(&mut self) {
        self.control = None;
        self.card = None;
    }

    /// Registers with the loop.
    pub fn register(&self, set: &mut PollSet, output_open: bool) {
        if let Some(control) = &self.control {
            set.add(&control.socket, true, !control.queue.is_empty() && control.stalled.is_none());
            if let Some(when) = control.stalled {
                set.until(when);
            }
        }
        for stream in &self.streams {
            stream.register(set, output_open);
        }
    }

    /// Whether both output streams have ended.
    pub fn output_is_at_end(&self) -> bool {
        self.streams.iter().all(Stream::is_at_end)
    }

    fn control_ready(&self, set: &PollSet) -> bool {
        let due = |c: &Control| c.stalled.is_some_and(|when| when <= Instant::now());
        self.control.as_ref().is_some_and(|c| set.readable(&c.socket) || set.writable(&c.socket) || due(c))
    }

    /// The next message of the rank; closes the socket when it breaks the protocol or hangs up.
    fn next_message(&mut self) -> Option<(ToAgent, Vec<OwnedFd>)> {
        let control = self.control.as_mut()?;
        match control.next_message() {
            Ok(message) => message,
            Err(why) => {
                if let Some(why) = why {
                    log!(Warn, "rank {} broke the protocol on its control socket: {why}", self.world);
                }
                self.control = None;
                None
            }
        }
    }
}

impl Control {
    fn flush(&mut self) -> Result<(), ()> {
        self.stalled = None;
        while let Some(first) = self.queue.front_mut() {
            let fds: Vec<BorrowedFd<'_>> =
                if first.sent == 0 { first.fds.iter().map(|f| f.as_fd()).collect() } else { Vec::new() };
            match sys::fdpass::send(self.socket.as_fd(), &first.bytes[first.sent..], &fds, false) {
                Ok(n) => {
                    first.sent += n;
                    if first.sent == first.bytes.len() {
                        self.queued_bytes -= first.bytes.len();
                        self.queue.pop_front();
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) if sys::fdpass::too_many_in_flight(&e) => {
                    self.stalled = Some(Instant::now() + Duration::from_millis(1));
                    return Ok(());
                }
                Err(_) => return Err(()),
            }
        }
        Ok(())
    }

    /// `Err(None)` is the end of the stream.
    fn next_message(&mut self) -> Result<Option<(ToAgent, Vec<OwnedFd>)>, Option<&'static str>> {
        let mut bytes = [0; 16 << 10];
        loop {
            if let Some(body) = self.splitter.next_frame(frame::RANK_LIMIT).map_err(|e| Some(e.origin))? {
                let message: ToAgent = decode(body).map_err(|e| Some(e.origin))?;
                let fds = match &message {
                    ToAgent::Register { fd_count, .. } => {
                        self.fds.take(self.splitter.frame_start(), usize::from(*fd_count)).unwrap_or_default()
                    }
                    _ => Vec::new(),
                };
                return Ok(Some((message, fds)));
            }
            let mut fds = Vec::new();
            let received = sys::fdpass::recv(self.socket.as_fd(), &mut bytes, &mut fds, false);
            if let Ok(n) = &received {
                let start = self.splitter.position();
                self.fds.push(start..start + *n as u64, fds);
            }
            if self.fds.len() > 16 {
                return Err(Some("descriptors without a message"));
            }
            match received {
                Ok(0) => return Err(None),
                Ok(n) => self.splitter.feed(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(_) => return Err(None),
            }
        }
    }
}

impl Agent {
    pub(super) fn hear_ranks(&mut self, set: &PollSet) {
        for at in 0..self.ranks.len() {
            if self.ranks[at].control_ready(set) {
                if let Some(control) = &mut self.ranks[at].control
                    && control.flush().is_err()
                {
                    self.ranks[at].control = None;
                }
                self.hear_rank(at);
            }
        }
    }

    /// Takes every message that the rank has sent.
    pub(super) fn hear_rank(&mut self, at: usize) {
        while let Some((message, fds)) = self.ranks[at].next_message() {
            self.on_rank_message(at, message, fds);
        }
    }

    fn on_rank_message(&mut self, at: usize, message: ToAgent, fds: Vec<OwnedFd>) {
        let rank = &mut self.ranks[at];
        let world = rank.world;
        match message {
            ToAgent::Register { card, fd_count } => {
                if fds.len() < usize::from(fd_count) && !std::mem::replace(&mut self.short_of_files, true) {
                    log!(
                        Warn,
                        "open files are at their limit (ulimit -n): rank {world} and maybe others get no shared memory"
                    );
                }
                rank.card = Some((card, fds.into_iter().map(Rc::new).collect()));
                self.on_card(at);
            }
            ToAgent::Request { peer } => self.on_request(at, peer),
            ToAgent::Initialized {} => rank.phase = Phase::Initialized {},
            ToAgent::Finalize {} => {
                rank.phase = Phase::Finalized {};
                rank.card = None;
                rank.generation += 1;
                rank.send(&ToRank::Finalized {}, Vec::new());
                rank.introduce();
                self.cards.forget(Peer(world));
            }
            ToAgent::Barrier {} => self.on_barrier(world),
            ToAgent::Abort { code, text } => {
                rank.aborted = true;
                self.send_up(ROOT, Message::Aborted { rank: world, code, text });
            }
        }
    }
}
