//! The critical section: one reentrant lock around every MPI call.
//!
//! Only a program that asked for `MPI_THREAD_MULTIPLE` pays for it: below that level [`enter`] is one load of a flag.
//! Everything in this crate (tables, `Rc`s, the engine) relies on being inside. Callbacks of the program run inside too and
//! may call MPI again, hence reentrant. A wait that sleeps gives the lock away completely ([`released`]).

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// True until initialisation says that only one thread calls at a time.
static LOCKING: AtomicBool = AtomicBool::new(true);

/// The thread inside (its [`thread_id`]), 0 for none.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// Guards nothing but the hand-over of `OWNER`.
static HANDOVER: Mutex<u32> = Mutex::new(0);
static FREE: Condvar = Condvar::new();

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

fn thread_id() -> u64 {
    DEPTH.with(|depth| std::ptr::from_ref(depth) as u64)
}

/// Being inside; leaves when dropped.
pub struct Guard {
    locked: bool,
}

/// Says whether several threads may call at a time. Called by the initialisation, from inside.
pub fn set_locking(locking: bool) {
    LOCKING.store(locking, Ordering::Relaxed);
}

/// Whether several threads may call at a time.
#[inline]
pub fn is_locking() -> bool {
    LOCKING.load(Ordering::Relaxed)
}

/// Enters the critical section.
#[inline]
pub fn enter() -> Guard {
    let locked = is_locking();
    if locked {
        lock(1);
    }
    Guard { locked }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        if self.locked {
            unlock(1);
        }
    }
}

#[cold]
fn lock(depth: u32) {
    let me = thread_id();
    if OWNER.load(Ordering::Relaxed) == me {
        DEPTH.with(|d| d.set(d.get() + depth));
        return;
    }
    // SYNC(critical-section): acquires what the last owner released in `unlock`.
    if OWNER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed).is_err() {
        let mut waiting: MutexGuard<'_, u32> = HANDOVER.lock().unwrap_or_else(PoisonError::into_inner);
        *waiting += 1;
        while OWNER.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            waiting = FREE
                .wait_timeout(waiting, std::time::Duration::from_micros(200))
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *waiting -= 1;
    }
    DEPTH.with(|d| d.set(depth));
}

#[cold]
fn unlock(depth: u32) {
    let left = DEPTH.with(|d| {
        d.set(d.get() - depth);
        d.get()
    });
    if left == 0 {
        // SYNC(critical-section): publishes everything done inside to the next owner in `lock`.
        OWNER.store(0, Ordering::Release);
        FREE.notify_one();
    }
}

/// Runs `f` outside of the critical section, however deeply it was entered: for sleeping and yielding.
pub fn released<R>(f: impl FnOnce() -> R) -> R {
    if !is_locking() || OWNER.load(Ordering::Relaxed) != thread_id() {
        return f();
    }
    let depth = DEPTH.with(Cell::get);
    unlock(depth);
    let result = f();
    lock(depth);
    result
}
