//! Credits: what a sender may send into the input buffer at the other end of its link, lane by lane, in blocks of 64 bytes.
//!
//! A packet takes its blocks when it begins to leave. They are free again when it has left that buffer, and the sender knows it one link latency
//! later. Such returns are kept in a queue with their time and counted when somebody looks, so they are no events of their own.

use std::collections::VecDeque;

/// Bytes of a block (IBA volume 1, 7.9.4: flow control blocks).
pub const BLOCK_BYTES: u32 = 64;

/// How an input port divides its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffering {
    /// Each lane has a buffer of its own, of so many bytes.
    Private {
        /// Of each lane.
        lane_bytes: u32,
    },
    /// A port has so many bytes, divided evenly among its lanes.
    Divided {
        /// Of all lanes together.
        port_bytes: u32,
    },
    /// Each lane has a reserve, and all of them share a pool.
    Shared {
        /// Of each lane.
        reserve_bytes: u32,
        /// Of all lanes together, beside the reserves.
        pool_bytes: u32,
    },
}

impl Buffering {
    /// Blocks that a lane has for itself, and blocks that all share.
    pub fn blocks(self, lanes: usize) -> (u32, u32) {
        match self {
            Buffering::Private { lane_bytes } => (lane_bytes / BLOCK_BYTES, 0),
            Buffering::Divided { port_bytes } => (port_bytes / BLOCK_BYTES / lanes as u32, 0),
            Buffering::Shared { reserve_bytes, pool_bytes } => (reserve_bytes / BLOCK_BYTES, pool_bytes / BLOCK_BYTES),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Lane {
    used: u32,
    /// Blocks that come back, with their times in ps, in order.
    returns: VecDeque<(u64, u32)>,
}

/// The credits of one link, at its sender.
#[derive(Clone, Debug)]
pub struct Credits {
    reserve: u32,
    pool: u32,
    pool_used: u32,
    lanes: Vec<Lane>,
}

impl Credits {
    /// All blocks are free.
    pub fn new(lanes: usize, buffering: Buffering) -> Credits {
        let (reserve, pool) = buffering.blocks(lanes);
        Credits { reserve, pool, pool_used: 0, lanes: vec![Lane::default(); lanes] }
    }

    /// Counts what has come back until now.
    #[inline]
    pub fn settle(&mut self, lane: usize, now_ps: u64) {
        while let Some((at_ps, blocks)) = self.lanes[lane].returns.front().copied().filter(|(at, _)| *at <= now_ps) {
            self.lanes[lane].returns.pop_front();
            let used = self.lanes[lane].used;
            debug_assert!(used >= blocks, "{blocks} blocks come back at {at_ps} ps, {used} are used");
            let left = used - blocks;
            self.pool_used -= used.saturating_sub(self.reserve) - left.saturating_sub(self.reserve);
            self.lanes[lane].used = left;
        }
    }

    /// Whether a packet may go; what has come back must have been counted.
    #[inline]
    pub fn has(&self, lane: usize, blocks: u32) -> bool {
        let used = self.lanes[lane].used;
        blocks <= self.reserve.saturating_sub(used) + (self.pool - self.pool_used)
    }

    /// A packet goes, for which there is room.
    #[inline]
    pub fn take(&mut self, lane: usize, blocks: u32) {
        debug_assert!(self.has(lane, blocks));
        let used = self.lanes[lane].used;
        self.pool_used += (used + blocks).saturating_sub(self.reserve) - used.saturating_sub(self.reserve);
        self.lanes[lane].used = used + blocks;
    }

    /// Blocks come back at this time, or with those that come back before them if that is later: a buffer is freed in its order. Returns the time.
    #[inline]
    pub fn give_back(&mut self, lane: usize, at_ps: u64, blocks: u32) -> u64 {
        let returns = &mut self.lanes[lane].returns;
        let at_ps = returns.back().map_or(at_ps, |(last, _)| at_ps.max(*last));
        returns.push_back((at_ps, blocks));
        at_ps
    }

    /// When the next blocks of this lane come back.
    pub fn next_return(&self, lane: usize) -> Option<u64> {
        self.lanes[lane].returns.front().map(|(at, _)| *at)
    }

    /// Whether lanes share memory, so that one waits for what another gives back.
    pub fn is_shared(&self) -> bool {
        self.pool > 0
    }

    /// Blocks of a lane that are taken, and of these how many are on their way back.
    pub fn in_use(&self, lane: usize) -> (u32, u32) {
        let lane = &self.lanes[lane];
        (lane.used, lane.returns.iter().map(|(_, blocks)| blocks).sum())
    }

    /// Whether no more is taken than there is.
    pub fn is_sound(&self) -> bool {
        let over = |lane: &Lane| lane.used.saturating_sub(self.reserve);
        self.pool_used <= self.pool && self.pool_used == self.lanes.iter().map(over).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_buffer_is_its_lanes_alone() {
        let mut credits = Credits::new(2, Buffering::Private { lane_bytes: 640 });
        assert!(credits.has(0, 10) && !credits.has(0, 11));
        credits.take(0, 10);
        assert!(!credits.has(0, 1) && credits.has(1, 10));
        assert_eq!(credits.give_back(0, 500, 4), 500);
        assert_eq!(credits.give_back(0, 400, 6), 500, "freed in order");
        credits.settle(0, 499);
        assert!(!credits.has(0, 1));
        assert_eq!((credits.next_return(0), credits.in_use(0)), (Some(500), (10, 10)));
        credits.settle(0, 500);
        assert!(credits.has(0, 10) && credits.is_sound());
    }

    #[test]
    fn a_pool_is_for_who_comes_first() {
        let mut credits = Credits::new(2, Buffering::Shared { reserve_bytes: 128, pool_bytes: 256 });
        credits.take(0, 5);
        assert!(credits.has(0, 1) && !credits.has(0, 2) && credits.has(1, 3) && !credits.has(1, 4));
        credits.take(1, 3);
        assert!(credits.is_sound() && !credits.has(0, 1) && !credits.has(1, 1));
        credits.give_back(0, 10, 4);
        credits.settle(0, 10);
        assert!(credits.is_sound() && credits.has(1, 3) && !credits.has(1, 4));
    }

    #[test]
    fn memory_is_divided_evenly() {
        assert_eq!(Buffering::Divided { port_bytes: 8192 }.blocks(8), (16, 0));
        assert_eq!(Buffering::Private { lane_bytes: 8192 }.blocks(8), (128, 0));
    }
}
