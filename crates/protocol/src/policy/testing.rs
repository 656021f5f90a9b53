//! When a program that tests in a loop gives its processor away.
//!
//! ```text
//!           patience test calls in a row found nothing: gives it away
//! patient ◄──────────────────────────────────────────────────────────┐ patience doubles, up to TEST_PATIENCE_MAX
//!    │  └────────────────────────────────────────────────────────────┘
//!    └─ something was found soon afterwards: patience is TEST_PATIENCE again
//! ```
//! A program that tests in a loop on a node with more ranks than processors would keep the others from what it waits for. Each time that
//! giving the processor away brings nothing soon makes it rarer, for a program may also test between the steps of its own work.
//!
//! The counts are only hints, so threads may overwrite each other's.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

base::config! {
    /// Test calls in a row that find nothing until the processor is given away, on a node with more ranks than processors; 0: never.
    TEST_PATIENCE: u64 = 16, 0..=1000000, "calls";
    /// The same at most, after the processor was given away in vain.
    TEST_PATIENCE_MAX: u64 = 128, 1..=1000000, "calls";
}

/// The test calls of one process.
#[derive(Debug)]
pub struct Testing {
    /// Those that have found nothing since the processor was last given away.
    in_vain: AtomicU32,
    /// How many of them it takes until it is given away again; 0: as the setting says.
    patience: AtomicU32,
}

impl Testing {
    /// As patient as the setting says.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Testing {
        Testing { in_vain: AtomicU32::new(0), patience: AtomicU32::new(0) }
    }

    /// A call has found nothing; whether to give the processor away.
    pub fn found_nothing(&self) -> bool {
        let least = TEST_PATIENCE.value() as u32;
        let patience = self.patience.load(Relaxed).max(least);
        let count = self.in_vain.load(Relaxed) + 1;
        if count < patience || least == 0 {
            self.in_vain.store(count.min(patience), Relaxed);
            return false;
        }
        self.in_vain.store(0, Relaxed);
        self.patience.store((patience * 2).min(TEST_PATIENCE_MAX.value() as u32), Relaxed);
        true
    }

    /// A call has found something. If that was soon after the processor was given away, this was worth it.
    pub fn found_something(&self) {
        let soon = 2 * TEST_PATIENCE.value() as u32;
        if self.in_vain.load(Relaxed) < soon {
            self.patience.store(0, Relaxed);
        }
        self.in_vain.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vain_gifts_become_rarer_until_one_helps() {
        let testing = Testing::new();
        let calls_until_gift = || (1..).find(|_| testing.found_nothing()).unwrap();
        assert_eq!([(); 5].map(|()| calls_until_gift()), [16, 32, 64, 128, 128]);
        (0..40).for_each(|_| assert!(!testing.found_nothing()));
        testing.found_something();
        assert_eq!(calls_until_gift(), 128, "that was late");
        testing.found_something();
        assert_eq!(calls_until_gift(), 16);
    }
}
