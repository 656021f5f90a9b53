//! Which of several connections with a peer stays, and what becomes of the others: the end of a handshake.

use super::hello::{LinkId, Stranger, Verdict};
use super::pending::{Failure, Pending, Progress};
use super::slot::State;
use super::{
    Conn, Net, NetEvent, TCP_KEEPALIVE_S, TCP_RECEIVE_BUFFER, TCP_SEND_BUFFER, TCP_USER_TIMEOUT_MS, TOKEN_CONN,
};
use base::{counters, log};
use protocol::transport::Token;
use std::net::SocketAddr;
use std::time::Instant;
use sys::epoll::Interest;
use sys::sock::{self, Tuning};

/// With rails the kernel asks after a second of silence, so that a rail that has failed is noticed by those who only receive, too; it doesn't end the connection
/// for a long time, since no rail may answer.
const RAIL_KEEPALIVE: (u32, u32) = (1, 120);

impl Net {
    pub(super) fn on_progress(&mut self, at: usize, progress: Progress) {
        match progress {
            Progress::Waiting => {}
            Progress::Proposed(link) => self.propose(at, link),
            Progress::Open(link) => self.establish(at, link),
            Progress::Over(link) => self.on_over(at, link),
            Progress::Failed(failure) => self.fail(at, failure),
        }
    }

    /// Both ends know each other: is this connection to be kept?
    fn propose(&mut self, at: usize, link: LinkId) {
        if link.number >= self.links {
            return self.disbelieve(at, Stranger::Settings);
        }
        let (peer, index) = (link.peer, self.slot_of(link));
        let Some(Some(pending)) = self.pendings.get(at) else { return };
        let (dialled, terms) = (pending.dialled, pending.terms);
        let proven = self.has_proven(link);
        let slot = &mut self.slots[index as usize];
        let unwanted = self.closing && matches!(slot.state, State::Idle);
        match slot.state {
            State::Finished | State::Lost if !dialled => self.refuse(at),
            _ if unwanted && !dialled => self.refuse(at),
            // One proof at a time.
            State::Idle | State::Broken(_) if dialled && proven => {}
            State::Idle | State::Broken(_) if dialled => self.settle(at),
            _ if dialled || terms.connection == slot.opened || slot.dead_since.is_some() => {
                log!(Debug, "a second connection with {} is not needed", self.id.name(peer));
                self.drop_pending(at);
            }
            _ if terms.connection < slot.opened => self.disbelieve(at, Stranger::Stale),
            _ if !slot.may_resume(terms.received) => self.disbelieve(at, Stranger::Position),
            // Both dial, and the peer may accept ours: the lower rank's connection is kept, so ours, unless it fails. If the peer has
            // moved ours leads to where it is now.
            _ if (proven || slot.is_moving) && self.id.is_before(peer) => {
                if let Some(older) = slot.parked.replace(at) {
                    self.drop_pending(older);
                }
            }
            _ => {
                if let State::Open(_) = slot.state {
                    log!(Info, "{} connects again: it has seen that the connection is broken", self.id.name(peer));
                }
                self.settle(at);
            }
        }
    }

    /// Whether a proof of ours is on its way to the peer, who may accept it.
    fn has_proven(&self, link: LinkId) -> bool {
        self.pendings.iter().flatten().any(|p| p.is_proven() && p.link == Some(link))
    }

    /// Proves ourselves, or accepts.
    pub(super) fn settle(&mut self, at: usize) {
        let Some(Some(pending)) = self.pendings.get_mut(at) else { return };
        let Some(index) = pending.link.and_then(|link| self.by_link.get(&link).copied()) else { return };
        let slot = &mut self.slots[index as usize];
        let number = if pending.dialled { slot.proposed + 1 } else { slot.proposed.max(pending.terms.connection) };
        let progress = pending.settle(&self.id, slot.terms(number));
        if let Progress::Open(_) = progress {
            slot.opened = number;
        }
        self.on_progress(at, progress);
    }

    /// A caller who knows the key, but not how far the link is.
    fn disbelieve(&mut self, at: usize, stranger: Stranger) {
        if let Some(pending) = self.drop_pending(at) {
            self.turn_away(pending.address, Failure::Stranger(stranger));
        }
    }

    /// Tells a peer that we have no use for a connection with it.
    fn refuse(&mut self, at: usize) {
        if let Some(pending) = &mut self.drop_pending(at) {
            let _ = pending.answer(&self.id, Verdict::Over, pending.terms);
        }
    }

    /// The peer has no use for a connection with us.
    fn on_over(&mut self, at: usize, link: LinkId) {
        self.drop_pending(at);
        let index = self.slot_of(link);
        self.lose(index, "it has ended the connection for good".into());
    }

    /// Names the addresses that were dialled in vain before one answered: a bridge of the peer's host, for example.
    fn tell_skipped(&self, index: u32, at: usize) {
        let slot = &self.slots[index as usize];
        if let (Some(dial), Some(Some(pending))) = (&slot.dial, self.pendings.get(at))
            && pending.dialled
        {
            let skipped = dial.describe_skipped(pending.address);
            if !skipped.is_empty() {
                log!(Info, "reached {} at {}; skipped {skipped}", self.id.name(slot.id.peer), pending.address);
            }
        }
    }

    /// The handshake is complete.
    fn establish(&mut self, at: usize, link: LinkId) {
        let index = self.slot_of(link);
        let Some(Some(pending)) = self.pendings.get(at) else { return };
        let terms = pending.terms;
        let slot = &mut self.slots[index as usize];
        if pending.dialled && terms.connection <= slot.opened {
            return self.fail(at, Failure::Stranger(Stranger::Stale));
        }
        if pending.dialled && !slot.may_resume(terms.received) {
            return self.fail(at, Failure::Stranger(Stranger::Position));
        }
        self.tell_skipped(index, at);
        self.stop_dialling(index, Some(at));
        let Some(pending) = self.drop_pending(at) else { return };
        if let Some(parked) = self.slots[index as usize].parked.take() {
            self.drop_pending(parked);
        }
        let slot = &mut self.slots[index as usize];
        slot.is_moving = false;
        slot.opened = slot.opened.max(terms.connection);
        slot.proposed = slot.proposed.max(slot.opened);
        slot.known = slot.addresses.iter().find(|a| a.ip() == pending.address.ip()).copied();
        let (address, dialled) = (pending.address, pending.dialled);
        let link = self.take_link(index);
        let again = link.as_ref().map(|link| link.sent_after(terms.received));
        let tokens = Token(1 << 63 | u64::from(index) << 32);
        let conn = match link {
            None => Ok(Conn::new(pending.into_stream(&self.id), self.sizes, tokens)),
            Some(link) => Conn::resume(pending.into_stream(&self.id), link, terms.received),
        };
        let Ok(conn) = conn else {
            return self.lose(index, format!("{address}: {}", Stranger::Position));
        };
        self.opened(index, conn, address, again);
        self.on_rail(index, dialled);
    }

    /// Puts a connection into its slot.
    fn opened(&mut self, index: u32, mut conn: Conn, address: SocketAddr, again: Option<u64>) {
        self.classify(conn.socket(), self.slots[index as usize].id);
        let has_rails = !self.slots[index as usize].rails.is_empty();
        let (keepalive_s, keepalive_probes) =
            if has_rails { RAIL_KEEPALIVE } else { (TCP_KEEPALIVE_S.value() as u32, 3) };
        let tuning = Tuning {
            user_timeout_ms: TCP_USER_TIMEOUT_MS.value() as u32,
            keepalive_s,
            keepalive_probes,
            send_buffer_bytes: TCP_SEND_BUFFER.value() as u32,
            receive_buffer_bytes: TCP_RECEIVE_BUFFER.value() as u32,
        };
        let token = TOKEN_CONN | u64::from(index);
        let ready = sock::tune(conn.fd(), &tuning).and_then(|()| self.epoll.modify(conn.fd(), token, Interest::READ));
        if let Err(error) = ready {
            return self.lose(index, format!("{address}: {error}"));
        }
        counters::CONNECTIONS.add(1);
        let peer = self.id.name(self.slots[index as usize].id.peer);
        match again {
            None => log!(Debug, "connected with {peer} at {address}"),
            Some(bytes) => {
                counters::RECONNECTIONS.add(1);
                log!(Info, "connected again with {peer} at {address}; {bytes} bytes are sent again");
            }
        }
        conn.flush();
        self.events.extend(std::iter::from_fn(|| conn.pop_sent()).map(NetEvent::Sent));
        if conn.is_full() {
            self.full.push(index);
        }
        self.slots[index as usize].state = State::Open(Box::new(conn));
        self.open.push(index);
    }

    /// A handshake came to nothing.
    pub(super) fn fail(&mut self, at: usize, failure: Failure) {
        let Some(pending) = self.drop_pending(at) else { return };
        let parked_of =
            pending.link.filter(|_| pending.is_proposed()).and_then(|link| self.by_link.get(&link).copied());
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
        let index = pending.link.and_then(|link| self.by_link.get(&link).copied());
        // The peer itself has said so: that is how it is at all of its addresses.
        if let (Some(index), Failure::Stranger(stranger @ Stranger::Security { .. })) = (index, &failure) {
            return self.lose(index, stranger.to_string());
        }
        let refused = matches!(failure, Failure::Refused(_));
        let why = match failure {
            Failure::Network(why) | Failure::Refused(why) => why,
            Failure::Stranger(Stranger::Silent) => "no answer".into(),
            Failure::Stranger(Stranger::Left | Stranger::Truncated) => "the other end hung up".into(),
            Failure::Stranger(stranger) => format!("somebody else answers: {stranger}"),
        };
        let Some(index) = index else { return };
        let now = Instant::now();
        if let Some(dial) = &mut self.slots[index as usize].dial {
            dial.failed(pending.address, why, refused, now);
            self.dial_on(index, now);
        }
        if let Some(link) = pending.link.filter(|_| self.slots[index as usize].parked.is_some())
            && !self.has_proven(link)
        {
            return self.accept_parked(index);
        }
        // Another address may have answered meanwhile.
        let waits = |p: &Pending| p.dialled && p.is_proposed() && p.link == pending.link;
        if let Some(other) = self.pendings.iter().position(|p| p.as_ref().is_some_and(waits))
            && let Some(link) = pending.link
        {
            self.propose(other, link);
        }
    }

    /// A caller who is no peer: counted, and logged once per kind.
    fn turn_away(&mut self, address: SocketAddr, failure: Failure) {
        let Failure::Stranger(stranger) = failure else { return };
        if stranger == Stranger::Left {
            return log!(Debug, "a connection from {address} ended: {stranger}");
        }
        counters::PACKETS_REJECTED.add(1);
        let kind = std::mem::discriminant(&stranger);
        if stranger == Stranger::Misdirected {
            // An address that several hosts have, such as a container bridge's, leads peers astray; they try another one.
            log!(Info, "turned away a connection from {address}: {stranger}");
        } else if !self.strangers_logged.contains(&kind) {
            self.strangers_logged.push(kind);
            log!(
                Warn,
                "turned away a connection from {address}: {stranger} (further ones of this kind are only counted)"
            );
        }
    }
}
