//! Calls that need no lock as long as the library's own thread stays outside (decision 0060).
//!
//! Below `MPI_THREAD_MULTIPLE` calls take no lock. A thread of the library that may come in at any time ([`crate::migration`]) changes that, but it comes in a few times in the life of
//! a job. So a call only marks that it is inside, and looks at the mode; the thread changes the mode, and looks at the mark:
//!
//! | a call comes in ([`mark`]) | a call leaves ([`unmark`]) | the thread ([`claim`]) |
//! |---|---|---|
//! | writes `INSIDE` | writes `INSIDE` | writes the mode |
//! | | | `membarrier`: a barrier on every running thread of this process |
//! | reads the mode | reads the mode | reads `INSIDE` |
//!
//! A call has no barrier of its own: the thread's is run between its two accesses, before them or behind them. So one of both sees what the other one has written.
//! A call that comes in and finds the mode changed takes the mark back, and takes the lock. A thread that finds the mark waits until its bell rings: a call that leaves
//! and finds the mode changed rings it. As long as the claim lasts all calls take the lock, and so does the thread.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, compiler_fence};
use std::sync::{Arc, Mutex, PoisonError};
use sys::wake::Bell;

/// How calls of the program come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// As they are: nobody else does.
    Unlocked,
    /// With the lock.
    Locked,
    /// With the mark.
    Biased,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Locked as u8);

/// How many calls are inside by the mark: more than one in callbacks. Only the program's calls write it, which come one at a time.
static INSIDE: AtomicU32 = AtomicU32::new(0);

/// What the mode follows from.
struct Reasons {
    /// Several threads of the program may call at a time.
    several: bool,
    /// The thread's bell, while there is a thread.
    bell: Option<Arc<Bell>>,
    /// The kernel has `membarrier`.
    barrier: bool,
    claimed: bool,
}

static REASONS: Mutex<Reasons> = Mutex::new(Reasons { several: true, bell: None, barrier: false, claimed: false });

/// How calls come in now.
#[inline(always)]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        mode if mode == Mode::Unlocked as u8 => Mode::Unlocked,
        mode if mode == Mode::Locked as u8 => Mode::Locked,
        _ => Mode::Biased,
    }
}

fn change<R>(f: impl FnOnce(&mut Reasons) -> R) -> R {
    let mut reasons = REASONS.lock().unwrap_or_else(PoisonError::into_inner);
    let result = f(&mut reasons);
    let mode = match () {
        () if reasons.several || reasons.claimed => Mode::Locked,
        () if reasons.bell.is_none() => Mode::Unlocked,
        () if reasons.barrier => Mode::Biased,
        () => Mode::Locked,
    };
    // SYNC(bias): publishes what the thread did inside to the calls that come in by the mark.
    MODE.store(mode as u8, Ordering::SeqCst);
    result
}

/// Says whether several threads of the program may call at a time.
pub(crate) fn set_several(several: bool) {
    change(|reasons| reasons.several = several);
}

/// From now on a thread of the library may come in, whose bell this is; called while several threads may call.
pub fn begin(bell: Arc<Bell>) {
    let barrier = sys::wake::register_barrier() && sys::wake::barrier_everywhere();
    change(|reasons| (reasons.bell, reasons.barrier, reasons.claimed) = (Some(bell), barrier, false));
}

/// The thread is gone; called while several threads may call.
pub fn end() {
    change(|reasons| (reasons.bell, reasons.claimed) = (None, false));
}

/// The thread wants to come in: from now on calls take the lock. False if one is inside by the mark; the bell rings when it leaves, and then this is called again.
pub fn claim() -> bool {
    let barrier = change(|reasons| {
        reasons.claimed = true;
        reasons.barrier
    });
    // Without the system call nobody has ever come in by the mark.
    let seen = !barrier || sys::wake::barrier_everywhere();
    // SYNC(bias): acquires what the call did before `unmark`.
    seen && INSIDE.load(Ordering::Acquire) == 0
}

/// The thread has left.
pub fn release() {
    change(|reasons| reasons.claimed = false);
}

/// Whether a call is inside by the mark at the moment.
pub fn is_marked() -> bool {
    INSIDE.load(Ordering::Relaxed) > 0
}

/// Marks that a call is inside. False if the thread wants to come in.
#[inline(always)]
pub(crate) fn mark() -> bool {
    INSIDE.store(INSIDE.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    // The processor's part is the thread's `membarrier`.
    compiler_fence(Ordering::SeqCst);
    // SYNC(bias): acquires what the thread did before `release`.
    let is_free = MODE.load(Ordering::Acquire) == Mode::Biased as u8;
    if !is_free {
        unmark();
    }
    is_free
}

/// A call leaves.
#[inline(always)]
pub(crate) fn unmark() {
    // SYNC(bias): publishes what the call did to the thread's `claim`.
    INSIDE.store(INSIDE.load(Ordering::Relaxed) - 1, Ordering::Release);
    compiler_fence(Ordering::SeqCst);
    if mode() != Mode::Biased {
        ring();
    }
}

#[cold]
fn ring() {
    if let Some(bell) = &REASONS.lock().unwrap_or_else(PoisonError::into_inner).bell {
        bell.ring();
    }
}
