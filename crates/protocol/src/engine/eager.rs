//! Eager messages in one packet: how they leave and how they arrive, each in one place; and the short ways past both.

use super::observer::{How, What};
use super::receiving::completed;
use super::sending::header;
use super::{Address, Completion, Content, Engine, Unexpected};
use crate::endpoint::Arrival;
use crate::kind::Kind;
use crate::matching::{Envelope, Found, Pattern};
use crate::transport::{Packet, Sink, Transport, UnexpectedPool};
use crate::wire::Header;
use base::counters;

/// The envelope of a packet that names its message.
#[inline(always)]
pub(super) fn envelope(header: &Header) -> Envelope {
    Envelope { context: header.context, source: header.source, tag: header.tag }
}

impl<T: Transport> Engine<T> {
    /// The shortest way of a standard send. False, and nothing has happened, if the message doesn't leave at once.
    #[inline(always)]
    pub fn send_now(&mut self, to: &Address, source: &T::Source) -> bool {
        self.flows.is_empty() && self.endpoints.try_short(to.peer, &header(Kind::EAGER, to, 0), source)
    }

    /// The shortest way of a blocking receive: while no other receive is posted and no message waits, the next packet is most
    /// likely the awaited message. `None`, and nothing has happened, if it isn't, or is longer than `sink`.
    #[inline(always)]
    pub fn receive_now(&mut self, pattern: &Pattern, sink: &T::Sink) -> Option<Found> {
        if !self.is_quiet() {
            return None;
        }
        let (found, eager) = self.endpoints.transport().next_eager()?;
        if !pattern.accepts(&found.envelope) || found.length > sink.len() as u64 {
            return None;
        }
        self.endpoints.transport().take_eager(eager, sink);
        Some(found)
    }

    /// As [`Engine::receive_now`], of a message of any length that may still be under way: it goes straight to `sink`, without an
    /// operation. `None` after `polls` polls, or as soon as something else happens: then the receive has to be posted.
    pub fn receive_soon(&mut self, pattern: &Pattern, sink: &T::Sink, polls: u32) -> Option<Completion> {
        for _ in 0..polls {
            if !self.is_quiet() {
                return None;
            }
            let found = match self.endpoints.transport().next_eager() {
                Some((found, eager)) if pattern.accepts(&found.envelope) => {
                    self.endpoints.transport().take_eager(eager, sink);
                    found
                }
                _ => match self.endpoints.poll() {
                    None => continue,
                    Some(Arrival::Packet(packet)) if is_eager(&packet, pattern) => self.take_packet(packet, sink),
                    Some(arrival) => {
                        self.on_arrival(arrival);
                        return None;
                    }
                },
            };
            return Some(completed(&found, found.length.min(sink.len() as u64)));
        }
        None
    }

    /// Whether nothing is posted or waits for a receive, and nothing waits for a lane.
    #[inline]
    fn is_quiet(&self) -> bool {
        self.matching.is_empty() && self.flows.is_empty()
    }

    /// Takes the eager messages that come next and that receives are posted for to where they belong. True if there were any.
    #[inline]
    pub(super) fn receive_posted(&mut self) -> bool {
        let mut any = false;
        while self.matching.has_posted()
            && let Some((found, eager)) = self.endpoints.transport().next_eager()
            && let Some(id) = self.matching.arrive(&found.envelope)
            && let Some(receive) = self.receives.get_mut(id)
        {
            self.endpoints.transport().take_eager(eager, &receive.sink);
            receive.complete(&found);
            any = true;
        }
        any
    }

    /// `EAGER` and `EAGER_SYNC`: a whole message.
    pub(super) fn on_eager(&mut self, packet: T::Packet, header: &Header) {
        let peer = packet.peer();
        let found = Found { envelope: envelope(header), length: packet.len() as u64 };
        let sync = header.kind == Kind::EAGER_SYNC;
        if let Some(id) = self.matching.arrive(&found.envelope)
            && let Some(receive) = self.receives.get_mut(id)
        {
            let wanted = packet.len().min(receive.sink.len());
            let transport = self.endpoints.transport();
            transport.deliver(&packet, 0, &receive.sink, 0, wanted, false);
            transport.release(packet);
            receive.complete(&found);
            self.note(What::Matched, How::Eager, peer, &found);
            if sync {
                self.send_control(peer, Kind::SYNC_ACK, header.token, &[]);
            }
            return;
        }
        counters::UNEXPECTED.add(1);
        self.note(What::Unexpected, How::Eager, peer, &found);
        let mut bytes = Default::default();
        self.store(&packet, 0, &mut bytes);
        self.endpoints.transport().release(packet);
        let content = if sync { Content::SyncBytes(bytes) } else { Content::Bytes(bytes) };
        self.keep(Unexpected { peer, found, token: header.token, content });
    }

    /// Takes all of a packet to the start of `sink`, cut at its end.
    fn take_packet(&mut self, packet: T::Packet, sink: &T::Sink) -> Found {
        let found = Found { envelope: envelope(&packet.header()), length: packet.len() as u64 };
        let transport = self.endpoints.transport();
        transport.deliver(&packet, 0, sink, 0, packet.len().min(sink.len()), false);
        transport.release(packet);
        found
    }

    /// Appends a packet's payload from `skip` on to an unexpected buffer.
    pub(super) fn store(&mut self, packet: &T::Packet, skip: usize, buffer: &mut super::Buffer<T>) {
        let more = packet.len().saturating_sub(skip);
        let transport = self.endpoints.transport();
        self.pool.append(buffer, more, |at, piece| {
            transport.deliver(packet, skip + at, piece, 0, piece.len(), false);
        });
    }
}

impl<S: Sink> super::Receive<S> {
    /// All of its message has been delivered, as far as there is room.
    #[inline(always)]
    fn complete(&mut self, found: &Found) {
        self.end_with(found, self.sink.len() as u64);
    }
}

/// Whether a packet is an eager message that `pattern` accepts and nobody waits for.
fn is_eager<P: Packet>(packet: &P, pattern: &Pattern) -> bool {
    let header = packet.header();
    header.kind == Kind::EAGER && pattern.accepts(&envelope(&header))
}
