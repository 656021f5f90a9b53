//! The order of packets that travel over several lanes of one endpoint.
//!
//! Each group of lanes ([`crate::route`]) counts the packets of each direction from [`FIRST`] on. A header carries group and count as a [`Number`] of three
//! bytes: 0 for none, because the pair has one lane, otherwise in 3 bits the group and in 21 the count modulo [`CYCLE`], plus 1. The sender is at most [`WINDOW`] packets ahead of what the receiver has
//! acknowledged by [`Kind::RECEIVED`](crate::kind::Kind::RECEIVED), so the receiver knows the count of each number: it is one of the `WINDOW` counts from the
//! next one on, or the packet has come before.
//!
//! ```text
//!        acknowledged      expected         next
//!             │                │              │        acknowledged + WINDOW
//! ── seen ────┴──── seen ──────┴─ some seen ──┴────────────────┤
//!                                 (ahead)       not sent yet
//! ```
//! The last counts of the window are kept for packets that must not wait for an acknowledgement ([`Room`]): acknowledgements themselves, which have
//! counts, too, and the last words of an endpoint that is suspended.
//!
//! Groups don't wait for each other, but where a packet says so: it has a [`Fence`].

use crate::kind::Kind;
use crate::route::GROUPS_MAX;
use crate::wire::Header;
use std::collections::BTreeMap;

/// Different numbers; 0 is none of them.
pub const CYCLE: u64 = (1 << COUNT_BITS) - 1;

/// Bits of a number that are for the count; the others are for the group.
const COUNT_BITS: u32 = 21;

const _: () = assert!(GROUPS_MAX << COUNT_BITS == 1 << 24, "a number has three bytes");

/// Packets of one direction that may be unacknowledged.
pub const WINDOW: u64 = 1024;

/// The first count. Close to the end of a cycle, so that every job that uses several lanes for a while passes it.
pub const FIRST: u64 = CYCLE - 1500;

/// Packets after which the receiver acknowledges them.
const ACKNOWLEDGED_EVERY: u64 = WINDOW / 4;

/// A packet's number, as the header carries it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Number([u8; 3]);

impl Number {
    /// The pair has one lane, which keeps the order.
    pub const NONE: Number = Number([0; 3]);

    /// The number of a count in the first group.
    pub fn of(count: u64) -> Number {
        Number::in_group(0, count)
    }

    /// The number of a count.
    pub fn in_group(group: u8, count: u64) -> Number {
        let bytes = ((count % CYCLE + 1) | (u64::from(group) << COUNT_BITS)).to_le_bytes();
        Number([bytes[0], bytes[1], bytes[2]])
    }

    /// The group of lanes that counts it.
    pub fn group(self) -> u8 {
        (self.word() >> COUNT_BITS) as u8
    }

    fn word(self) -> u32 {
        u32::from_le_bytes([self.0[0], self.0[1], self.0[2], 0])
    }

    /// Whether the pair has one lane.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self == Number::NONE
    }

    /// The bytes in the header.
    #[inline(always)]
    pub fn bytes(self) -> [u8; 3] {
        self.0
    }

    /// Reads a number; every value is possible.
    #[inline(always)]
    pub fn from_bytes(bytes: [u8; 3]) -> Number {
        Number(bytes)
    }

    /// How far it is ahead of `count`; `None` without a number.
    fn ahead_of(self, count: u64) -> Option<u64> {
        let word = u64::from(self.word() & ((1 << COUNT_BITS) - 1));
        Some((word.checked_sub(1)? + CYCLE - count % CYCLE) % CYCLE)
    }
}

impl std::fmt::Debug for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.group(), self.word() & ((1 << COUNT_BITS) - 1))
    }
}

/// What must have been seen before a packet has its turn: all packets of another group before a count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fence {
    /// The group.
    pub group: u8,
    /// The count; 0 if nothing must have been seen.
    pub count: u64,
}

impl Fence {
    /// The fence of a packet that has a number. `source` and `context` of kinds that have fences have no other meaning.
    pub fn of(header: &Header) -> Fence {
        match header.kind {
            Kind::AFTER | Kind::EAGER_MIDDLE | Kind::EAGER_LAST => {
                Fence { group: (header.source % GROUPS_MAX as u32) as u8, count: header.context }
            }
            _ => Fence::default(),
        }
    }

    /// The header with this fence.
    pub fn on(self, header: Header) -> Header {
        Header { source: u32::from(self.group), context: self.count, ..header }
    }
}

/// How much of the window a packet may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Room {
    /// Any packet.
    Ordinary,
    /// An acknowledgement. Without counts of its own, two processes with full windows would wait for each other.
    Acknowledgement,
    /// `SUSPEND` and `SUSPENDED`, after which nothing comes, and the fences before them.
    LastWords,
}

impl Room {
    /// Counts at the end of the window that are not for it.
    fn kept(self) -> u64 {
        match self {
            Room::Ordinary => 32,
            Room::Acknowledgement => 16,
            Room::LastWords => 0,
        }
    }
}

/// The sender's side of one direction.
#[derive(Debug)]
pub struct Numbering {
    next: u64,
    acknowledged: u64,
}

impl Default for Numbering {
    fn default() -> Numbering {
        Numbering { next: FIRST, acknowledged: FIRST }
    }
}

impl Numbering {
    /// The count of the next packet; `None` while the window is full.
    pub fn next(&self, room: Room) -> Option<u64> {
        (self.next - self.acknowledged < WINDOW - room.kept()).then_some(self.next)
    }

    /// All packets so far have counts below.
    pub fn count(&self) -> u64 {
        self.next
    }

    /// The packet with the next number has left.
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// The receiver has seen all before `count`. False if it can't have.
    pub fn acknowledge(&mut self, count: u64) -> bool {
        let is_possible = count <= self.next;
        if is_possible {
            self.acknowledged = self.acknowledged.max(count);
        }
        is_possible
    }

    /// The receiver has seen everything.
    pub fn drained(&mut self) {
        self.acknowledged = self.next;
    }
}

/// Where a packet stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It is the next one.
    Next,
    /// Others come before it.
    Ahead(u64),
    /// It has come before, over another lane.
    Seen,
}

/// The receiver's side of one direction; `P` is a packet that waits for its turn.
#[derive(Debug)]
pub struct Arrivals<P> {
    expected: u64,
    /// By count: what waits, or `None` if it has been dealt with already.
    ahead: BTreeMap<u64, Option<P>>,
    /// What the sender was told.
    told: u64,
}

impl<P> Default for Arrivals<P> {
    fn default() -> Arrivals<P> {
        Arrivals { expected: FIRST, ahead: BTreeMap::new(), told: FIRST }
    }
}

impl<P> Arrivals<P> {
    /// Where the packet of this number stands.
    pub fn place(&self, number: Number) -> Place {
        match number.ahead_of(self.expected) {
            Some(distance) if distance >= WINDOW || self.ahead.contains_key(&(self.expected + distance)) => Place::Seen,
            Some(0) => Place::Next,
            Some(distance) => Place::Ahead(self.expected + distance),
            None => Place::Seen,
        }
    }

    /// The count of the next packet.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// The next packet is dealt with now.
    pub fn advance(&mut self) {
        self.expected += 1;
    }

    /// Lets a packet wait for its turn.
    pub fn wait(&mut self, count: u64, packet: P) {
        self.ahead.insert(count, Some(packet));
    }

    /// A packet needs no turn, and has been dealt with.
    pub fn done(&mut self, number: Number) {
        match self.place(number) {
            Place::Next => self.advance(),
            Place::Ahead(count) => drop(self.ahead.insert(count, None)),
            Place::Seen => {}
        }
    }

    /// The waiting packet whose turn it is, which is dealt with now, if nothing in its way but its turn.
    pub fn pop(&mut self, is_free: impl Fn(&P) -> bool) -> Option<P> {
        while let Some(first) = self.ahead.first_entry()
            && *first.key() == self.expected
            && first.get().as_ref().is_none_or(&is_free)
        {
            let packet = first.remove();
            self.expected += 1;
            if packet.is_some() {
                return packet;
            }
        }
        None
    }

    /// What waits when the peer is gone.
    pub fn into_waiting(self) -> impl Iterator<Item = P> {
        self.ahead.into_values().flatten()
    }

    /// Whether a waiting packet's turn has come, or it is time to acknowledge.
    pub fn is_due(&self) -> bool {
        self.ahead.first_key_value().is_some_and(|(first, _)| *first == self.expected)
            || self.to_acknowledge().is_some()
    }

    /// The count to be acknowledged, if it is time.
    pub fn to_acknowledge(&self) -> Option<u64> {
        (self.expected - self.told >= ACKNOWLEDGED_EVERY).then_some(self.expected)
    }

    /// The sender has been told that all before `count` was seen.
    pub fn acknowledged(&mut self, count: u64) {
        self.told = count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_name_counts_over_the_end_of_a_cycle() {
        for expected in [0, 1, CYCLE - 1, CYCLE, CYCLE + 1, 7 * CYCLE - 3] {
            for distance in [0, 1, 2, WINDOW - 1] {
                let number = Number::of(expected + distance);
                assert!(!number.is_none());
                assert_eq!(Number::from_bytes(number.bytes()).ahead_of(expected), Some(distance));
            }
            for age in [1, 2, WINDOW, CYCLE - WINDOW] {
                let Some(count) = expected.checked_sub(age) else { continue };
                let arrivals = Arrivals::<()> { expected, ..Arrivals::default() };
                assert_eq!(arrivals.place(Number::of(count)), Place::Seen, "{count} when {expected} is next");
            }
        }
        assert_eq!(Number::NONE.ahead_of(5), None);
        assert_eq!(Arrivals::<()>::default().place(Number::NONE), Place::Seen);
    }

    #[test]
    fn the_window_ends_and_keeps_room_for_the_last_words() {
        let mut numbering = Numbering::default();
        let sent = |numbering: &mut Numbering, room| {
            let is_possible = numbering.next(room).is_some();
            is_possible.then(|| numbering.advance()).is_some()
        };
        let ordinary = (0..2 * WINDOW).take_while(|_| sent(&mut numbering, Room::Ordinary)).count() as u64;
        let acknowledgements = (0..WINDOW).take_while(|_| sent(&mut numbering, Room::Acknowledgement)).count() as u64;
        let last = (0..WINDOW).take_while(|_| sent(&mut numbering, Room::LastWords)).count() as u64;
        assert_eq!((ordinary + acknowledgements + last, acknowledgements, last), (WINDOW, 16, 16));
        assert!(!numbering.acknowledge(FIRST + WINDOW + 1) && numbering.next(Room::LastWords).is_none());
        assert!(numbering.acknowledge(FIRST + WINDOW) && numbering.next(Room::Ordinary).is_some());
        assert!(numbering.acknowledge(FIRST), "an old one says nothing");
        assert_eq!(numbering.next(Room::Ordinary), Some(FIRST + WINDOW));
    }

    proptest! {
        /// Packets come in any order inside of the window, some twice, some without need for a turn: each is dealt with once, the others in order.
        #[test]
        fn every_packet_is_dealt_with_once(shuffle in prop::collection::vec((0u64..WINDOW, any::<bool>(), any::<bool>()), 1..3000)) {
            let mut arrivals = Arrivals::<u64>::default();
            let (mut ordered, mut free) = (Vec::new(), Vec::new());
            let is_free = |count: u64| count.is_multiple_of(5);
            let arrive = |arrivals: &mut Arrivals<u64>, count: u64, ordered: &mut Vec<u64>, free: &mut Vec<u64>| {
                let number = Number::of(count);
                match arrivals.place(number) {
                    Place::Seen => {}
                    _ if is_free(count) => {
                        free.push(count);
                        arrivals.done(number);
                    }
                    Place::Next => {
                        arrivals.advance();
                        ordered.push(count);
                    }
                    Place::Ahead(place) => {
                        assert_eq!(place, count);
                        arrivals.wait(count, count);
                    }
                }
                ordered.extend(std::iter::from_fn(|| arrivals.pop(|_| true)));
            };
            for (distance, again, old) in shuffle {
                let count = arrivals.expected + if again { distance % 3 } else { distance };
                arrive(&mut arrivals, count, &mut ordered, &mut free);
                if old {
                    let count = arrivals.expected.saturating_sub(1 + distance).max(FIRST);
                    if count < arrivals.expected {
                        arrive(&mut arrivals, count, &mut ordered, &mut free);
                    }
                }
            }
            let end = arrivals.ahead.last_key_value().map_or(arrivals.expected, |(last, _)| last + 1);
            for count in arrivals.expected..end {
                arrive(&mut arrivals, count, &mut ordered, &mut free);
            }
            free.sort_unstable();
            prop_assert_eq!(ordered, (FIRST..end).filter(|count| !is_free(*count)).collect::<Vec<_>>());
            prop_assert_eq!(free, (FIRST..end).filter(|count| is_free(*count)).collect::<Vec<_>>());
        }
    }
}
