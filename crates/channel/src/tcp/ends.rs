//! How connections end: by a goodbye, broken, with their peer, or because this process closes them.

use super::conn::{Conn, End};
use super::{Net, NetEvent, State};
use base::Peer;
use protocol::kind::Kind;
use protocol::transport::Outcome;
use protocol::wire::Header;
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// How long a broken connection waits for the node agent to say what happened to its peer.
const GRACE: Duration = Duration::from_millis(300);
/// How long a connection to a dead peer may go on to deliver what had been sent.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Net {
    #[cold]
    pub(super) fn ended(&mut self, index: u32, end: End) -> Option<NetEvent> {
        self.open.retain(|s| *s != index);
        let slot = &mut self.slots[index as usize];
        match end {
            End::Goodbye => {
                slot.state = State::Finished;
                None
            }
            End::Broken(why) if slot.dead_since.is_some() => {
                slot.state = State::Lost;
                slot.dead_since = None;
                self.timed -= 1;
                Some(NetEvent::Lost(slot.peer, why))
            }
            End::Broken(why) => {
                slot.state = State::Ending { since: Instant::now(), why };
                self.timed += 1;
                None
            }
        }
    }

    /// The node agent says that `peer` is dead. True if nothing of it is left to be read; otherwise `Lost` follows.
    pub fn peer_gone(&mut self, peer: Peer) -> bool {
        let Some(index) = self.by_peer.get(&peer).copied() else { return true };
        let slot = &mut self.slots[index as usize];
        match slot.state {
            State::Open(_) if slot.dead_since.is_none() => {
                slot.dead_since = Some(Instant::now());
                self.timed += 1;
                return false;
            }
            State::Open(_) => return false,
            State::Ending { .. } => self.timed -= 1,
            State::Idle => self.abandon(index),
            State::Finished | State::Lost => {}
        }
        self.slots[index as usize].state = State::Lost;
        true
    }

    /// What only time decides: dialling, grace.
    pub(super) fn on_timers(&mut self, now: Instant) {
        for index in 0..self.slots.len() as u32 {
            if self.slots[index as usize].dial.is_some() {
                self.dial_on(index, now);
            }
            let slot = &mut self.slots[index as usize];
            let over = match &mut slot.state {
                State::Ending { since, why } if now - *since >= GRACE => Some(std::mem::take(why)),
                State::Open(_) if slot.dead_since.is_some_and(|t| now - t >= LAST_WORDS) => {
                    slot.dead_since = None;
                    self.open.retain(|s| *s != index);
                    Some("its process is dead".into())
                }
                _ => None,
            };
            if let Some(why) = over {
                slot.state = State::Lost;
                self.timed -= 1;
                self.events.push_back(NetEvent::Lost(slot.peer, why));
            }
        }
    }

    /// Says goodbye on every connection and waits until the peers' kernels have all that was sent. What still comes in is
    /// dropped.
    pub fn close(&mut self) {
        self.listener = None;
        self.pendings.clear();
        let goodbye = Header { kind: Kind::GOODBYE, source: self.id.me.0, tag: 0, token: 0, context: 0 };
        let mut conns: Vec<(Box<Conn>, bool)> = Vec::new();
        for slot in &mut self.slots {
            if let State::Open(conn) = std::mem::replace(&mut slot.state, State::Finished) {
                conns.push((conn, false));
            }
        }
        (self.open, self.full) = (Vec::new(), Vec::new());
        loop {
            conns.retain_mut(|(conn, told)| !closed(conn, told, &goodbye));
            let Some((first, told)) = conns.first() else { return };
            let _ = sys::sock::wait_one(first.fd(), true, !told, 10);
        }
    }
}

/// Moves the closing of one connection on; true when there is nothing more to wait for.
fn closed(conn: &mut Conn, told: &mut bool, goodbye: &Header) -> bool {
    conn.flush();
    if !*told && conn.is_flushed() {
        match conn.send(goodbye, &[], None) {
            Outcome::Done | Outcome::Posted(_) => *told = true,
            Outcome::Again => {}
            Outcome::Lost => return true,
        }
    }
    let over = conn.drain();
    if *told && conn.is_flushed() {
        let _ = conn.stream().shutdown(Shutdown::Write);
        return over || sys::sock::unacknowledged(conn.fd()).map_or(true, |left| left == 0);
    }
    over
}
