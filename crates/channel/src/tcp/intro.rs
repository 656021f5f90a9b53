//! From the first byte to a handshake: listening, dialling, and looking after both (which connection stays: `settle.rs`).

use super::dial::{Dial, Step};
use super::health::Health;
use super::hello::{LinkId, Stranger};
use super::listen_at;
use super::pending::{Failure, Pending};
use super::rails::{self, Rail};
use super::slot::{Slot, State};
use super::{
    DIRECT_MAX, LISTEN, Net, PORT_RANGE, TCP_CONNECT_TIMEOUT_MS, TCP_HALF_OPEN_MAX, TCP_HELLO_TIMEOUT_MS,
    TCP_RECONNECT, TCP_RECONNECT_TIMEOUT_MS, TOKEN_CONN, TOKEN_INDEX, TOKEN_LISTENER, TOKEN_PENDING,
};
use base::{Peer, log};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use sys::epoll::Interest;
use sys::sock;

/// How long listening pauses when there are no descriptors left.
const PAUSE: Duration = Duration::from_millis(200);

/// The listener, and the addresses at which it can be dialled.
pub(super) fn listen(first: u32, with_loopback: bool) -> io::Result<(TcpListener, Vec<SocketAddr>)> {
    let only = listen_at::address_of(LISTEN.value()).map_err(io::Error::other)?;
    let ports = listen_at::ports_of(PORT_RANGE.value()).unwrap_or_else(|why| {
        log!(Warn, "{why}; using any port");
        0..=0
    });
    let (listener, mut addresses) = listen_at::listen(only, ports, first)?;
    // A host without a network can only run jobs of its own.
    if !with_loopback && addresses.iter().any(|a| !a.ip().is_loopback()) {
        addresses.retain(|a| !a.ip().is_loopback());
    }
    Ok((listener, addresses))
}

impl Net {
    /// Starts to dial `peer` for each link that isn't connected; the slots through which to send, one for each link.
    pub fn dial(&mut self, peer: Peer, addresses: &[SocketAddr]) -> Vec<u32> {
        let links = (0..self.links).map(|number| LinkId { peer, number });
        links.map(|link| self.dial_link(link, addresses.to_vec())).collect()
    }

    /// A peer whose endpoint is suspended goes on at these addresses: its links go on over new connections there.
    pub fn move_to(&mut self, peer: Peer, addresses: &[SocketAddr]) {
        for index in self.slots_of(peer) {
            self.stop_dialling(index, None);
            self.tell_addresses(index, addresses.to_vec());
            let slot = &mut self.slots[index as usize];
            (slot.known, slot.is_moving) = (None, true);
            match slot.state {
                State::Open(_) if TCP_RECONNECT.value() => self.on_broken(index, "its process has moved".into()),
                State::Open(_) => {
                    return self.lose(index, "its process has moved, and FERRULE_TCP_RECONNECT is off".into());
                }
                State::Broken(_) => {
                    self.start_dialling(
                        index,
                        Instant::now() + Duration::from_millis(TCP_RECONNECT_TIMEOUT_MS.value()),
                    );
                }
                State::Idle | State::Finished | State::Lost => {}
            }
        }
    }

    /// The listening addresses of a peer, and where its connections lead to.
    pub fn addresses_of(&self, peer: Peer) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        let slots: Vec<&Slot> = self.slots_of(peer).into_iter().map(|index| &self.slots[index as usize]).collect();
        let connected = slots.iter().filter_map(|slot| match &slot.state {
            State::Open(conn) => conn.socket().peer_addr().ok(),
            _ => None,
        });
        (slots.first().map_or(Vec::new(), |slot| slot.addresses.clone()), connected.collect())
    }

    /// Starts to dial for a link if it isn't connected; its slot.
    pub(super) fn dial_link(&mut self, link: LinkId, addresses: Vec<SocketAddr>) -> u32 {
        let index = self.slot_of(link);
        if !addresses.is_empty() {
            self.tell_addresses(index, addresses);
        }
        let slot = &mut self.slots[index as usize];
        if matches!(slot.state, State::Idle) && slot.dial.is_none() {
            self.start_dialling(index, Instant::now() + Duration::from_millis(TCP_CONNECT_TIMEOUT_MS.value()));
        }
        index
    }

    /// Notes where a peer listens, and the rails to it.
    fn tell_addresses(&mut self, index: u32, addresses: Vec<SocketAddr>) {
        let slot = &mut self.slots[index as usize];
        let pair = self.id.pair(slot.id.peer);
        slot.rails = rails::rails(&self.nics, &addresses);
        slot.home = rails::home(&slot.rails, usize::from(slot.id.number), usize::from(self.links), pair);
        (slot.addresses, slot.health) = (addresses, Health::default());
    }

    /// Starts to dial a peer. One without addresses must call us.
    pub(super) fn start_dialling(&mut self, index: u32, deadline: Instant) {
        let (now, slot) = (Instant::now(), &mut self.slots[index as usize]);
        if slot.addresses.is_empty() && slot.opened > 0 {
            return;
        }
        slot.dial = Some(Box::new(Dial::new(slot.addresses_to_dial(), now, deadline)));
        self.timed += 1;
        self.dial_on(index, now);
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
                    let (link, rail) = (slot.id, slot.rail_to(address).cloned());
                    match self.pending(link, address, rail, deadline) {
                        Ok(pending) => self.watch(pending),
                        Err(error) => {
                            let refused = error.kind() == io::ErrorKind::ConnectionRefused;
                            if let Some(dial) = &mut self.slots[index as usize].dial {
                                dial.failed(address, error.to_string(), refused, now);
                            }
                        }
                    }
                }
            }
        }
    }

    /// Dials one address, over its rail if it has one. A rail whose local address or interface has gone is passed by.
    fn pending(
        &mut self,
        link: LinkId,
        address: SocketAddr,
        rail: Option<Rail>,
        deadline: Instant,
    ) -> io::Result<Pending> {
        let known = self.id.processes.borrow().id(link.peer);
        if !known.is_some_and(|id| self.id.has_secret_with(id)) {
            return Err(io::Error::other("it is of a job that has not connected"));
        }
        let from = rail.as_ref().map(|rail| (rail.local, rail.interface.as_str()));
        let stream = sock::connect_by(address, from, |fd| self.mark(fd, link)).or_else(|error| match from {
            Some(_) => sock::connect_by(address, None, |fd| self.mark(fd, link)),
            None => Err(error),
        })?;
        Ok(Pending::dialled(&self.id, stream, link, address, deadline))
    }

    /// No address has answered in time.
    pub(super) fn give_up(&mut self, index: u32) {
        if self.slots[index as usize].parked.is_some() {
            return self.accept_parked(index);
        }
        let slot = &self.slots[index as usize];
        let tried = slot.dial.as_ref().map(|d| d.describe()).unwrap_or_default();
        let why = match &slot.state {
            State::Broken(broken) => format!("{}; then {tried} (FERRULE_TCP_RECONNECT_TIMEOUT_MS)", broken.why),
            _ => format!("it can't be reached ({tried}; FERRULE_TCP_CONNECT_TIMEOUT_MS)"),
        };
        self.lose(index, why);
    }

    /// Our own dialling leads to nothing, but the peer has called us.
    pub(super) fn accept_parked(&mut self, index: u32) {
        self.stop_dialling(index, None);
        if let Some(parked) = self.slots[index as usize].parked.take() {
            self.settle(parked);
        }
    }

    /// Ends our own attempts to reach a peer, but for handshake `keep`.
    pub(super) fn stop_dialling(&mut self, index: u32, keep: Option<usize>) {
        let slot = &mut self.slots[index as usize];
        if slot.dial.take().is_some() {
            self.timed -= 1;
        }
        let link = slot.id;
        for at in 0..self.pendings.len() {
            let ours = self.pendings[at].as_ref().is_some_and(|p| p.dialled && p.link == Some(link));
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

    pub(super) fn drop_pending(&mut self, at: usize) -> Option<Pending> {
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
        if self.handshakes > 0 || self.timed > 0 || self.paused_until.is_some() || self.look_at.is_some() {
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
        if self.look_at.is_some_and(|at| now >= at) {
            self.watch_rails(now);
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
}
