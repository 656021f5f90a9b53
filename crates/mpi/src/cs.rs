//! The critical section: one reentrant lock around every MPI call.
//!
//! Only a program that asked for `MPI_THREAD_MULTIPLE` pays for it: below that level [`enter`] is one load of a flag.
//! Some functions may be called by any thread at any time, whatever the level (MPI-5.0, 11.4): of infos, error handlers, error
//! codes, sessions. They, and all others that touch such objects, always take the lock ([`enter_always`]).
//! Everything in this crate (tables, `Rc`s, the engine) relies on being inside. Callbacks of the program run inside too and
//! may call MPI again, hence reentrant. A wait that sleeps gives the lock away completely ([`released`]).

use crate::inside::Inside;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// True until initialisation says that only one thread calls at a time, and again when MPI has no users any more.
static LOCKING: AtomicBool = AtomicBool::new(true);

/// The thread inside (its [`thread_id`]), 0 for none.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// Threads that sleep until somebody leaves.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);
static WAITING: Mutex<()> = Mutex::new(());
static LEFT: Condvar = Condvar::new();

/// What looks after threads that sleep in MPI, from inside, whenever a thread leaves; told whether it returns to the program.
type OnLeaving = fn(returns: bool);
static ON_LEAVING: Inside<Cell<Option<OnLeaving>>> = Inside::new(Cell::new(None));

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls `look` from now on whenever a thread leaves while several may call at a time.
pub(crate) fn on_leaving(look: OnLeaving) {
    ON_LEAVING.set(Some(look));
}

/// A number of this thread, not 0.
pub(crate) fn thread_id() -> u64 {
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

/// Enters the critical section, for what any thread may call whatever the level of thread support.
pub fn enter_always() -> Guard {
    lock(1);
    Guard { locked: true }
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
            unlock(1, true);
        }
    }
}

/// Attempts, each followed by a yield, before a thread that finds somebody inside sleeps.
const ATTEMPTS: u32 = 64;

/// Longest sleep of a thread that waits to get in: a backstop, the one who leaves wakes it.
const NAP: Duration = Duration::from_micros(500);

fn try_lock(me: u64) -> bool {
    // SYNC(critical-section): acquires what the last owner released in `unlock`.
    OWNER.compare_exchange(0, me, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

#[cold]
fn lock(depth: u32) {
    let me = thread_id();
    if OWNER.load(Ordering::Relaxed) == me {
        DEPTH.with(|d| d.set(d.get() + depth));
        return;
    }
    let mut attempts = 0;
    while !try_lock(me) {
        attempts += 1;
        if attempts < ATTEMPTS {
            std::thread::yield_now();
            continue;
        }
        let waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        SLEEPERS.fetch_add(1, Ordering::SeqCst);
        // Under the mutex, which whoever leaves after this look takes before it wakes a sleeper: so no wake-up is lost.
        if OWNER.load(Ordering::SeqCst) != 0 {
            drop(LEFT.wait_timeout(waiting, NAP));
        }
        SLEEPERS.fetch_sub(1, Ordering::SeqCst);
    }
    DEPTH.with(|d| d.set(depth));
}

#[cold]
fn unlock(depth: u32, returns: bool) {
    let left = DEPTH.with(Cell::get) - depth;
    if left == 0
        && is_locking()
        && let Some(look) = ON_LEAVING.get()
    {
        look(returns);
    }
    DEPTH.with(|d| d.set(left));
    if left == 0 {
        // SYNC(critical-section): publishes everything done inside to the next owner in `try_lock`.
        OWNER.store(0, Ordering::SeqCst);
        if SLEEPERS.load(Ordering::SeqCst) > 0 {
            drop(WAITING.lock().unwrap_or_else(PoisonError::into_inner));
            LEFT.notify_one();
        }
    }
}

/// Runs `f` outside of the critical section, however deeply it was entered: for sleeping and yielding.
pub fn released<R>(f: impl FnOnce() -> R) -> R {
    if OWNER.load(Ordering::Relaxed) != thread_id() {
        return f();
    }
    let (depth, call) = (DEPTH.with(Cell::get), crate::call::current());
    unlock(depth, false);
    let result = f();
    lock(depth);
    if let Some(name) = call {
        crate::call::enter(name);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    struct Shared(UnsafeCell<u64>);
    // SAFETY: only touched inside the critical section.
    unsafe impl Sync for Shared {}
    static COUNT: Shared = Shared(UnsafeCell::new(0));

    fn bump() {
        // SAFETY: the caller is inside; no other borrow is alive.
        unsafe { *COUNT.0.get() += 1 }
    }

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for i in 0..2000 {
                        let _outer = enter();
                        let _inner = enter();
                        bump();
                        if i % 64 == 0 {
                            released(std::thread::yield_now);
                        }
                        bump();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        let _guard = enter();
        // SAFETY: inside.
        assert_eq!(unsafe { *COUNT.0.get() }, 16_000);
    }
}
