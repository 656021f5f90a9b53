//! Who sleeps: the agreement between a process that goes to sleep and those that may have just sent to it.
//!
//! The sleeper sets its `asleep` word, then looks once more for messages, then sleeps. A sender publishes its message, then
//! looks at the word, and rings if it is set. One of the two must see the other, which takes a full barrier on both
//! sides. The sender's one is spared where the kernel can run it for the sender when the sleeper asks
//! (`membarrier`): going to sleep is slow anyway, sending must not be.
//!
//! The same agreement, with the roles swapped, is made by a sender that waits for room in a ring.
//!
//! Sleeps are bounded all the same: whoever was killed between publishing and ringing must not hang its peer.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{compiler_fence, fence};

/// The word and the barriers; the product's are memory and processor, loom has its own.
pub trait Asleep {
    /// Reads the word, relaxed.
    fn load(&self) -> bool;
    /// Writes the word, relaxed.
    fn store(&self, asleep: bool);
    /// Clears the word; whether it was set. Only one of several callers gets true.
    fn take(&self) -> bool;
    /// A full barrier on this side.
    fn own_barrier(&self) {
        fence(SeqCst);
    }
    /// The barrier of the sleeper: a full one, and on every sender that relies on it.
    fn sleeper_barrier(&self);
}

/// The sleeper's first step; afterwards it must look for messages once more and may then wait for its bell.
pub fn fall_asleep(word: &impl Asleep) {
    word.store(true);
    // SYNC(asleep): pairs with the barrier in `must_ring`.
    word.sleeper_barrier();
}

/// The sleeper is active again, whoever woke it.
pub fn awake(word: &impl Asleep) {
    word.store(false);
}

/// The sender's step after it published a message: whether it has to ring the bell. `covered` says that the sleeper's
/// barrier also runs on this process.
#[inline(always)]
pub fn must_ring(word: &impl Asleep, covered: bool) -> bool {
    // SYNC(asleep): pairs with the barrier in `fall_asleep`.
    if covered {
        compiler_fence(SeqCst);
    } else {
        word.own_barrier();
    }
    word.load() && word.take()
}

/// A word in mapped memory between two processes, both of which run their own barrier: for what is rare on both sides.
#[derive(Debug)]
pub struct OneToOne<'a>(pub &'a std::sync::atomic::AtomicU32);

impl Asleep for OneToOne<'_> {
    fn load(&self) -> bool {
        Asleep::load(self.0)
    }
    fn store(&self, asleep: bool) {
        Asleep::store(self.0, asleep);
    }
    fn take(&self) -> bool {
        self.0.take()
    }
    fn sleeper_barrier(&self) {
        fence(SeqCst);
    }
}

/// A word in mapped memory that any number of processes look at.
impl Asleep for std::sync::atomic::AtomicU32 {
    #[inline(always)]
    fn load(&self) -> bool {
        self.load(Relaxed) != 0
    }
    fn store(&self, asleep: bool) {
        self.store(u32::from(asleep), Relaxed);
    }
    fn take(&self) -> bool {
        self.swap(0, SeqCst) != 0
    }
    fn sleeper_barrier(&self) {
        fence(SeqCst);
        sys::wake::barrier_everywhere();
    }
}
