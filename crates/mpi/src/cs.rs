//! The critical section: one reentrant lock around every MPI call.
//!
//! Only a program that asked for `MPI_THREAD_MULTIPLE` pays for it: below that level [`enter`] is one load of the mode. If a thread of the library itself
//! may be inside, too ([`crate::bias`]), it is four more instructions.
//! Some functions may be called by any thread at any time, whatever the level (MPI-5.0, 11.4): of infos, error handlers, error
//! codes, sessions. They, and all others that touch such objects, always take the lock ([`enter_always`]).
//! Everything in this crate (tables, `Rc`s, the engine) relies on being inside. Callbacks of the program run inside too and
//! may call MPI again, hence reentrant. A wait that sleeps gives the lock away completely ([`released`]).
//!
//! A [`Section`] proves that its holder is inside (decision 0023). It has no size: passing it costs nothing. Whoever looks at the state
//! of a module needs it shared, and what is borrowed there lives no longer than that. Whoever waits or calls the program needs it
//! exclusively, so nothing is borrowed meanwhile.
//!
//! State can't be reached without it:
//! ```compile_fail,E0061
//! let room = mpi::comm::COMMS.get().has_room();
//! ```
//! With it, it can:
//! ```
//! // SAFETY: nobody up the stack is inside.
//! let mut inside = unsafe { mpi::cs::enter() };
//! let cs = inside.section();
//! let room = mpi::comm::COMMS.get(cs).has_room();
//! assert!(room);
//! ```
//! The lock isn't given away under a borrow:
//! ```compile_fail,E0502
//! # use mpi::cs::{self, Section};
//! fn f(cs: &mut Section) {
//!     let comms = mpi::comm::COMMS.get(cs);
//!     cs::released(cs, || ());
//!     comms.has_room();
//! }
//! ```
//! And no function of the program is called under one:
//! ```compile_fail,E0502
//! # use mpi::{cs::Section, attr::Callbacks, handle::Handle};
//! fn f(cs: &mut Section, of: &dyn Callbacks) {
//!     let comms = mpi::comm::COMMS.get(cs);
//!     of.delete(cs, Handle::COMM_SELF, 0, std::ptr::null_mut());
//!     comms.has_room();
//! }
//! ```
//! Another thread doesn't get the proof:
//! ```compile_fail,E0277
//! # use mpi::cs::Section;
//! fn f(cs: &mut Section) {
//!     std::thread::scope(|threads| {
//!         threads.spawn(|| mpi::comm::COMMS.get(cs).has_room());
//!     });
//! }
//! ```

use crate::bias::{self, Mode};
use crate::inside::Inside;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The thread inside (its [`thread_id`]), 0 for none.
static OWNER: AtomicU64 = AtomicU64::new(0);

/// Threads that sleep until somebody leaves.
static SLEEPERS: AtomicU32 = AtomicU32::new(0);
static WAITING: Mutex<()> = Mutex::new(());
static LEFT: Condvar = Condvar::new();

/// What looks after threads that sleep in MPI, from inside, whenever a thread leaves; told whether it returns to the program.
type OnLeaving = fn(cs: &mut Section, returns: bool);
static ON_LEAVING: Inside<Cell<Option<OnLeaving>>> = Inside::new(Cell::new(None));

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Calls `look` from now on whenever a thread leaves while several may call at a time.
pub(crate) fn on_leaving(cs: &Section, look: OnLeaving) {
    ON_LEAVING.get(cs).set(Some(look));
}

/// A number of this thread, not 0.
pub(crate) fn thread_id() -> u64 {
    DEPTH.with(|depth| std::ptr::from_ref(depth) as u64)
}

/// Proof that this thread is inside. Only a [`Guard`] has one, and there is one way to each: it is neither copied nor sent.
pub struct Section {
    /// Neither `Send` nor `Sync`.
    of_this_thread: PhantomData<*const ()>,
}

impl Section {
    /// Proof without a guard, for code that is called from inside but not passed the proof.
    ///
    /// # Safety
    /// The thread is inside as long as the proof is used, and whoever holds the exclusive one doesn't use it meanwhile.
    #[inline(always)]
    pub unsafe fn assume<'a>() -> &'a Section {
        &Section { of_this_thread: PhantomData }
    }
}

/// By what right a thread is inside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// No other thread calls.
    Nothing,
    /// The lock.
    Lock,
    /// The mark that keeps the library's own thread out ([`crate::bias`]).
    Bias,
}

/// Being inside; leaves when dropped.
pub struct Guard {
    held: Held,
    of_this_thread: PhantomData<*const ()>,
}

impl Guard {
    #[inline(always)]
    fn new(held: Held) -> Guard {
        Guard { held, of_this_thread: PhantomData }
    }

    /// The proof. It doesn't lie in the guard, whose fields so stay in registers.
    #[inline(always)]
    pub fn section(&mut self) -> &mut Section {
        // SAFETY: it has no size, so any aligned address is good, and the guard is borrowed as long as it is used.
        unsafe { NonNull::dangling().as_mut() }
    }
}

/// Says whether several threads of the program may call at a time. Called by the initialisation, from inside. They may until then, and again when MPI has no users.
pub fn set_locking(_cs: &Section, locking: bool) {
    bias::set_several(locking);
}

/// Whether other threads may come in when this one, which is inside, gives the lock away.
#[inline]
pub fn is_locking() -> bool {
    match bias::mode() {
        Mode::Unlocked => false,
        Mode::Locked => true,
        Mode::Biased => OWNER.load(Ordering::Relaxed) == thread_id(),
    }
}

/// Enters the critical section, for what any thread may call whatever the level of thread support.
///
/// # Safety
/// As for [`enter`].
pub unsafe fn enter_always() -> Guard {
    lock(1);
    Guard::new(Held::Lock)
}

/// Enters the critical section.
///
/// # Safety
/// Nobody up the stack of this thread uses a [`Section`], or a borrow that needs one, until the guard is dropped: the caller is an entry of
/// the program, which was outside or in a callback that got the section exclusively. Below `MPI_THREAD_MULTIPLE`,
/// the program keeps its promise of one thread at a time.
#[inline]
pub unsafe fn enter() -> Guard {
    match bias::mode() {
        Mode::Unlocked => Guard::new(Held::Nothing),
        _ => enter_shared(),
    }
}

#[cold]
fn enter_shared() -> Guard {
    if bias::mode() == Mode::Biased && bias::mark() {
        return Guard::new(Held::Bias);
    }
    lock(1);
    Guard::new(Held::Lock)
}

/// Enters the critical section if that takes neither lock nor mark: MPI runs, and only one thread calls it at a time.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub unsafe fn enter_unlocked() -> Option<Guard> {
    (bias::mode() == Mode::Unlocked).then(|| Guard::new(Held::Nothing))
}

/// Enters the critical section if that takes the mark.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub unsafe fn enter_biased() -> Option<Guard> {
    (bias::mode() == Mode::Biased && bias::mark()).then(|| Guard::new(Held::Bias))
}

/// Runs `f` with the lock taken whatever the level, for what shares objects with functions that any thread may call.
pub fn locked<R>(_outer: &mut Section, f: impl FnOnce(&mut Section) -> R) -> R {
    // SAFETY: the outer section is not used meanwhile.
    let mut inside = unsafe { enter_always() };
    f(inside.section())
}

/// For unit tests, which run on many threads: one of them is inside.
#[cfg(test)]
pub(crate) fn enter_test() -> Guard {
    // SAFETY: tests enter once, at their beginning.
    unsafe { enter() }
}

impl Drop for Guard {
    #[inline]
    fn drop(&mut self) {
        match self.held {
            Held::Nothing => {}
            Held::Lock => unlock(self.section(), 1, true),
            Held::Bias => bias::unmark(),
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
fn unlock(cs: &mut Section, depth: u32, returns: bool) {
    let left = DEPTH.with(Cell::get) - depth;
    if left == 0
        && is_locking()
        && let Some(look) = ON_LEAVING.get(cs).get()
    {
        look(cs, returns);
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
pub fn released<R>(cs: &mut Section, f: impl FnOnce() -> R) -> R {
    if OWNER.load(Ordering::Relaxed) != thread_id() {
        return f();
    }
    let (depth, call) = (DEPTH.with(Cell::get), crate::call::current());
    unlock(cs, depth, false);
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

    static COUNT: Inside<Cell<u64>> = Inside::new(Cell::new(0));

    fn bump(cs: &Section) {
        let count = COUNT.get(cs);
        count.set(count.get() + 1);
    }

    /// A callback of the program, which calls MPI again.
    fn call_back(_cs: &mut Section) {
        // SAFETY: the caller has given its section away.
        let mut inner = unsafe { enter() };
        bump(inner.section());
        released(inner.section(), std::thread::yield_now);
    }

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for i in 0..2000 {
                        let mut inside = enter_test();
                        let cs = inside.section();
                        bump(cs);
                        if i % 64 == 0 {
                            released(cs, std::thread::yield_now);
                        }
                        call_back(cs);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_eq!(COUNT.get(enter_test().section()).get(), 16_000);
    }

    #[test]
    fn the_proof_has_no_size() {
        assert_eq!((size_of::<Section>(), size_of::<Guard>()), (0, 1));
    }
}
