//! From the first byte to an open connection: listening, dialling, handshakes, and which of several connections stays.

use super::dial::{Dial, Step};
use super::hello::{Identity, Stranger};
use super::pending::{Failure, Pending, Progress};
use super::{
    Conn, DIRECT_MAX, Net, NetEvent, PORT_RANGE, State, TCP_CONNECT_TIMEOUT_MS, TCP_HALF_OPEN_MAX,
    TCP_HELLO_TIMEOUT_MS, TCP_KEEPALIVE_S, TCP_RECEIVE_BUFFER, TCP_SEND_BUFFER, TCP_USER_TIMEOUT_MS, TOKEN_CONN,
    TOKEN_INDEX, TOKEN_LISTENER, TOKEN_PENDING,
};
use base::{Peer, counters, log};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use sys::epoll::Interest;
use sys::sock::{self, Tuning};

/// Connections that the kernel keeps for us until they are accepted.
const BACKLOG: i32 = 1024;
/// How long listening pauses when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

fn parse_ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (low, high) = text.split_once(['-', ':']).unwrap_or((text, text));
    let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
    (low > 0 && low <= high).then_some(low..=high)
}

fn ports() -> RangeInclusive<u16> {
    match PORT_RANGE.value() {
        "" => 0..=0,
        text => parse_ports(text).unwrap_or_else(|| {
            log!(Warn, "FERRULE_PORT_RANGE={text} is not first-last; using any port");
            0..=0
        }),
    }
}

/// The listener, and the addresses at which it can be dialled.
pub(super) fn listen(id: &Identity, with_loopback: bool) -> io::Result<(TcpListener, Vec<SocketAddr>)> {
    let listener = sock::listen(ports(), id.me.0, BACKLOG)?;
    let at = listener.local_addr()?;
    let mut addresses = sock::local_addresses().unwrap_or_default();
    addresses.retain(|a| at.is_ipv6() || a.is_ipv4());
    // A host without a network can only run jobs of its own.
    if !with_loopback && addresses.iter().any(|a| !a.is_loopback()) {
        addresses.retain(|a| !a.is_loopback());
    }
    Ok((listener, addresses.into_iter().map(|a| SocketAddr::new(a, at.port())).collect()))
}

impl Net {
    /// Starts to dial `peer` if it isn't connected; the slot through which to send.
    pub fn dial(&mut self, peer: Peer, addresses: Vec<SocketAddr>) -> u32 {
        let index = self.slot_of(peer);
        let slot = &mut self.slots[index as usize];
        if matches!(slot.state, State::Idle) && slot.dial.is_none() {
            let now = Instant::now();
            let deadline = now + Duration::from_millis(TCP_CONNECT_TIMEOUT_MS.value());
            slot.dial = Some(Box::new(Dial::new(addresses, now, deadline)));
            self.timed += 1;
            self.dial_on(index, now);
        }
        index
    }

    /// Does what the plan for dialling a peer says.
    pub(super) fn dial_on(&mut self, index: u32, now: Instant) {
        loop {
            let slot = &mut self.slots[index as usize];
            let Some(dial) = &mut slot.dial else { return };
            match dial.step(now) {
                Step::Wait => return,
                Step::GiveUp => return self.give_up(index),
                Step::Attempt(address) => {
                    let deadline = now + Duration::from_millis(TCP_HELLO_TIMEOUT_MS.value());
                    match Pending::dial(&self.id, slot.peer, address, deadline) {
                        Ok(pending) => self.watch(pending),
                        Err(error) => dial.failed(address, error.to_string(), now),
                    }
                }
            }
        }
    }

    /// No address has answered in time.
    pub(super) fn give_up(&mut self, index: u32) {
        if let Some(parked) = self.slots[index as usize].parked.take() {
            self.stop_dialling(index, None);
            return self.settle(parked);
        }
        let slot = &mut self.slots[index as usize];
        let tried = slot.dial.as_ref().map(|d| d.describe()).unwrap_or_default();
        let why = format!("it can't be reached ({tried}; FERRULE_TCP_CONNECT_TIMEOUT_MS)");
        slot.state = State::Lost;
        let peer = slot.peer;
        self.stop_dialling(index, None);
        self.events.push_back(NetEvent::Lost(peer, why));
    }

    /// Ends our own attempts to reach a peer, but for handshake `keep`.
    fn stop_dialling(&mut self, index: u32, keep: Option<usize>) {
        let slot = &mut self.slots[index as usize];
        if slot.dial.take().is_some() {
            self.timed -= 1;
        }
        let peer = slot.peer;
        for at in 0..self.pendings.len() {
            let ours = self.pendings[at].as_ref().is_some_and(|p| p.dialled && p.peer == Some(peer));
            if ours && keep != Some(at) {
                self.drop_pending(at);
            }
        }
    }

    /// Drops everything that would lead to a connection with this slot's peer.
    pub(super) fn abandon(&mut self, index: u32) {
        self.stop_dialling(index, None);
        if let Some(parked) = self.slots[index as usize].parked.take() {
            self.drop_pending(parked);
        }
    }

    fn drop_pending(&mut self, at: usize) -> Option<Pending> {
        let pending = self.pendings.get_mut(at)?.take()?;
        self.handshakes -= 1;
        Some(pending)
    }

    fn watch(&mut self, pending: Pending) {
        let at = self.pendings.iter().position(Option::is_none).unwrap_or(self.pendings.len());
        let interest = if pending.awaits_writing() { Interest::WRITE } else { Interest::READ };
        if let Err(error) = self.epoll.add(pending.fd(), TOKEN_PENDING | at as u64, interest) {
            log!(Warn, "cannot watch a connection: {error}");
            return;
        }
        if at == self.pendings.len() {
            self.pendings.push(None);
        }
        self.pendings[at] = Some(pending);
        self.handshakes += 1;
    }

    /// Looks at listener, handshakes and timers, and notes which connections have something to read.
    pub(super) fn attend(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        let _ = self.epoll.wait(0, &mut ready);
        let direct = self.open.len() <= DIRECT_MAX;
        for found in &ready {
            let index = (found.token & TOKEN_INDEX) as usize;
            match found.token & !TOKEN_INDEX {
                TOKEN_LISTENER => self.accept(),
                TOKEN_PENDING => self.advance(index),
                TOKEN_CONN if !direct => self.readable.push(index as u32),
                _ => {}
            }
        }
        self.ready = ready;
        if self.handshakes > 0 || self.timed > 0 || self.paused_until.is_some() {
            self.on_time(Instant::now());
        }
    }

    fn on_time(&mut self, now: Instant) {
        for at in 0..self.pendings.len() {
            let Some(pending) = &self.pendings[at] else { continue };
            if now >= pending.deadline {
                self.fail(at, Failure::Stranger(Stranger::Silent));
            }
        }
        if self.timed > 0 {
            self.on_timers(now);
        }
        if self.paused_until.is_some_and(|t| now >= t)
            && let Some(listener) = &self.listener
        {
            self.paused_until = None;
            let _ = self.epoll.add(listener.as_fd(), TOKEN_LISTENER, Interest::READ);
        }
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match sock::accept(listener) {
                Ok((stream, address)) => {
                    self.make_room_for_one();
                    let deadline = Instant::now() + Duration::from_millis(TCP_HELLO_TIMEOUT_MS.value());
                    self.watch(Pending::accepted(stream, address, deadline));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // ECONNABORTED, or a peer that left before its address was asked for.
                Err(error) if matches!(error.raw_os_error(), Some(103 | 107 | 4)) => {}
                Err(error) => return self.pause(&error),
            }
        }
    }

    fn pause(&mut self, error: &io::Error) {
        if let Some(listener) = &self.listener {
            log!(Warn, "cannot accept connections for the moment: {error} (see ulimit -n)");
            let _ = self.epoll.remove(listener.as_fd());
            self.paused_until = Some(Instant::now() + PAUSE);
        }
    }

    /// The oldest unknown caller makes room if there are too many.
    fn make_room_for_one(&mut self) {
        let unknown = |p: &Pending| !p.dialled && !p.is_proposed();
        let count = self.pendings.iter().flatten().filter(|p| unknown(p)).count();
        if count < TCP_HALF_OPEN_MAX.value() as usize {
            return;
        }
        let candidates = self.pendings.iter().enumerate().filter_map(|(at, p)| p.as_ref().map(|p| (at, p)));
        let oldest = candidates.filter(|(_, p)| unknown(p)).min_by_key(|(_, p)| p.deadline).map(|(at, _)| at);
        if let Some(at) = oldest {
            self.fail(at, Failure::Stranger(Stranger::Crowd));
        }
    }

    fn advance(&mut self, at: usize) {
        let Some(Some(pending)) = self.pendings.get_mut(at) else { return };
        let awaited_writing = pending.awaits_writing();
        let progress = pending.advance(&self.id);
        if awaited_writing && !pending.awaits_writing() {
            let _ = self.epoll.modify(pending.fd(), TOKEN_PENDING | at as u64, Interest::READ);
        }
        self.on_progress(at, progress);
    }

    fn on_progress(&mut self, at: usize, progress: Progress) {
        match progress {
            Progress::Waiting => {}
            Progress::Proposed(peer) => self.propose(at, peer),
            Progress::Open(peer) => self.establish(at, peer),
            Progress::Failed(failure) => self.fail(at, failure),
        }
    }

    /// Both ends know each other: is this connection to be kept?
    fn propose(&mut self, at: usize, peer: Peer) {
        let index = self.slot_of(peer);
        let Some(Some(pending)) = self.pendings.get(at) else { return };
        let dialled = pending.dialled;
        let slot = &mut self.slots[index as usize];
        match slot.state {
            State::Idle if dialled => {
                let proven = |p: &Pending| p.is_proven() && p.peer == Some(peer);
                if !self.pendings.iter().flatten().any(proven) {
                    self.settle(at);
                }
            }
            // Both dial: the lower rank's connection is kept, so ours, unless it fails.
            State::Idle if slot.dial.is_some() && self.id.me < peer => {
                if let Some(older) = slot.parked.replace(at) {
                    self.drop_pending(older);
                }
            }
            State::Idle => self.settle(at),
            _ => {
                log!(Debug, "a second connection with rank {} is not needed", peer.0);
                self.drop_pending(at);
            }
        }
    }

    fn settle(&mut self, at: usize) {
        let Some(Some(pending)) = self.pendings.get_mut(at) else { return };
        let progress = pending.settle();
        self.on_progress(at, progress);
    }

    /// Names the addresses that were dialled in vain before one answered: a bridge of the peer's host, for example.
    fn tell_skipped(&self, index: u32, at: usize) {
        let slot = &self.slots[index as usize];
        if let (Some(dial), Some(Some(pending))) = (&slot.dial, self.pendings.get(at))
            && pending.dialled
        {
            let skipped = dial.describe_skipped(pending.address);
            if !skipped.is_empty() {
                log!(Info, "reached rank {} at {}; skipped {skipped}", slot.peer.0, pending.address);
            }
        }
    }

    /// The handshake is complete.
    fn establish(&mut self, at: usize, peer: Peer) {
        let index = self.slot_of(peer);
        self.tell_skipped(index, at);
        self.stop_dialling(index, Some(at));
        let Some(pending) = self.drop_pending(at) else { return };
        if let Some(parked) = self.slots[index as usize].parked.take() {
            self.drop_pending(parked);
        }
        let tuning = Tuning {
            user_timeout_ms: TCP_USER_TIMEOUT_MS.value() as u32,
            keepalive_s: TCP_KEEPALIVE_S.value() as u32,
            send_buffer_bytes: TCP_SEND_BUFFER.value() as u32,
            receive_buffer_bytes: TCP_RECEIVE_BUFFER.value() as u32,
        };
        let address = pending.address;
        let conn = Conn::new(pending.into_stream(), self.sizes);
        let token = TOKEN_CONN | u64::from(index);
        let ready = sock::tune(conn.fd(), &tuning).and_then(|()| self.epoll.modify(conn.fd(), token, Interest::READ));
        let slot = &mut self.slots[index as usize];
        if let Err(error) = ready {
            slot.state = State::Lost;
            self.events.push_back(NetEvent::Lost(peer, format!("{address}: {error}")));
            return;
        }
        counters::CONNECTIONS.add(1);
        log!(Debug, "connected with rank {} at {address}", peer.0);
        slot.state = State::Open(Box::new(conn));
        self.open.push(index);
    }

    /// A handshake came to nothing.
    fn fail(&mut self, at: usize, failure: Failure) {
        let Some(pending) = self.drop_pending(at) else { return };
        let parked_of = pending.peer.filter(|_| pending.is_proposed()).and_then(|p| self.by_peer.get(&p).copied());
        match parked_of {
            Some(index) if !pending.dialled => {
                let slot = &mut self.slots[index as usize];
                slot.parked = slot.parked.filter(|parked| *parked != at);
            }
            _ if pending.dialled => self.attempt_failed(&pending, failure),
            _ => self.turn_away(pending.address, failure),
        }
    }

    fn attempt_failed(&mut self, pending: &Pending, failure: Failure) {
        let why = match failure {
            Failure::Network(why) => why,
            Failure::Stranger(Stranger::Silent) => "no answer".into(),
            Failure::Stranger(Stranger::Left | Stranger::Truncated) => "the other end hung up".into(),
            Failure::Stranger(stranger) => format!("somebody else answers: {stranger}"),
        };
        let Some(index) = pending.peer.and_then(|p| self.by_peer.get(&p).copied()) else { return };
        let now = Instant::now();
        if let Some(dial) = &mut self.slots[index as usize].dial {
            dial.failed(pending.address, why, now);
            self.dial_on(index, now);
        }
        // Another address may have answered meanwhile.
        let waits = |p: &Pending| p.dialled && p.is_proposed() && p.peer == pending.peer;
        if let Some(other) = self.pendings.iter().position(|p| p.as_ref().is_some_and(waits))
            && let Some(peer) = pending.peer
        {
            self.propose(other, peer);
        }
    }

    /// A caller who is no peer: counted, and logged once per kind.
    fn turn_away(&mut self, address: SocketAddr, failure: Failure) {
        let Failure::Stranger(stranger) = failure else { return };
        if stranger == Stranger::Left {
            return log!(Debug, "a connection from {address} ended: {stranger}");
        }
        counters::PACKETS_REJECTED.add(1);
        let bit = 1 << stranger as u8;
        if stranger == Stranger::Misdirected {
            // An address that several hosts have, such as a container bridge's, leads peers astray; they try another one.
            log!(Info, "turned away a connection from {address}: {stranger}");
        } else if self.strangers_logged & bit == 0 {
            self.strangers_logged |= bit;
            log!(
                Warn,
                "turned away a connection from {address}: {stranger} (further ones of this kind are only counted)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_ranges_are_read() {
        assert_eq!(parse_ports("5000-5010"), Some(5000..=5010));
        assert_eq!(parse_ports("5000:5000"), Some(5000..=5000));
        assert_eq!(parse_ports("5000"), Some(5000..=5000));
        assert_eq!(parse_ports("5010-5000"), None);
        assert_eq!(parse_ports("0-1"), None);
        assert_eq!(parse_ports("x"), None);
    }
}
