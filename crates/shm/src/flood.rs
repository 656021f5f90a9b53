//! When an inbox opens more cells: while so much comes through them that the private caches hold what went round
//! (`docs/design/0003-cells.md`).

/// Cells between two looks at the clock: 8 MiB.
const LOOK_EVERY: u32 = 1024;
/// In which time they come in a flood: 1 GiB/s.
const FLOOD_NS: u64 = 8_000_000;

/// Watches how fast cells are received.
#[derive(Default, Debug)]
pub struct Flood {
    cells: u32,
    since_ns: u64,
}

impl Flood {
    /// One more cell was received; whether that is part of a flood. Only now and then looks at the clock.
    #[inline]
    pub fn rises(&mut self, now_ns: impl FnOnce() -> u64) -> bool {
        self.cells += 1;
        if self.cells < LOOK_EVERY {
            return false;
        }
        self.cells = 0;
        let now_ns = now_ns();
        let took_ns = now_ns - std::mem::replace(&mut self.since_ns, now_ns);
        took_ns < FLOOD_NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether `cells` cells, one each `ns`, make a flood.
    fn flood(cells: u64, ns: u64) -> bool {
        let mut flood = Flood::default();
        let start_ns = 1 << 40;
        (0..cells).any(|cell| flood.rises(|| start_ns + cell * ns))
    }

    #[test]
    fn much_at_once_is_a_flood() {
        assert!(flood(4096, 1000));
        assert!(!flood(4096, 10_000), "0.8 GB/s");
        assert!(!flood(1500, 1000), "12 MB");
    }
}
