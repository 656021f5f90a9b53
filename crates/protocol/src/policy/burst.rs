//! How much memory an inbox lends to its senders.
//!
//! ```text
//!           BURST_WINDOW_BYTES came in less than BURST_WINDOW_US
//! nothing ────────────────────────────────────────────────────────► lent ──┐ more senders: more memory,
//!    ▲                                                                │ ▲  │ each gets an equal share
//!    └───────────── the process rests (waits in MPI for long) ────────┘ └──┘
//! ```
//! Large payloads are copied twice, by the sender into the inbox and by the receiver out of it. If they go round through little memory,
//! each line that the sender writes is still in the receiver's private caches and must be taken away from there. If they go round through
//! 1 to 2 MiB, it has moved to the shared cache, where both reach it at full speed (docs/design/0003-cells.md).

base::config! {
    /// Most memory that a process lends to those who stream large messages to it; given back when it rests. 0 turns it off.
    BURST_BYTES: u64 = 5242880, 0..=67108864, "bytes";
    /// Most of it that one sender gets.
    BURST_PEER_BYTES: u64 = 2097152, 131072..=67108864, "bytes";
    /// Messages up to this never use it: they gain nothing, and new memory must be touched first.
    BURST_MESSAGE_BYTES: u64 = 65536, 0..=67108864, "bytes";
    /// Memory is lent when so much has come ...
    BURST_WINDOW_BYTES: u64 = 8388608, 65536..=1073741824, "bytes";
    /// ... in less time than this.
    BURST_WINDOW_US: u64 = 8000, 1..=1000000, "µs";
}

/// What an inbox should lend from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lend {
    /// Segments, for all senders together.
    pub segments: usize,
    /// Most segments of one sender.
    pub share: usize,
}

/// Watches how fast large payloads are received.
#[derive(Debug)]
pub struct Burst {
    /// Segments that there are, and the most that one sender gets.
    segments: usize,
    peer_segments: usize,
    window_bytes: usize,
    window_ns: u64,
    /// Bytes of this window, and when it began.
    bytes: usize,
    since_ns: u64,
    /// Who has sent in this window, and who was the last.
    senders: Vec<bool>,
    last: usize,
    lent: Lend,
}

const NOTHING: Lend = Lend { segments: 0, share: 0 };

impl Burst {
    /// For an inbox of `senders` senders, `segments` segments of `segment_bytes`.
    pub fn new(senders: usize, segments: usize, segment_bytes: usize) -> Burst {
        Burst {
            segments,
            peer_segments: BURST_PEER_BYTES.value() as usize / segment_bytes,
            window_bytes: BURST_WINDOW_BYTES.value() as usize,
            window_ns: BURST_WINDOW_US.value() * 1000,
            bytes: 0,
            since_ns: 0,
            senders: vec![false; senders],
            last: usize::MAX,
            lent: NOTHING,
        }
    }

    /// `bytes` more have come from `sender`; what to lend, if that changes. Only now and then looks at the clock.
    #[inline]
    pub fn received(&mut self, sender: usize, bytes: usize, now_ns: impl FnOnce() -> u64) -> Option<Lend> {
        self.bytes += bytes;
        if sender != self.last {
            self.last = sender;
            self.senders[sender] = true;
        }
        if self.bytes < self.window_bytes { None } else { self.window_ends(now_ns()) }
    }

    #[cold]
    fn window_ends(&mut self, now_ns: u64) -> Option<Lend> {
        let took_ns = now_ns.saturating_sub(std::mem::replace(&mut self.since_ns, now_ns));
        let senders = self.senders.iter().filter(|sent| **sent).count().max(1);
        self.senders.fill(false);
        (self.bytes, self.last) = (0, usize::MAX);
        if took_ns >= self.window_ns || self.segments == 0 {
            return None;
        }
        let most = self.segments.min(self.peer_segments * senders).max(self.lent.segments);
        let lend = Lend { segments: most, share: self.peer_segments.min(most / senders) };
        let is_new = lend != self.lent;
        self.lent = lend;
        is_new.then_some(lend)
    }

    /// The process rests: it lends nothing any more.
    pub fn rest(&mut self) {
        self.lent = NOTHING;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: usize = 65536;

    /// What is lent after `pieces` pieces of 8 KiB, one each `ns`, from so many senders in turn.
    fn lent(burst: &mut Burst, pieces: u64, ns: u64, senders: u64) -> Option<Lend> {
        let start_ns = 1 << 40;
        let lend = |piece| burst.received((piece % senders) as usize, 8192, || start_ns + piece * ns);
        (0..pieces).filter_map(lend).last()
    }

    #[test]
    fn much_at_once_is_a_burst() {
        let new = || Burst::new(8, 80, SEGMENT);
        assert_eq!(lent(&mut new(), 4096, 1000, 1), Some(Lend { segments: 32, share: 32 }));
        assert_eq!(lent(&mut new(), 4096, 10_000, 1), None, "0.8 GB/s");
        assert_eq!(lent(&mut new(), 1500, 1000, 1), None, "12 MB");
        assert_eq!(lent(&mut Burst::new(8, 0, SEGMENT), 4096, 1000, 1), None, "turned off");
    }

    #[test]
    fn senders_share_what_there_is() {
        let mut burst = Burst::new(8, 80, SEGMENT);
        assert_eq!(lent(&mut burst, 4096, 1000, 2), Some(Lend { segments: 64, share: 32 }));
        assert_eq!(lent(&mut burst, 4096, 1000, 2), None, "nothing new");
        assert_eq!(lent(&mut burst, 4096, 1000, 7), Some(Lend { segments: 80, share: 11 }));
        assert_eq!(lent(&mut burst, 4096, 1000, 1), Some(Lend { segments: 80, share: 32 }), "the others have stopped");
        burst.rest();
        assert_eq!(lent(&mut burst, 4096, 1000, 1), Some(Lend { segments: 32, share: 32 }));
    }
}
