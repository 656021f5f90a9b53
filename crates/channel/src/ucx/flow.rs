//! The two directions of a link: how much may be under way, and the order of what arrives. UCX keeps no order between messages that it carries by
//! different protocols, and takes any number of them.

use std::collections::{BTreeMap, VecDeque};

/// Packets that the receiver has not consumed.
pub const WINDOW_PACKETS: u32 = 256;
/// Bytes of them, beyond which nothing more is sent.
pub const WINDOW_BYTES: usize = 16 << 20;

/// The sending direction.
#[derive(Debug, Default)]
pub struct Window {
    sent: u32,
    acknowledged: u32,
    /// Bytes of each packet that is not acknowledged.
    sizes: VecDeque<usize>,
    bytes: usize,
}

impl Window {
    /// Whether another packet may be sent.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.sizes.len() < WINDOW_PACKETS as usize && self.bytes < WINDOW_BYTES
    }

    /// The sequence number of the next packet.
    #[inline]
    pub fn next(&self) -> u32 {
        self.sent
    }

    /// A packet with so many bytes of data was sent.
    #[inline]
    pub fn note_sent(&mut self, bytes: usize) {
        self.sent = self.sent.wrapping_add(1);
        self.sizes.push_back(bytes);
        self.bytes += bytes;
    }

    /// The receiver has consumed `count` packets altogether. False if it can't have.
    pub fn acknowledge(&mut self, count: u32) -> bool {
        let news = count.wrapping_sub(self.acknowledged) as usize;
        if news > self.sizes.len() {
            return false;
        }
        self.acknowledged = count;
        self.bytes -= self.sizes.drain(..news).sum::<usize>();
        true
    }

    /// Whether the receiver has consumed everything.
    pub fn is_acknowledged(&self) -> bool {
        self.sizes.is_empty()
    }
}

/// The receiving direction.
#[derive(Debug)]
pub struct Order<T> {
    next: u32,
    early: BTreeMap<u32, T>,
    ready: VecDeque<T>,
    consumed: u32,
    told: u32,
    untold_bytes: usize,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { next: 0, early: BTreeMap::new(), ready: VecDeque::new(), consumed: 0, told: 0, untold_bytes: 0 }
    }
}

impl<T> Order<T> {
    /// A packet has arrived. It is given back if it can't have this number.
    pub fn arrived(&mut self, sequence: u32, packet: T) -> Option<T> {
        let ahead = sequence.wrapping_sub(self.next);
        // One more than the window: the last of a direction is sent without room.
        if ahead > WINDOW_PACKETS {
            return Some(packet);
        }
        if ahead > 0 {
            return self.early.insert(sequence, packet);
        }
        self.ready.push_back(packet);
        self.next = self.next.wrapping_add(1);
        while let Some(packet) = self.early.remove(&self.next) {
            self.ready.push_back(packet);
            self.next = self.next.wrapping_add(1);
        }
        None
    }

    /// The next packet in order.
    pub fn take(&mut self) -> Option<T> {
        self.ready.pop_front()
    }

    /// The next packet in order, which stays.
    pub fn first(&self) -> Option<&T> {
        self.ready.front()
    }

    /// Whether a packet has arrived in its turn.
    pub fn has_begun(&self) -> bool {
        self.next != 0
    }

    /// What has arrived ahead of packets that never will.
    pub fn take_early(&mut self) -> Vec<T> {
        std::mem::take(&mut self.early).into_values().collect()
    }

    /// A packet with so many bytes of data is consumed: the count to acknowledge, if that is due.
    pub fn consumed(&mut self, bytes: usize) -> Option<u32> {
        self.consumed = self.consumed.wrapping_add(1);
        self.untold_bytes += bytes;
        let is_due =
            self.consumed.wrapping_sub(self.told) >= WINDOW_PACKETS / 4 || self.untold_bytes >= WINDOW_BYTES / 4;
        is_due.then(|| self.tell())
    }

    /// The count to acknowledge.
    pub fn tell(&mut self) -> u32 {
        (self.told, self.untold_bytes) = (self.consumed, 0);
        self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_in_order_whatever_the_order_of_arrival() {
        let mut order = Order::default();
        for sequence in [1, 3, 0, 2, 4] {
            assert_eq!(order.arrived(sequence, sequence), None);
        }
        assert_eq!(order.first(), Some(&0));
        assert_eq!(std::iter::from_fn(|| order.take()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(order.arrived(2, 2), Some(2), "it was here");
        assert_eq!(order.arrived(5 + WINDOW_PACKETS + 1, 9), Some(9), "beyond the window");
        assert_eq!(order.arrived(6, 6), None);
        assert_eq!(order.arrived(6, 7), Some(6), "twice");
        assert_eq!(order.take_early(), [7]);
    }

    #[test]
    fn a_full_window_is_always_acknowledged() {
        for size in [0, 1000, 1 << 20, WINDOW_BYTES] {
            let (mut window, mut order) = (Window::default(), Order::default());
            for round in 0..3 {
                let mut sent = 0;
                while window.has_room() {
                    assert_eq!(order.arrived(window.next(), ()), None, "round {round}");
                    window.note_sent(size);
                    sent += 1;
                }
                let mut told = 0;
                for _ in 0..sent {
                    order.take().unwrap();
                    if let Some(count) = order.consumed(size) {
                        assert!(window.acknowledge(count));
                        told += 1;
                    }
                }
                assert!(told > 0 && window.has_room());
            }
            assert!(!window.acknowledge(1 << 31), "more than was sent");
        }
    }
}
