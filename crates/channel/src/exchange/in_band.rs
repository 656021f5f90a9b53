//! Runs an exchange among ranks over the lanes that the program's messages take afterwards.
//!
//! A step is one control frame, cut into packets of a context that no communicator has. Lanes keep the order of a pair, so the
//! receiver puts frames together from one stream per peer. A peer that is lost ends the exchange.

use super::startup::Startup;
use crate::buffer::{RecvBuf, SendBuf};
use crate::transports::Transports;
use base::{Peer, Result, counters, ensure, fail, log};
use protocol::control::decode;
use protocol::control::exchange::{Exchange, Offer, Step};
use protocol::control::frame::{self, Splitter};
use protocol::endpoint::{Arrival, Endpoints, Way};
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::transport::{Outcome, Packet, Transport};
use protocol::wire::Header;
use std::collections::{HashMap, VecDeque};

/// The context of these packets; [`base::ContextId`] never gives it.
const CONTEXT: u64 = u64::MAX;

/// A frame on its way out.
struct Outgoing {
    to: Peer,
    bytes: Vec<u8>,
    sent: usize,
}

/// Runs `exchange` to its end; what all ranks have offered.
pub fn run(startup: &mut Startup<'_>, mut exchange: Box<dyn Exchange>) -> Result<Vec<Offer>> {
    let processes = startup.processes();
    let mut streams: HashMap<Peer, Splitter> = HashMap::new();
    let mut queue: VecDeque<Outgoing> = VecDeque::new();
    let mut idle_polls = 0;
    loop {
        while let Some((to, step)) = exchange.next_outgoing() {
            let Some(to) = processes.borrow().peer_of_rank(to) else {
                fail!(ERR_INTERN, "an exchange of endpoints names an impossible rank")
            };
            let bytes = frame::frame(&step);
            counters::EXCHANGE_MESSAGES_SENT.add(1);
            counters::EXCHANGE_BYTES_SENT.add(bytes.len() as u64);
            queue.push_back(Outgoing { to, bytes, sent: 0 });
        }
        let moved = send_some(startup.endpoints, &mut queue)?;
        if queue.is_empty() && exchange.is_done() {
            return Ok(exchange.into_offers());
        }
        if moved {
            continue;
        }
        match startup.next_arrival(&mut idle_polls, |endpoints| send_some(endpoints, &mut queue))? {
            Some(Arrival::Packet(packet)) => {
                let (peer, header) = (packet.peer(), packet.header());
                let mut bytes = vec![0; packet.len()];
                // SAFETY: the vector is writable for its length, and stays until the call is over.
                let sink = unsafe { RecvBuf::contiguous(bytes.as_mut_ptr(), bytes.len()) };
                let transports = startup.endpoints.transport();
                transports.deliver(&packet, 0, &sink, 0, bytes.len(), false);
                transports.release(packet);
                ensure!(
                    header.context == CONTEXT,
                    ERR_INTERN,
                    "a message came before the exchange of endpoints was over"
                );
                let Some(rank) = processes.borrow().rank(peer) else { continue };
                let stream = streams.entry(peer).or_default();
                stream.feed(&bytes);
                while let Some(body) = stream.next_frame(frame::TREE_LIMIT)? {
                    counters::EXCHANGE_MESSAGES_RECEIVED.add(1);
                    counters::EXCHANGE_BYTES_RECEIVED.add((body.len() + frame::HEADER) as u64);
                    exchange.on_step(rank, decode::<Step>(body)?)?;
                }
            }
            Some(Arrival::Lost(peer)) => {
                log!(Error, "{} was lost during the exchange of endpoints", processes.borrow().name(peer));
                fail!(ERR_PROC_ABORTED, "a rank was lost during the exchange of endpoints");
            }
            // No epoch concerns a rank before `Initialized`: its agent refuses for it.
            Some(Arrival::Suspend(_) | Arrival::Resume(_)) => {}
            // Nobody has communicators of this rank yet.
            Some(Arrival::Revoked(_)) => {}
            Some(Arrival::Landed { .. } | Arrival::Sent(_) | Arrival::Accessed(..) | Arrival::Opened(_)) | None => {}
        }
    }
}

/// Sends as much as the lanes take; whether that was anything.
fn send_some(endpoints: &mut Endpoints<Transports>, queue: &mut VecDeque<Outgoing>) -> Result<bool> {
    let mut moved = false;
    while let Some(first) = queue.front_mut() {
        let Some(caps) = endpoints.caps(first.to) else { return Ok(moved) };
        let length = caps.packet_max.min(caps.eager_max).min(first.bytes.len() - first.sent);
        let header = Header { kind: Kind::EAGER, number: Number::NONE, source: 0, tag: 0, token: 0, context: CONTEXT };
        let piece = &first.bytes[first.sent..first.sent + length];
        // SAFETY: the piece stays where it is until the call returns, and a packet of this size is taken or left as a whole.
        let source = unsafe { SendBuf::contiguous(piece.as_ptr(), piece.len()) };
        match endpoints.try_bcopy(Way::first(first.to), &header, &[], &source) {
            Outcome::Done | Outcome::Posted(_) => first.sent += length,
            Outcome::Again => return Ok(moved),
            Outcome::Lost => fail!(ERR_PROC_ABORTED, "a rank was lost during the exchange of endpoints"),
        }
        moved = true;
        if first.sent == first.bytes.len() {
            queue.pop_front();
        }
    }
    Ok(moved)
}
