//! Packets between workers of different nodes, in headers and bodies of the links ([`channel::workers`]).

use mpi::coll::portable::remote::Route;
use protocol::kind::Kind;
use protocol::order::Number;
use protocol::wire::Header;

/// Bytes of the longest body.
pub const BODY_MAX: usize = 32;

/// What a packet says of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Its receive has begun, with room for so many bytes.
    Ready {
        /// Bytes.
        room: u64,
    },
    /// The payload belongs there.
    Data {
        /// Where.
        offset: u64,
        /// Bytes of the message.
        total: u64,
    },
    /// All that fits is there.
    Placed,
    /// Its sender knows that.
    Seen,
    /// Its sender's memory can't be read.
    Failed,
}

/// A packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Whose messages.
    pub route: Route,
    /// Which one of them, from 1.
    pub number: u64,
    /// See there.
    pub what: What,
}

impl Packet {
    /// Header and body, of which the first bytes count that the kind has.
    pub fn encode(&self) -> (Header, [u8; BODY_MAX]) {
        let (kind, more) = match self.what {
            What::Ready { room } => (Kind::WORKER_READY, [room, 0]),
            What::Data { offset, total } => (Kind::WORKER_DATA, [offset, total]),
            What::Placed => (Kind::WORKER_PLACED, [0; 2]),
            What::Seen => (Kind::WORKER_SEEN, [0; 2]),
            What::Failed => (Kind::WORKER_FAILED, [0; 2]),
        };
        let mut body = [0; BODY_MAX];
        for (i, word) in [self.route.round, self.number, more[0], more[1]].into_iter().enumerate() {
            body[8 * i..][..8].copy_from_slice(&word.to_le_bytes());
        }
        let Route { context, tag, from, to, .. } = self.route;
        // Processes of the job are numbered by ranks.
        let header = Header { kind, number: Number::NONE, source: from as u32, tag, token: to as u32, context };
        (header, body)
    }

    /// Reads one; `None` for kinds that are none of these, and for bodies that are too short. Every value is possible.
    pub fn decode(header: &Header, body: &[u8]) -> Option<Packet> {
        let word = |i: usize| body.get(8 * i..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let what = match header.kind {
            Kind::WORKER_READY => What::Ready { room: word(2)? },
            Kind::WORKER_DATA => What::Data { offset: word(2)?, total: word(3)? },
            Kind::WORKER_PLACED => What::Placed,
            Kind::WORKER_SEEN => What::Seen,
            Kind::WORKER_FAILED => What::Failed,
            _ => return None,
        };
        let (from, to) = (header.source.into(), header.token.into());
        let route = Route { context: header.context, tag: header.tag, round: word(0)?, from, to };
        Some(Packet { route, number: word(1)?, what })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_survive_the_wire() {
        let route = Route { context: 7 << 40, tag: -3, round: 1 << 50, from: u32::MAX.into(), to: 2 };
        for what in [
            What::Ready { room: 1 << 33 },
            What::Data { offset: 5, total: 1 << 60 },
            What::Placed,
            What::Seen,
            What::Failed,
        ] {
            let packet = Packet { route, number: 9, what };
            let (header, body) = packet.encode();
            let len = header.kind.info().body;
            assert_eq!(Packet::decode(&header, &body[..len]), Some(packet));
            assert_eq!(Packet::decode(&header, &body[..len - 1]), None);
            assert!(body[header.kind.info().body..].iter().all(|byte| *byte == 0));
        }
        let (header, body) = Packet { route, number: 1, what: What::Seen }.encode();
        assert_eq!(Packet::decode(&Header { kind: Kind::EAGER, ..header }, &body), None);
    }
}
