//! The queue of events: a calendar of short buckets for the near future, a heap for the rest.
//!
//! An event is a time in picoseconds and a word that says what happens. Events come out by time, and those of one time in the order in which they
//! went in. A bucket is sorted when its turn comes. The sort is stable, so no event needs a sequence number, except in the heap.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Buckets of the calendar.
const BUCKETS: u64 = 1024;
const WORDS: usize = (BUCKETS / 64) as usize;

/// See the head of this file.
pub struct Calendar {
    /// A bucket lasts 2^shift ps.
    shift: u32,
    buckets: Vec<Vec<(u64, u32)>>,
    /// One bit for each bucket after the current one that is not empty.
    occupied: [u64; WORDS],
    /// Number of the current bucket since time 0; it is sorted.
    current: u64,
    /// Events of the current bucket that have come out.
    position: usize,
    /// What is beyond the last bucket; with the order of insertion.
    later: BinaryHeap<Reverse<(u64, u64, u32)>>,
    inserted_later: u64,
}

impl Calendar {
    /// Empty, at time 0. `bucket_ps` is rounded down to a power of two.
    pub fn new(bucket_ps: u64) -> Calendar {
        Calendar {
            shift: bucket_ps.max(1).ilog2(),
            buckets: vec![Vec::new(); BUCKETS as usize],
            occupied: [0; WORDS],
            current: 0,
            position: 0,
            later: BinaryHeap::new(),
            inserted_later: 0,
        }
    }

    /// Adds an event. A time before that of the event that came out last counts as that time.
    #[inline]
    pub fn push(&mut self, at_ps: u64, what: u32) {
        let bucket = at_ps >> self.shift;
        if bucket > self.current {
            if bucket - self.current < BUCKETS {
                self.put(bucket, at_ps, what);
            } else {
                self.inserted_later += 1;
                self.later.push(Reverse((at_ps, self.inserted_later, what)));
            }
            return;
        }
        let now = &mut self.buckets[(self.current % BUCKETS) as usize];
        let after = self.position + now[self.position..].partition_point(|(time, _)| *time <= at_ps);
        now.insert(after, (at_ps, what));
    }

    #[inline]
    fn put(&mut self, bucket: u64, at_ps: u64, what: u32) {
        let index = (bucket % BUCKETS) as usize;
        self.buckets[index].push((at_ps, what));
        self.occupied[index / 64] |= 1 << (index % 64);
    }

    /// Takes the next event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, u32)> {
        loop {
            let now = &mut self.buckets[(self.current % BUCKETS) as usize];
            if let Some(event) = now.get(self.position) {
                self.position += 1;
                return Some(*event);
            }
            now.clear();
            self.position = 0;
            self.current = self.next_bucket()?;
            self.collect_later();
            let index = (self.current % BUCKETS) as usize;
            self.occupied[index / 64] &= !(1 << (index % 64));
            self.buckets[index].sort_by_key(|(time, _)| *time);
        }
    }

    /// The next bucket with an event in it.
    fn next_bucket(&self) -> Option<u64> {
        let from = (self.current % BUCKETS) as usize;
        for step in 0..=WORDS {
            let word = (from / 64 + step) % WORDS;
            // The first word counts from the current bucket on, and once more, at the end, up to it.
            let mask = match step {
                0 => u64::MAX << (from % 64),
                WORDS => !(u64::MAX << (from % 64)),
                _ => u64::MAX,
            };
            let found = self.occupied[word] & mask;
            if found != 0 {
                let index = (word * 64) as u64 + u64::from(found.trailing_zeros());
                return Some(self.current + (index + BUCKETS - from as u64) % BUCKETS);
            }
        }
        self.later.peek().map(|Reverse((at_ps, ..))| at_ps >> self.shift)
    }

    /// Moves what the calendar now reaches out of the heap, before anything newer is put beside it.
    fn collect_later(&mut self) {
        while let Some(Reverse((at_ps, _, what))) = self.later.peek().copied() {
            let bucket = at_ps >> self.shift;
            if bucket - self.current >= BUCKETS {
                break;
            }
            self.later.pop();
            self.put(bucket, at_ps, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// Against a sorted list. Each step adds some events after the current time and takes some out.
        #[test]
        fn events_come_out_by_time_and_order(
            shift in 0u32..12,
            steps in prop::collection::vec((prop::collection::vec(prop_oneof![0u64..40, 0u64..5_000, 0u64..100_000_000], 0..12), 0usize..14), 1..40),
        ) {
            let mut calendar = Calendar::new(1 << shift);
            let mut expected: Vec<(u64, u32)> = Vec::new();
            let (mut now, mut number) = (0, 0);
            for (delays, takes) in steps {
                for delay in delays {
                    calendar.push(now + delay, number);
                    expected.push((now + delay, number));
                    number += 1;
                }
                expected.sort();
                for _ in 0..takes {
                    let first = if expected.is_empty() { None } else { Some(expected.remove(0)) };
                    prop_assert_eq!(calendar.pop(), first);
                    now = first.map_or(now, |(at, _)| at);
                }
            }
            for event in expected {
                prop_assert_eq!(calendar.pop(), Some(event));
            }
            prop_assert_eq!(calendar.pop(), None);
        }
    }
}
