//! VL arbitration of one port: which lane sends its next packet (InfiniBand Architecture Specification, volume 1, 7.6.9).
//!
//! Two tables of lanes with weights, each a weighted round robin. The high table goes first, until it has nothing to send or has sent its limit
//! while the low table had to wait; then one packet of the low table goes, and the limit counts anew. A turn ends when the weight is used up. The last packet of a
//! turn may exceed it, and nothing is carried over, as in the specification. So shares are exact to one packet in each turn.

use super::tables::{Arbitration, Entry, LIMIT_BYTES, LIMIT_NEVER, WEIGHT_BYTES};

/// Where a table is in its round.
#[derive(Clone, Debug, Default)]
struct Round {
    at: usize,
    /// What the entry may still send, in units of 64 bytes.
    left: u32,
}

impl Round {
    /// The lane whose turn it is: the current entry if it may go on, else the next one that can send.
    fn pick(&mut self, entries: &[Entry], ready: u16) -> Option<u8> {
        if let Some(entry) = entries.get(self.at).filter(|entry| self.left > 0 && ready & (1 << entry.lane) != 0) {
            return Some(entry.lane);
        }
        for step in 1..=entries.len() {
            let at = (self.at + step) % entries.len();
            let entry = entries[at];
            if entry.weight > 0 && ready & (1 << entry.lane) != 0 {
                *self = Round { at, left: u32::from(entry.weight) };
                return Some(entry.lane);
            }
        }
        None
    }

    fn sent(&mut self, bytes: u32) {
        self.left = self.left.saturating_sub(bytes.div_ceil(WEIGHT_BYTES));
    }
}

/// The state of one port's arbitration.
#[derive(Clone, Debug)]
pub struct Arbiter {
    high: Round,
    low: Round,
    /// What the high table may send before a waiting low packet goes, in bytes.
    limit_left: i64,
    /// Lanes of the low table that have weight.
    low_lanes: u16,
}

impl Arbiter {
    /// At the begin of both tables: the first entry has the first turn.
    pub fn new(tables: &Arbitration) -> Arbiter {
        let begin = |entries: &[Entry]| Round { at: entries.len().saturating_sub(1), left: 0 };
        let lanes = |entries: &[Entry]| entries.iter().filter(|e| e.weight > 0).fold(0, |mask, e| mask | 1 << e.lane);
        Arbiter {
            high: begin(&tables.high),
            low: begin(&tables.low),
            limit_left: limit(tables),
            low_lanes: lanes(&tables.low),
        }
    }

    /// The lane that sends now, of those that are `ready` (a bit for each lane: a packet waits and the peer has room for it); `bytes` is the size
    /// of a lane's next packet. The packet counts as sent.
    pub fn choose(&mut self, tables: &Arbitration, ready: u16, bytes: impl Fn(u8) -> u32) -> Option<u8> {
        let low_waits = ready & self.low_lanes != 0;
        let high_may = tables.high_limit == LIMIT_NEVER || self.limit_left > 0 || !low_waits;
        if high_may && let Some(lane) = self.high.pick(&tables.high, ready) {
            let bytes = bytes(lane);
            self.high.sent(bytes);
            self.limit_left = if low_waits { self.limit_left - i64::from(bytes) } else { limit(tables) };
            return Some(lane);
        }
        let lane = self.low.pick(&tables.low, ready)?;
        self.low.sent(bytes(lane));
        self.limit_left = limit(tables);
        Some(lane)
    }
}

/// A limit of 0 lets one packet through, as one of 1 byte does.
fn limit(tables: &Arbitration) -> i64 {
    i64::from((u32::from(tables.high_limit) * LIMIT_BYTES).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(pairs: &[(u8, u8)]) -> Vec<Entry> {
        pairs.iter().map(|(lane, weight)| Entry { lane: *lane, weight: *weight }).collect()
    }

    fn order(tables: &Arbitration, ready: u16, bytes: u32, count: usize) -> Vec<u8> {
        let mut arbiter = Arbiter::new(tables);
        (0..count).filter_map(|_| arbiter.choose(tables, ready, |_| bytes)).collect()
    }

    #[test]
    fn weights_are_packets_of_their_size() {
        let tables = Arbitration { high: vec![], low: entries(&[(0, 64), (1, 32), (2, 0)]), high_limit: 0 };
        assert_eq!(order(&tables, 0b11, 2048, 6), [0, 0, 1, 0, 0, 1]);
        assert_eq!(order(&tables, 0b10, 2048, 3), [1, 1, 1], "an idle lane's turn goes to the others");
        assert_eq!(order(&tables, 0b100, 2048, 3), [0; 0], "weight 0 never sends");
        assert_eq!(order(&tables, 0b11, 2080, 6), [0, 0, 1, 0, 0, 1], "the last packet of a turn may exceed it");
    }

    #[test]
    fn the_limit_lets_low_packets_through() {
        let tables = |high_limit| Arbitration { high: entries(&[(0, 255)]), low: entries(&[(1, 1)]), high_limit };
        assert_eq!(order(&tables(0), 0b11, 2048, 4), [0, 1, 0, 1]);
        assert_eq!(order(&tables(1), 0b11, 2048, 6), [0, 0, 1, 0, 0, 1]);
        assert_eq!(order(&tables(2), 0b11, 1024, 10), [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
        assert_eq!(order(&tables(255), 0b11, 2048, 50), [0; 50]);
        assert_eq!(order(&tables(0), 0b10, 2048, 3), [1, 1, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Lanes that always have packets share by their weights: after whole rounds each has sent its weight, and at most one packet more each turn.
        #[test]
        fn shares_follow_weights(weights in prop::collection::vec(1u8..=255, 1..15), sizes in prop::collection::vec(64u32..4200, 15), rounds in 1u64..20) {
            let pairs: Vec<(u8, u8)> = weights.iter().enumerate().map(|(lane, weight)| (lane as u8, *weight)).collect();
            let tables = Arbitration { high: vec![], low: entries(&pairs), high_limit: 0 };
            let mut arbiter = Arbiter::new(&tables);
            let ready = (1u16 << weights.len()) - 1;
            let mut sent = vec![0u64; weights.len()];
            let (mut turns, mut last) = (0, usize::MAX);
            // One lane alone has no turns that one could see.
            let all = if weights.len() == 1 { 0 } else { rounds * weights.len() as u64 };
            loop {
                let lane = usize::from(arbiter.choose(&tables, ready, |lane| sizes[usize::from(lane)]).unwrap());
                turns += u64::from(lane != last);
                if turns > all { break }
                last = lane;
                sent[lane] += u64::from(sizes[lane]);
            }
            for (lane, weight) in weights.iter().enumerate().filter(|_| all > 0) {
                let exact = rounds * u64::from(*weight) * 64;
                // A packet counts in whole units of 64 bytes, so a turn may also send less than its weight: by less than 64 bytes a packet.
                let packets = sent[lane] / u64::from(sizes[lane]);
                prop_assert!(sent[lane] + 64 * packets >= exact && sent[lane] <= exact + rounds * u64::from(sizes[lane]),
                    "lane {lane} has sent {} of {exact}", sent[lane]);
            }
        }
    }
}
