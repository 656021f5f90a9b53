//! How connections end: by a goodbye, broken, with their peer, or because this process closes them.

use super::conn::{Conn, End, Link};
use super::slot::{Broken, State};
use super::{Net, NetEvent, TCP_RECONNECT, TCP_RECONNECT_TIMEOUT_MS, TCP_REFUSED_TIMEOUT_MS};
use base::{Peer, counters, log};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// How long a connection that is not made again waits for the node agent to say what happened to its peer.
const GRACE: Duration = Duration::from_millis(300);
/// How long a connection to a dead peer may go on to deliver what had been sent.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How long a closing process waits for the peer's process when the peer's kernel has everything.
const LINGER: Duration = Duration::from_millis(500);
/// How long a closing process tries to mend a broken connection.
const MEND: Duration = Duration::from_secs(5);

/// Connections that may end by a record that isn't genuine without any progress on the link.
const HARMED_MAX: u32 = 10;

/// Events that a closing process drops between two looks at its connections.
const CLOSING_POLLS: usize = 1000;

impl Net {
    #[cold]
    pub(super) fn ended(&mut self, index: u32, end: End) {
        let slot = &self.slots[index as usize];
        if slot.is_resting {
            return self.put_down(index);
        }
        match end {
            End::Goodbye => {
                // The peer wants nothing any more. Acknowledgements that came together with its goodbye have not been told yet.
                let link = self.take_link(index);
                self.events.extend(link.into_iter().flat_map(Link::into_sources).map(NetEvent::Sent));
                self.slots[index as usize].state = State::Finished;
            }
            End::NotGenuine(why) => self.on_not_genuine(index, why),
            End::Broken(why) if slot.dead_since.is_none() => self.on_broken(index, why),
            // What had come over the other links of a dead process is read first.
            End::Broken(_) if self.has_other_open(index) => self.give_up_link(index),
            End::Broken(why) | End::Wrong(why) => self.lose(index, why),
        }
    }

    /// Somebody changes what goes over the connection. Nothing of that was taken, so another connection may go on where this one has stopped; but not
    /// for ever if none of them gets on.
    fn on_not_genuine(&mut self, index: u32, why: String) {
        counters::RECORDS_REJECTED.add(1);
        let slot = &mut self.slots[index as usize];
        log!(Warn, "the connection with {} ends: {why}", self.id.name(slot.id.peer));
        let received = slot.link().map_or(0, |link| link.received());
        let again = if slot.harmed.1 == received { slot.harmed.0 + 1 } else { 1 };
        slot.harmed = (again, received);
        if again > HARMED_MAX {
            return self.lose(index, format!("{why}, on {again} connections one after another"));
        }
        self.ended(index, End::Broken(why));
    }

    /// The connection has gone, the peer maybe not.
    pub(super) fn on_broken(&mut self, index: u32, why: String) {
        let Some(link) = self.take_link(index) else { return };
        let now = Instant::now();
        let slot = &mut self.slots[index as usize];
        log!(Info, "the connection with {} broke: {why}", self.id.name(slot.id.peer));
        slot.state = State::Broken(Box::new(Broken { link, since: now, why }));
        self.timed += 1;
        if TCP_RECONNECT.value() {
            self.start_dialling(index, now + Duration::from_millis(TCP_RECONNECT_TIMEOUT_MS.value()));
        }
    }

    /// Takes the link out of an open connection, which is closed, or a broken one. The slot is idle then.
    pub(super) fn take_link(&mut self, index: u32) -> Option<Link> {
        let slot = &mut self.slots[index as usize];
        match std::mem::replace(&mut slot.state, State::Idle) {
            State::Open(mut conn) => {
                self.open.retain(|s| *s != index);
                self.readable.retain(|s| *s != index);
                self.events.extend(std::iter::from_fn(|| conn.pop_sent()).map(NetEvent::Sent));
                Some(conn.into_link())
            }
            State::Broken(broken) => {
                self.timed -= 1;
                Some(broken.link)
            }
            other => {
                slot.state = other;
                None
            }
        }
    }

    /// The peer can't be reached any more: over none of its links.
    pub(super) fn lose(&mut self, index: u32, why: String) {
        let peer = self.slots[index as usize].id.peer;
        for index in self.slots_of(peer) {
            self.give_up_link(index);
        }
        self.events.push_back(NetEvent::Lost(peer, why));
    }

    fn give_up_link(&mut self, index: u32) {
        self.take_link(index);
        self.abandon(index);
        let slot = &mut self.slots[index as usize];
        slot.state = State::Lost;
        if slot.dead_since.take().is_some() {
            self.timed -= 1;
        }
    }

    /// Whether another link with the same peer has a connection.
    fn has_other_open(&self, index: u32) -> bool {
        let others = self.slots_of(self.slots[index as usize].id.peer).into_iter().filter(|other| *other != index);
        others.into_iter().any(|other| matches!(self.slots[other as usize].state, State::Open(_)))
    }

    /// The node agent says that `peer` is dead. True if nothing of it is left to be read; otherwise `Lost` follows.
    pub fn peer_gone(&mut self, peer: Peer) -> bool {
        let mut is_read = true;
        for index in self.slots_of(peer) {
            let slot = &mut self.slots[index as usize];
            if !matches!(slot.state, State::Open(_)) {
                self.give_up_link(index);
                continue;
            }
            is_read = false;
            if slot.dead_since.is_none() {
                slot.dead_since = Some(Instant::now());
                self.timed += 1;
            }
        }
        is_read
    }

    /// What only time decides: dialling, broken connections, dead peers.
    pub(super) fn on_timers(&mut self, now: Instant) {
        for index in 0..self.slots.len() as u32 {
            if self.slots[index as usize].dial.is_some() {
                self.dial_on(index, now);
            }
            if let Some(why) = self.is_over(index, now) {
                self.lose(index, why);
            }
        }
    }

    /// Why a peer is to be given up.
    fn is_over(&self, index: u32, now: Instant) -> Option<String> {
        let slot = &self.slots[index as usize];
        match &slot.state {
            State::Broken(broken) if !TCP_RECONNECT.value() => {
                (now - broken.since >= GRACE).then(|| broken.why.clone())
            }
            State::Broken(broken) => {
                let refused = slot.dial.as_ref().and_then(|dial| dial.refused_since(slot.known));
                let is_refused = refused.is_some_and(|t| now - t >= ms(TCP_REFUSED_TIMEOUT_MS.value()));
                let is_late = now - broken.since >= ms(TCP_RECONNECT_TIMEOUT_MS.value());
                let tried = slot.dial.as_ref().map_or("it did not connect again".into(), |dial| dial.describe());
                match (is_refused, is_late) {
                    (true, _) => Some(format!("{}; then {tried} (FERRULE_TCP_REFUSED_TIMEOUT_MS)", broken.why)),
                    (_, true) => Some(format!("{}; then {tried} (FERRULE_TCP_RECONNECT_TIMEOUT_MS)", broken.why)),
                    _ => None,
                }
            }
            State::Open(_) if slot.dead_since.is_some_and(|t| now - t >= LAST_WORDS) => {
                Some("its process is dead".into())
            }
            _ => None,
        }
    }

    /// Says goodbye on every connection and waits until the peers have all that was sent. What still comes in is dropped.
    pub fn close(&mut self) {
        self.closing = true;
        for index in 0..self.slots.len() as u32 {
            if let State::Idle = self.slots[index as usize].state {
                self.abandon(index);
            }
        }
        let since = Instant::now();
        let mut told = vec![false; self.slots.len()];
        loop {
            let mut first = None;
            for index in 0..told.len() as u32 {
                if !self.closed(index, &mut told[index as usize], since) {
                    first.get_or_insert(index);
                }
            }
            let Some(first) = first else { break };
            match &self.slots[first as usize].state {
                State::Open(conn) => drop(sys::sock::wait_one(conn.fd(), true, conn.is_full(), 10)),
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            self.attend();
            // Not for ever: a peer may send all the time.
            for _ in 0..CLOSING_POLLS {
                let Some(event) = self.poll() else { break };
                if let NetEvent::Packet(packet) = event {
                    self.release(&packet);
                }
            }
        }
        self.listener = None;
        self.pendings.clear();
        self.handshakes = 0;
    }

    /// Moves the closing of one connection on; true when there is nothing more to wait for.
    fn closed(&mut self, index: u32, told: &mut bool, since: Instant) -> bool {
        let goodbye = Header { kind: Kind::GOODBYE, number: Number::NONE, source: 0, tag: 0, token: 0, context: 0 };
        let slot = &mut self.slots[index as usize];
        let is_over = match &mut slot.state {
            State::Open(conn) => {
                conn.discard();
                conn.flush();
                if !*told {
                    *told = conn.send(&goodbye, &[], None) == Outcome::Done;
                    conn.flush();
                }
                *told && has_left(conn, since)
            }
            State::Broken(broken) => {
                let is_refused = slot.dial.as_ref().is_some_and(|dial| dial.refused_since(slot.known).is_some());
                broken.link.is_finished() || is_refused || !TCP_RECONNECT.value() || since.elapsed() >= MEND
            }
            State::Idle | State::Finished | State::Lost => return true,
        };
        if is_over {
            self.take_link(index);
            self.abandon(index);
            self.slots[index as usize].state = State::Finished;
        }
        is_over
    }
}

/// Whether all that was sent over a connection, the goodbye too, has got to the peer: its process, or, if that is gone or doesn't answer,
/// its kernel.
fn has_left(conn: &mut Conn, since: Instant) -> bool {
    let link = conn.link();
    let is_known = link.is_acknowledged() || link.is_finished() || since.elapsed() >= LINGER;
    if !is_known || !conn.is_flushed() {
        return false;
    }
    let _ = conn.socket().shutdown(Shutdown::Write);
    sys::sock::unacknowledged(conn.fd()).map_or(true, |left| left == 0)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
