//! Packet kinds: the table of all that may stand in a header's first byte.
//!
//! Each part of the engine registers its kinds here with a row, and their handlers in its own `KINDS` (see [`crate::engine`]). A header of a kind that has no
//! row is refused when it is decoded. Numbers are the wire's: they are never used again for something else.

/// The part of the engine that handles a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Messages of sends and receives.
    PointToPoint,
    /// Registered memory, where a lane can't reach it by itself.
    OneSided,
    /// What lanes and endpoints tell each other.
    Control,
    /// What workers of two nodes tell each other (`crates/offload`); ranks ignore it.
    Workers,
}

/// What a packet is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(u8);

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The name in the log.
    pub name: &'static str,
    /// Who handles it.
    pub part: Part,
    /// Bytes of the body, at the start of the payload; at most [`BODY_MAX`].
    pub body: usize,
    /// Whether the payload behind the body may go straight from a socket to its place ([`crate::transport::Delivery::Landing`]), so that
    /// the packet is shown before all of it is there.
    pub lands: bool,
}

/// Most bytes of a body.
pub const BODY_MAX: usize = 64;

/// Kinds that there can be: the byte's highest bit belongs to the lanes.
pub const KINDS_MAX: usize = 128;

macro_rules! kinds {
    (@lands) => { false };
    (@lands lands) => { true };
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal, $part:ident, $body:literal $(, $lands:ident)?;)+) => {
        impl Kind {
            $($(#[doc = $doc])+ pub const $name: Kind = Kind($number);)+

            /// All kinds.
            pub const ALL: &'static [Kind] = &[$(Kind::$name),+];
        }

        const TABLE: [Option<Info>; KINDS_MAX] = {
            let mut table = [None; KINDS_MAX];
            $(
                assert!(table[$number as usize].is_none(), "two kinds have one number");
                let body: usize = $body;
                assert!(body <= BODY_MAX, "a body is too long");
                table[$number as usize] =
                    Some(Info { name: stringify!($name), part: Part::$part, body, lands: kinds!(@lands $($lands)?) });
            )+
            table
        };
    };
}

kinds! {
    /// A whole message; the payload is the data.
    EAGER = 1, PointToPoint, 0;
    /// A whole message of a synchronous send; `token` is the sender's operation, to be answered by `SYNC_ACK`.
    EAGER_SYNC = 2, PointToPoint, 0;
    /// A message whose data stay with the sender; `token` is the sender's operation, the body an [`Offer`](crate::wire::Offer).
    REQUEST_TO_SEND = 3, PointToPoint, 16;
    /// Asks the sender to stream the data; `token` is the sender's operation, the body a [`Grant`](crate::wire::Grant).
    CLEAR_TO_SEND = 4, PointToPoint, 16;
    /// A part of the data; `token` is the receiver's operation and `tag` the grant's generation, the body the offset.
    DATA = 5, PointToPoint, 8, lands;
    /// The receiver has all that it wants; `token` is the sender's operation.
    FINISHED = 6, PointToPoint, 0;
    /// The synchronous message has been matched; `token` is the sender's operation.
    SYNC_ACK = 7, PointToPoint, 0;
    /// The sender leaves in good order; nothing follows on this lane.
    GOODBYE = 8, Control, 0;
    /// The first fragment of an eager message, or of a pushed one: its envelope, without data. The others follow at once. `token` is one that no other message
    /// in fragments has, the body an [`Offer`](crate::wire::Offer) without an address.
    EAGER_FIRST = 9, PointToPoint, 16;
    /// A middle fragment of an eager message, in order; `token` is that of its first one, the body the offset, `source` and `context` its fence
    /// ([`crate::order::Fence`]) if it has a number.
    EAGER_MIDDLE = 10, PointToPoint, 8;
    /// The last fragment, as `EAGER_MIDDLE`.
    EAGER_LAST = 12, PointToPoint, 8;
    /// A piece of a pushed message, after its `EAGER_FIRST`, in order; `token` is that of its first one, the body the offset.
    PUSHED = 30, PointToPoint, 8, lands;
    /// The sender sends nothing more until it has resumed; to be answered by `SUSPENDED`.
    SUSPEND = 13, Control, 0;
    /// Everything that the peer had sent before its `SUSPEND` has arrived.
    SUSPENDED = 14, Control, 0;
    /// The sender's endpoint has a lane again: so should the receiver's.
    RESUME = 15, Control, 0;
    /// The sender has seen all packets of the receiver before the one of a count, which is the `context`, in a group, the `source` (see [`crate::order`]).
    RECEIVED = 23, Control, 0;
    /// What the sender sends over this group of lanes comes after what it has sent over another: the packet has a fence ([`crate::order::Fence`]).
    AFTER = 24, Control, 0;
    /// The sender takes its `REQUEST_TO_SEND` back, to be answered by `FINISHED`; envelope and `token` are those of the
    /// message.
    WITHDRAW = 11, PointToPoint, 0;
    /// Bytes for the receiver's registered memory; `token` is the sender's operation, to be answered by `ACCESSED`, the body says where,
    /// and how many bytes there are from there to the end of the access, so that nothing is written if that does not fit.
    PUT = 18, OneSided, 32;
    /// Asks for bytes of the receiver's registered memory; `token` is the sender's operation, the body says where and how many.
    GET = 19, OneSided, 32;
    /// A part of the answer to a `GET`; `token` is the receiver's operation, the body the place in the memory.
    GOT = 20, OneSided, 8;
    /// Changes a number in the receiver's registered memory; `token` is the sender's operation, to be answered by `ACCESSED`, the body
    /// says where and how.
    ATOMIC = 21, OneSided, 48;
    /// A `PUT` or `ATOMIC` is done, or one of these or a `GET` is refused; `token` is the receiver's operation, the body whether
    /// it is done, and the number before.
    ACCESSED = 22, OneSided, 16;
    /// The sender cancels a message, to be answered by `CANCELLED` if it has not been matched; envelope and `token` are those of the message.
    CANCEL = 16, PointToPoint, 0;
    /// The message is gone as if it had never been sent; `token` is the sender's operation.
    CANCELLED = 17, PointToPoint, 0;
    /// A receive has begun.
    WORKER_READY = 25, Workers, 24;
    /// A part of a message.
    WORKER_DATA = 26, Workers, 32;
    /// All of the message that is wanted is there.
    WORKER_PLACED = 27, Workers, 16;
    /// The sender knows that its message is there.
    WORKER_SEEN = 28, Workers, 16;
    /// The sender can't read the message.
    WORKER_FAILED = 29, Workers, 16;
}

impl Kind {
    /// The kind of this number; `None` if there is none.
    #[inline(always)]
    pub fn from_byte(byte: u8) -> Option<Kind> {
        match TABLE.get(byte as usize) {
            Some(Some(_)) => Some(Kind(byte)),
            _ => None,
        }
    }

    /// The number on the wire.
    #[inline(always)]
    pub const fn byte(self) -> u8 {
        self.0
    }

    /// The row of the table.
    #[inline]
    pub fn info(self) -> Info {
        TABLE[self.0 as usize].expect("only kinds of the table can be made")
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.info().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_survives_its_byte_and_others_are_refused() {
        for byte in 0..=u8::MAX {
            let known = Kind::ALL.iter().any(|kind| kind.byte() == byte);
            assert_eq!(Kind::from_byte(byte).map(Kind::byte), known.then_some(byte));
        }
    }
}
