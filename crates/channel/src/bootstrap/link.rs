//! The socket between a rank and its node agent: whole messages, with the descriptors that come along.

use super::Event;
use base::{ContextId, Result, counters, ensure, fail, log};
use protocol::control::frame::{self, Attached, Splitter};
use protocol::control::{self, ToAgent, ToRank, VERSION};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The connection.
pub(super) struct Link {
    pub(super) socket: OwnedFd,
    splitter: Splitter,
    /// Descriptors whose message has not been taken yet.
    fds: Attached<OwnedFd>,
    /// Messages belong to the exchange of endpoints, and are counted as such.
    pub(super) exchanging: bool,
    /// Bytes of one read; kept, because zeroing it for each poll would take longer than the read.
    chunk: Vec<u8>,
    /// Whether this process exits when the agent says that the job is over. Otherwise it waits until its launcher ends it.
    pub(super) obeys_end: bool,
}

impl Link {
    pub(super) fn new(socket: OwnedFd) -> Link {
        Link {
            socket,
            splitter: Splitter::default(),
            fds: Attached::default(),
            chunk: vec![0; 16 << 10],
            exchanging: false,
            obeys_end: false,
        }
    }

    pub(super) fn write(&mut self, message: &ToAgent, fds: &[OwnedFd]) -> Result {
        let bytes = frame::frame(message);
        ensure!(bytes.len() <= frame::RANK_LIMIT, ERR_INTERN, "message to the node agent is too long");
        let deadline = Instant::now() + Duration::from_secs(10);
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            let fds = if sent == 0 { borrowed.as_slice() } else { &[] };
            match sys::fdpass::send(self.socket.as_fd(), &bytes[sent..], fds, true) {
                Ok(n) => sent += n,
                // Too many descriptors in flight: the agent is about to take some.
                Err(e) if sys::fdpass::too_many_in_flight(&e) && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => {
                    log!(Error, "cannot write to the node agent: {e}");
                    fail!(ERR_OTHER, "the node agent is gone");
                }
            }
        }
        counters::BOOTSTRAP_MESSAGES.add(1);
        if self.exchanging {
            counters::EXCHANGE_MESSAGES_SENT.add(1);
            counters::EXCHANGE_BYTES_SENT.add(bytes.len() as u64);
        }
        Ok(())
    }

    fn next_buffered(&mut self) -> Result<Option<ToRank>> {
        match self.splitter.next_frame(frame::TREE_LIMIT)? {
            Some(body) => {
                counters::BOOTSTRAP_MESSAGES.add(1);
                if self.exchanging {
                    counters::EXCHANGE_MESSAGES_RECEIVED.add(1);
                    counters::EXCHANGE_BYTES_RECEIVED.add((body.len() + frame::HEADER) as u64);
                }
                if let Some(version) = ToRank::foreign_version(body) {
                    log!(
                        Error,
                        "mpiexec speaks version {version} of the job protocol, this library {VERSION}: the mpiexec outside and the \
                         library inside of a container must come from one build"
                    );
                    fail!(ERR_OTHER, "mpiexec and the library are of different versions");
                }
                control::decode(body).map(Some)
            }
            None => Ok(None),
        }
    }

    fn fill(&mut self, limit: usize, wait: bool) -> Result<bool> {
        let mut fds = Vec::new();
        let limit = limit.min(self.chunk.len());
        let result = sys::fdpass::recv(self.socket.as_fd(), &mut self.chunk[..limit], &mut fds, wait);
        if let Ok(n) = &result {
            let start = self.splitter.position();
            self.fds.push(start..start + *n as u64, fds);
        }
        match result {
            Ok(0) => fail!(ERR_OTHER, "the node agent is gone"),
            Ok(n) => {
                self.splitter.feed(&self.chunk[..n]);
                Ok(true)
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => {
                log!(Error, "cannot read from the node agent: {e}");
                fail!(ERR_OTHER, "the node agent is gone");
            }
        }
    }

    pub(super) fn try_read(&mut self) -> Result<Option<ToRank>> {
        loop {
            if let Some(message) = self.next_buffered()? {
                return Ok(Some(message));
            }
            if !self.fill(usize::MAX, false)? {
                return Ok(None);
            }
        }
    }

    /// Blocks; takes no byte beyond the message.
    pub(super) fn read(&mut self) -> Result<ToRank> {
        loop {
            if let Some(message) = self.next_buffered()? {
                return Ok(message);
            }
            let missing = self.splitter.missing(frame::TREE_LIMIT)?;
            self.fill(missing, true)?;
        }
    }

    pub(super) fn event(&mut self, message: ToRank) -> Result<Option<Event>> {
        Ok(match message {
            ToRank::Address { peer, address, fd_count, far } => {
                let fds = self.fds.take(self.splitter.frame_start(), usize::from(fd_count)).unwrap_or_else(|| {
                    log!(Warn, "descriptors of rank {} got lost: open files are at their limit (ulimit -n)", peer.0);
                    Vec::new()
                });
                Some(Event::Address { peer, address: *address, fds, far })
            }
            ToRank::PeerGone { peer, host, why } => Some(Event::PeerGone { peer, host, why }),
            ToRank::Answer { number, answer } => Some(Event::Answer { number, answer }),
            ToRank::Revoked { context } => Some(Event::Revoked(ContextId::of_plane(context))),
            ToRank::Dump {} => Some(Event::Dump),
            ToRank::Served {} => Some(Event::Served),
            ToRank::WorkerAt { node, incarnation, tcp } => Some(Event::WorkerAt { node, incarnation, tcp }),
            ToRank::Epoch { order } => Some(Event::Epoch(order)),
            // The job is over; who is told so, rather than killed, has a launcher that goes by the exit codes of processes.
            ToRank::End { code } if self.obeys_end => sys::process::exit_now(code),
            ToRank::End { .. } => None,
            ToRank::BarrierDone {} | ToRank::Finalized {} => None,
            ToRank::Job { .. } => fail!(ERR_INTERN, "the node agent described the job twice"),
            ToRank::Table { .. } | ToRank::Entries { .. } | ToRank::Exchanged {} => {
                fail!(ERR_INTERN, "the node agent tells endpoints that nobody waits for")
            }
        })
    }

    /// Waits to be killed, or told to end.
    pub(super) fn await_end(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut fds =
            [sys::process::PollFd { fd: self.socket.as_raw_fd(), events: sys::process::READABLE, revents: 0 }];
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            let ready = sys::process::poll(&mut fds, left.as_millis() as i32).unwrap_or(0);
            if ready > 0 && !matches!(self.fill(usize::MAX, false), Ok(true)) {
                break;
            }
            while let Ok(Some(message)) = self.next_buffered() {
                if self.obeys_end && matches!(message, ToRank::End { .. }) {
                    return;
                }
            }
        }
    }
}
