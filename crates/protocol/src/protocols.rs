//! Which protocol a message takes: a pure function of its length and what its lane can do.

use crate::transport::Caps;
use std::fmt;

/// The send modes that the protocol tells apart (MPI-5.0, 3.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Complete when the buffer may be reused.
    Standard,
    /// Complete when the receive has been matched.
    Synchronous,
}

/// Longest message in fragments that is accepted.
pub const FRAGMENTED_MAX: usize = 1 << 24;

/// How a message travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// One packet.
    Eager,
    /// Several packets, which follow each other whether a receive is posted or not.
    Fragments,
    /// As fragments, in large packets whose data go straight to their place if a receive is posted. So a sender that goes to compute leaves nothing undone.
    Pushed,
    /// The receiver is told the address; it pulls the data from the sender's memory, or has them streamed where that has been faster.
    /// Data that aren't contiguous are streamed.
    Pulled,
    /// The receiver asks for the data when it has a place for them.
    Streamed,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Eager => "eager",
            Protocol::Fragments => "eager, in fragments",
            Protocol::Pushed => "eager, pushed",
            Protocol::Pulled => "rendezvous, pulled",
            Protocol::Streamed => "rendezvous, streamed",
        })
    }
}

impl Caps {
    /// The protocol for `len` bytes.
    #[inline]
    pub fn protocol(&self, len: usize, mode: Mode) -> Protocol {
        if len <= self.eager_max {
            Protocol::Eager
        } else if len <= self.fragments_max && mode == Mode::Standard {
            Protocol::Fragments
        } else if len <= self.push_max && mode == Mode::Standard {
            Protocol::Pushed
        } else if len >= self.pull_min {
            Protocol::Pulled
        } else {
            Protocol::Streamed
        }
    }

    /// The protocol for `len` bytes, which would go in one packet, where envelope and payload go apart.
    pub fn divided(&self, len: usize, mode: Mode) -> Protocol {
        if mode == Mode::Standard && len <= FRAGMENTED_MAX { Protocol::Fragments } else { Protocol::Streamed }
    }

    /// All sizes by protocol, ascending: the first and the last length of each range; the last range has no end.
    pub fn ranges(&self, mode: Mode) -> Vec<(usize, Option<usize>, Protocol)> {
        let after = |end: usize| end.checked_add(1);
        let starts =
            [Some(0), after(self.eager_max), after(self.fragments_max), after(self.push_max), Some(self.pull_min)];
        let mut starts: Vec<usize> = starts.into_iter().flatten().filter(|start| *start != usize::MAX).collect();
        starts.sort_unstable();
        let mut ranges: Vec<(usize, Option<usize>, Protocol)> = Vec::new();
        for start in starts {
            let protocol = self.protocol(start, mode);
            match ranges.last_mut() {
                Some(last) if last.0 == start || last.2 == protocol => {}
                last => {
                    if let Some(last) = last {
                        last.1 = Some(start - 1);
                    }
                    ranges.push((start, None, protocol));
                }
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_of_a_lane_with_all_protocols() {
        let caps = Caps { packet_max: 20, piece_min: 12, eager_max: 10, fragments_max: 100, push_max: 0, pull_min: 12 };
        assert_eq!(
            caps.ranges(Mode::Standard),
            [(0, Some(10), Protocol::Eager), (11, Some(100), Protocol::Fragments), (101, None, Protocol::Pulled)]
        );
        assert_eq!(
            caps.ranges(Mode::Synchronous),
            [(0, Some(10), Protocol::Eager), (11, Some(11), Protocol::Streamed), (12, None, Protocol::Pulled)]
        );
    }

    #[test]
    fn pieces_grow_with_the_message() {
        let limits =
            Caps { packet_max: 32776, piece_min: 8192, eager_max: 0, fragments_max: 0, push_max: 0, pull_min: 0 };
        assert_eq!(
            [1, 16384, 65536, 65537, 131072, 1 << 20, u64::MAX].map(|whole| limits.piece_max(whole)),
            [8192, 8192, 8192, 8192, 16384, 32768, 32768]
        );
        let small = Caps { packet_max: 4096, ..limits };
        assert_eq!(small.piece_max(1 << 20), 4088, "never more than a packet");
    }

    proptest! {
        #[test]
        fn ranges_agree_with_the_choice(
            eager_max in 0..50usize,
            fragments_max in 0..50usize,
            pull_min in prop_oneof![0..50usize, Just(usize::MAX)],
            synchronous: bool,
        ) {
            let caps = Caps { packet_max: 64, piece_min: 8, eager_max, fragments_max, push_max: 0, pull_min };
            let mode = if synchronous { Mode::Synchronous } else { Mode::Standard };
            let ranges = caps.ranges(mode);
            for len in 0..60 {
                let of: Vec<_> = ranges.iter().filter(|r| r.0 <= len && r.1.is_none_or(|end| len <= end)).collect();
                prop_assert_eq!(of.len(), 1);
                prop_assert_eq!(of[0].2, caps.protocol(len, mode));
            }
        }
    }
}
